"""Settings of a training run that its visitor changes while it trains, or continues.

Learning rate and clipping bound do not enter ε: the noise is a multiple of the bound,
and every step releases a Gaussian of the same noise multiplier and sampling rate,
whatever was chosen after earlier releases (adaptive composition).  Noise, batch size
and steps do enter it.  They need a budget that was fixed at the start, against which a
privacy filter counts every step (``accounting.FilteredRun``).

ε does not cover a choice that was made after a look at anything else about the records,
such as the loss or the lengths of gradients.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, Self, TypeVar

from dpsgd_explorer.accounting import Plan, RenyiFilter
from dpsgd_explorer.accounting.spending import Spending
from dpsgd_explorer.errors import AccountingError, ConfigError
from dpsgd_explorer.experiments.events import Changes
from dpsgd_explorer.experiments.schedules import ADAPTIVE, CONSTANT

#: What does not enter ε.
FREE = ("learning_rate", "max_grad_norm")
#: What a privacy filter counts, if there is noise.
COUNTED = ("noise_multiplier", "expected_batch_size", "steps")
CHANGEABLE = (*FREE, *COUNTED)
#: What a run that has ended and is continued logs: steps more than it has done.
FURTHER = "further_steps"
CHANGED, CONTINUED = "changed in mid-run", "continued"
NOT_CONTINUED = f"{FURTHER} cannot be added to this run: "
# What a filter, which counts step by step, allows beside it.
BESIDE_FILTER: dict[str, tuple[Any, ...]] = {
    "noise_schedule": (CONSTANT,),
    "clipping_schedule": (CONSTANT,),
    "accountant": ("exact", "all"),
    "stop_at_epsilon": (None,),
}


def words_of(changes: Changes) -> str:
    """Return what became of a run by choice: changed, continued or both; "" if none."""
    went_on = any(FURTHER in values for _, values in changes)
    has_changed = any(values.keys() - {FURTHER} for _, values in changes)
    done = [CHANGED] * has_changed + [CONTINUED] * went_on
    return " and ".join(done)


class Changeable(Protocol):
    """The part of ``TrainingConfig`` that is needed here."""

    @property
    def private(self) -> bool: ...

    @property
    def delta(self) -> float: ...

    @property
    def filter_epsilon(self) -> float | None: ...

    @property
    def noise_multiplier(self) -> float | None: ...

    @property
    def noise_schedule(self) -> str: ...

    @property
    def clipping_schedule(self) -> str: ...

    @property
    def is_filtered(self) -> bool: ...

    @property
    def plan(self) -> Plan: ...

    def spending(self) -> Spending: ...

    def changed(self, values: Mapping[str, Any]) -> Self: ...

    def model_dump(self, *, mode: str) -> dict[str, Any]: ...

    @classmethod
    def parse(cls, values: object) -> Self: ...


C = TypeVar("C", bound=Changeable)


def check_filter(config: Changeable) -> None:
    """Refuse a budget for changes where steps cannot be counted one by one.

    Raises:
        ConfigError: names the setting at fault.
    """
    if not config.is_filtered:
        return
    for name, allowed in BESIDE_FILTER.items():
        if getattr(config, name) not in allowed:
            wanted = "empty" if allowed[0] is None else repr(allowed[0])
            raise ConfigError(
                name,
                f"{name} must be {wanted} with filter_epsilon, whose filter counts "
                f"step by step, got {getattr(config, name)!r}.",
            )
    if config.noise_multiplier == 0:
        raise ConfigError(
            "filter_epsilon",
            "filter_epsilon must be empty without noise, which no budget allows, got "
            f"{config.filter_epsilon!r}.",
        )
    try:
        RenyiFilter(config.filter_epsilon or 0.0, config.delta)
    except AccountingError:
        raise ConfigError(
            "filter_epsilon",
            f"filter_epsilon must be larger at delta = {config.delta:g}, where "
            f"{config.filter_epsilon!r} leaves nothing for any step.",
        ) from None


def changed(config: C, values: Mapping[str, Any]) -> C:
    """Return the settings after a change in mid-run.

    Raises:
        ConfigError: a setting cannot be changed, or its value is not allowed.
    """
    for name in values:
        if reason := _why_fixed(config, name):
            raise ConfigError(name, f"{name} {reason}")
    counted = any(name in COUNTED for name in values)
    base = _as_planned(config) if counted else config.model_dump(mode="json")
    return config.parse(base | dict(values))


def why_not_continued(config: Changeable) -> str:
    """Return why a run cannot go on once its steps are done; "" if it can."""
    if config.plan.is_private and not config.is_filtered:
        return (
            "its ε holds for a plan fixed beforehand, and more steps would be chosen "
            "while looking. A run with a budget for changes, fixed before the first "
            "step, can be continued."
        )
    schedules = {config.noise_schedule, config.clipping_schedule}
    if config.private and schedules != {CONSTANT}:
        return (
            "its noise or its clipping bound follows a schedule that ends with its "
            "steps. Start another run."
        )
    return ""


def not_continued(reason: str) -> ConfigError:
    """Return the error of steps that a run cannot take more."""
    return ConfigError(FURTHER, f"{NOT_CONTINUED}{reason}")


def continued(config: C, steps: int) -> C:
    """Return the settings of a run that has ended and goes on to so many steps.

    Raises:
        ConfigError: its ε is that of its plan, or its bound follows a schedule.
    """
    if reason := why_not_continued(config):
        raise not_continued(reason)
    longer = {"steps": steps, "stop_at_epsilon": None}
    return config.parse(_as_planned(config) | longer)


def after(config: C, step: int, values: Mapping[str, Any]) -> C:
    """Return the settings after a change that was made after so many steps.

    Steps that are done cannot be taken back: a smaller number of steps ends the run.

    Raises:
        ConfigError: as ``changed`` and ``continued``.
    """
    wanted = dict(values)
    if FURTHER in wanted:
        config = continued(config, step + wanted.pop(FURTHER))
    if "steps" in wanted:
        wanted["steps"] = max(wanted["steps"], step)
    return config.changed(wanted) if wanted else config


def along(config: C, changes: Changes) -> tuple[C, Spending]:
    """Return the settings after some changes, and what counts the run's steps.

    Args:
        config: The settings at the start.
        changes: As logged.

    Raises:
        ConfigError: as ``after``.
    """
    spending = config.spending()
    for step, values in changes:
        config = after(config, step, values)
        if is_counted(values):
            spending.change(step, config.plan)
    return config, spending


def is_counted(values: Mapping[str, Any]) -> bool:
    """Whether a change enters what is spent."""
    return any(name in (FURTHER, *COUNTED) for name in values)


def _as_planned(config: Changeable) -> dict[str, Any]:
    """Return the settings with noise and steps as numbers, as JSON values."""
    plan = config.plan
    now: dict[str, Any] = {"steps": plan.steps, "epochs": None}
    if config.private:
        now |= {"noise_multiplier": plan.noise_multiplier, "target_epsilon": None}
    return config.model_dump(mode="json") | now


def _why_fixed(config: Changeable, name: str) -> str:
    """Return why a setting cannot be changed in mid-run; "" if it can."""
    if name not in CHANGEABLE:
        return (
            f"cannot be changed while a run trains; {', '.join(CHANGEABLE[:-1])} and "
            f"{CHANGEABLE[-1]} can. Start another run."
        )
    if name in ("max_grad_norm", "noise_multiplier") and not config.private:
        return "has no effect in a run without privacy; change another setting."
    if name == "max_grad_norm" and config.clipping_schedule == ADAPTIVE:
        return "follows the gradients in this run; start another run to choose it."
    if name in COUNTED and config.private and not config.is_filtered:
        return (
            "cannot be changed in this run: its ε holds for a plan fixed beforehand. "
            "Start another run with filter_epsilon, the budget for changes, which must "
            "be fixed before the first step."
        )
    return ""

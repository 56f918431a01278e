"""Mid-run changes of a training run's settings, and its continuation.

Learning rate and clipping bound do not affect ε: the noise is a multiple of the bound,
and every step releases a Gaussian with the same noise multiplier and sampling rate, for
any choice made after earlier releases (adaptive composition).  Noise, batch size and
steps affect ε.  Changing them needs a budget that was fixed at the start, against which
a privacy filter counts every step (``accounting.FilteredRun``).

ε does not cover a choice that was based on any other view of the records, such as the
loss or the gradient norms.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, Self, TypeVar

from dpsgd_explorer.accounting import Plan, RenyiFilter
from dpsgd_explorer.accounting.sampling_schemes import POISSON
from dpsgd_explorer.accounting.spending import Spending
from dpsgd_explorer.errors import AccountingError, ConfigError
from dpsgd_explorer.experiments.events import Changes
from dpsgd_explorer.experiments.schedules import ADAPTIVE, CONSTANT

#: Settings that do not affect ε.
FREE = ("learning_rate", "max_grad_norm")
#: Settings that a privacy filter counts, in a run with noise.
COUNTED = ("noise_multiplier", "expected_batch_size", "steps")
CHANGEABLE = (*FREE, *COUNTED)
#: Logged name of the steps that are added to a run after its end.
FURTHER = "further_steps"
CHANGED, CONTINUED = "changed in mid-run", "continued"
NOT_CONTINUED = f"{FURTHER} cannot be added to this run: "
# Values that are allowed with a filter, which counts step by step.
ALLOWED_WITH_FILTER: dict[str, tuple[Any, ...]] = {
    "noise_schedule": (CONSTANT,),
    "clipping_schedule": (CONSTANT,),
    "accountant": ("exact", "all"),
    "sampling": (POISSON,),
    "noise_bands": (1,),
    "stop_at_epsilon": (None,),
}


def words_of(changes: Changes) -> str:
    """Return how a run was altered: changed, continued or both; "" if unaltered."""
    was_continued = any(FURTHER in values for _, values in changes)
    was_changed = any(values.keys() - {FURTHER} for _, values in changes)
    words = [CHANGED] * was_changed + [CONTINUED] * was_continued
    return " and ".join(words)


class Changeable(Protocol):
    """The part of ``TrainingConfig`` that this module uses."""

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
    def has_correlated_noise(self) -> bool: ...

    @property
    def plan(self) -> Plan: ...

    def spending(self) -> Spending: ...

    def changed(self, values: Mapping[str, Any]) -> Self: ...

    def model_dump(self, *, mode: str) -> dict[str, Any]: ...

    @classmethod
    def parse(cls, values: object) -> Self: ...


C = TypeVar("C", bound=Changeable)


def check_filter(config: Changeable) -> None:
    """Reject a budget for changes if steps cannot be counted one by one.

    Raises:
        ConfigError: names the invalid setting.
    """
    if not config.is_filtered:
        return
    for name, allowed in ALLOWED_WITH_FILTER.items():
        if getattr(config, name) not in allowed:
            required = "empty" if allowed[0] is None else repr(allowed[0])
            raise ConfigError(
                name,
                f"{name} must be {required} with filter_epsilon, whose filter counts "
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
    """Return the settings after a mid-run change.

    Raises:
        ConfigError: a setting cannot be changed, or its value is not allowed.
    """
    for name in values:
        if reason := _why_fixed(config, name):
            raise ConfigError(name, f"{name} {reason}")
    needs_counting = any(name in COUNTED for name in values)
    base = _as_planned(config) if needs_counting else config.model_dump(mode="json")
    return config.parse(base | dict(values))


def why_not_continued(config: Changeable) -> str:
    """Return the reason why a run cannot be continued; "" if it can."""
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
    """Return the error for a run that cannot take further steps."""
    return ConfigError(FURTHER, f"{NOT_CONTINUED}{reason}")


def continued(config: C, steps: int) -> C:
    """Return the settings of an ended run that continues up to ``steps`` steps.

    Raises:
        ConfigError: its ε belongs to a fixed plan, or its bound follows a schedule.
    """
    if reason := why_not_continued(config):
        raise not_continued(reason)
    longer = {"steps": steps, "stop_at_epsilon": None}
    return config.parse(_as_planned(config) | longer)


def after(config: C, step: int, values: Mapping[str, Any]) -> C:
    """Return the settings after a change made after ``step`` steps.

    Done steps cannot be undone: a smaller number of steps ends the run.

    Raises:
        ConfigError: see ``changed`` and ``continued``.
    """
    new_values = dict(values)
    if FURTHER in new_values:
        config = continued(config, step + new_values.pop(FURTHER))
    if "steps" in new_values:
        new_values["steps"] = max(new_values["steps"], step)
    return config.changed(new_values) if new_values else config


def along(config: C, changes: Changes) -> tuple[C, Spending]:
    """Return the settings after all changes, and the counter of the run's spending.

    Args:
        config: The settings at the start.
        changes: Changes as logged.

    Raises:
        ConfigError: see ``after``.
    """
    spending = config.spending()
    for step, values in changes:
        config = after(config, step, values)
        if is_counted(values):
            spending.change(step, config.plan)
    return config, spending


def is_counted(values: Mapping[str, Any]) -> bool:
    """Return whether a change affects the spent ε."""
    return any(name in (FURTHER, *COUNTED) for name in values)


def _as_planned(config: Changeable) -> dict[str, Any]:
    """Return the settings, with noise and steps as numbers, as JSON values."""
    plan = config.plan
    numbers: dict[str, Any] = {"steps": plan.steps, "epochs": None}
    if config.private:
        numbers |= {"noise_multiplier": plan.noise_multiplier, "target_epsilon": None}
    return config.model_dump(mode="json") | numbers


def _why_fixed(config: Changeable, name: str) -> str:
    """Return the reason why a setting cannot be changed in mid-run; "" if it can."""
    if name not in CHANGEABLE:
        return (
            f"cannot be changed while a run trains; {', '.join(CHANGEABLE[:-1])} and "
            f"{CHANGEABLE[-1]} can. Start another run."
        )
    if name in ("max_grad_norm", "noise_multiplier") and not config.private:
        return "has no effect in a run without privacy; change another setting."
    if name == "max_grad_norm" and config.clipping_schedule == ADAPTIVE:
        return "follows the gradients in this run; start another run to choose it."
    if name == "max_grad_norm" and config.has_correlated_noise:
        return "must stay the same in a run with correlated noise; start another run."
    if name in COUNTED and config.private and not config.is_filtered:
        return (
            "cannot be changed in this run: its ε holds for a plan fixed beforehand. "
            "Start another run with filter_epsilon, the budget for changes, which must "
            "be fixed before the first step."
        )
    return ""

"""The settings of a blind search: trials nobody sees but the best; loads no torch.

The settings that are searched enter neither ε nor the time of a training: the log of a
search and its times are the same whatever its trials draw.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from itertools import product
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from dpsgd_explorer.accounting import (
    PaddedSelection,
    RdpCurve,
    padded_selection,
)
from dpsgd_explorer.errors import AccountingError, ConfigError
from dpsgd_explorer.experiments.config import KIND_HELP, RunConfig
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.experiments.vocabulary import setting

SEARCHED = ("learning_rate", "max_grad_norm", "momentum")
MOST_VALUES = 20
GROUP = "Search"


def values_name(name: str) -> str:
    """Return the name of the setting that lists the values to try of another one."""
    return f"{name}_values"


LISTS = {values_name(name) for name in SEARCHED}
LISTED = values_name(SEARCHED[0])
USUAL_VALUES = "2 4 8 16"


class SearchConfig(TrainingConfig):
    """The settings of one search: those of every trial, and what is tried.

    What is tried replaces the setting of its name.  An instance that exists is valid.
    """

    TO_COST_LESS: ClassVar[str] = "a smaller expected_batch_size or fewer steps"

    kind: Literal["search"] = Field(  # type: ignore[assignment]  # narrowed
        "search", description=KIND_HELP
    )
    mean_trials: float = setting("mean_trials", 10.0, group=GROUP)
    learning_rate_values: str | None = setting(
        "learning_rate_values", None, group=GROUP
    )
    max_grad_norm_values: str | None = setting(
        "max_grad_norm_values", None, group=GROUP
    )
    momentum_values: str | None = setting("momentum_values", None, group=GROUP)
    audit: int = Field(
        0,
        ge=0,
        title="Canaries",
        description="Has no effect: trials have no canaries, for their scores would "
        "reveal the best trial.",
    )

    @model_validator(mode="before")
    @classmethod
    def _fill_values(cls, values: Any) -> Any:
        """Search the learning rate if nothing is said of what is searched."""
        if not isinstance(values, dict) or LISTS & values.keys():
            return values
        return values | {LISTED: USUAL_VALUES}

    @model_validator(mode="after")
    def _can_be_searched(self) -> Self:
        if not self.private or self.noise_multiplier == 0:
            field = "noise_multiplier" if self.private else "private"
            raise ConfigError(
                field,
                f"{field}: a search must have privacy and noise, for its cost is the "
                "sum of its trials, got none. Sweep the setting instead.",
            )
        for name in ("stop_at_epsilon", "filter_epsilon"):
            value = getattr(self, name)
            if value is not None:
                raise ConfigError(
                    name,
                    f"{name} must be left out: a trial takes all its steps, got "
                    f"{value:g}. Take fewer steps.",
                )
        if self.table is not None:
            raise ConfigError(
                "dataset",
                f"dataset must be one of the site’s: a search chooses by the accuracy "
                "on test records, and test records of your own table are private, got "
                f"{self.dataset!r}.",
            )
        _ = self.grid
        return self

    @cached_property
    def searched(self) -> tuple[str, ...]:
        """Names of the settings that are searched."""
        return tuple(
            name for name in SEARCHED if getattr(self, values_name(name)) is not None
        )

    @cached_property
    def grid(self) -> tuple[dict[str, float], ...]:
        """Every combination of the values to try; each trial draws one.

        Raises:
            ConfigError: names the list that is empty, or the value that is not allowed.
        """
        lists = [self._values(name) for name in self.searched]
        grid = [
            dict(zip(self.searched, values, strict=True)) for values in product(*lists)
        ]
        if len(grid) < 2:
            raise ConfigError(
                LISTED,
                f"{LISTED}, or the values of another setting, must be 2 or more to "
                f"choose from, got {len(grid) if self.searched else 0}.",
            )
        return tuple(grid)

    def _values(self, name: str) -> list[float]:
        listed = values_name(name)
        texts = getattr(self, listed).split()
        if not 1 <= len(texts) <= MOST_VALUES or len(set(texts)) < len(texts):
            raise ConfigError(
                listed,
                f"{listed} must be 1 to {MOST_VALUES} different numbers parted by "
                f"spaces, got {getattr(self, listed)!r}.",
            )
        return [self._checked(name, text) for text in texts]

    def _checked(self, name: str, text: str) -> float:
        """Return one value to try, as a trial will have it."""
        try:
            self._with({name: float(text)})
            return float(text)
        except (ValueError, ConfigError) as error:
            rule = str(error) if isinstance(error, ConfigError) else f"got {text!r}."
            raise ConfigError(
                values_name(name),
                f"{values_name(name)} must be numbers that {name} may be: {rule}",
            ) from None

    def _with(self, values: Mapping[str, Any]) -> TrainingConfig:
        of_a_trial = set(TrainingConfig.model_fields) - {"kind"}
        shared = self.model_dump(mode="json", include=of_a_trial)
        return TrainingConfig.parse(shared | dict(values))

    def trial(self, drawn: Mapping[str, float], seed: int) -> TrainingConfig:
        """Return the settings of one trial.

        It has no canaries: their scores would tell the seed, and which trial it is.

        Args:
            drawn: One of ``grid``.
            seed: Of its sampling, noise and first weights.
        """
        return self._with(dict(drawn) | {"seed": seed, "audit": 0})

    @cached_property
    def base(self) -> TrainingConfig:
        """The settings of a training that searches nothing."""
        return self._with({})

    @cached_property
    def first_trial(self) -> TrainingConfig:
        """The settings of a trial that draws the first combination."""
        return self.trial(self.grid[0], self.seed)

    @property
    def plan_arguments(self) -> dict[str, Any]:
        """Those of one trial, which are the same whatever it draws."""
        return self.first_trial.plan_arguments

    @cached_property
    def price(self) -> PaddedSelection:
        """What the winner costs, and how many trainings are carried out.

        Raises:
            ConfigError: no number of trainings will do, or nothing can count them.
        """
        try:
            trial = RdpCurve.of(self.plan.phases)
            return padded_selection(
                trial, mean_trials=self.mean_trials, delta=self.delta
            )
        except AccountingError as error:
            field = error.field if error.field in type(self).model_fields else "steps"
            raise ConfigError(field, str(error)) from error

    def changed(self, values: Mapping[str, Any]) -> Self:
        """Refuse a change in mid-run: nothing of a trial is known before the end."""
        return RunConfig.changed(self, values)

    def check_reachable(self) -> None:
        """Raise ConfigError if there is no such search."""
        super().check_reachable()
        _ = self.price

    @property
    def trainings(self) -> int:
        """Trainings of every search with these settings, whatever number it draws."""
        return self.price.trainings

    @property
    def planned_steps(self) -> int:
        """Trainings: the unit in which a search goes on."""
        return self.trainings

    @property
    def length_setting(self) -> str:
        """Name of the setting that determines the length of the run."""
        return "mean_trials"

    @property
    def cost(self) -> float:
        """Multiply-adds of all trainings and their evaluations."""
        return self.trainings * self.first_trial.cost

"""The settings of a stored blind search, a kind of run that can no longer be launched.

A blind search trained a secret number of models and released only the best one.
"""

from __future__ import annotations

from functools import cached_property
from math import prod
from typing import Literal

from pydantic import Field

from dpsgd_explorer.accounting import PaddedSelection, RdpCurve, padded_selection
from dpsgd_explorer.experiments.config import KIND_HELP
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.experiments.vocabulary import setting

SEARCHED = ("learning_rate", "max_grad_norm", "momentum")
GROUP = "Search"


def values_name(name: str) -> str:
    """Return the name of the setting that lists the values of another setting."""
    return f"{name}_values"


class SearchConfig(TrainingConfig):
    """The settings of one search: the settings of each trial, and the lists of values.

    Each trial drew one value from each list. No list affects ε.
    """

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

    @cached_property
    def searched(self) -> dict[str, list[str]]:
        """The values of each setting that has a list."""
        lists = {name: getattr(self, values_name(name)) for name in SEARCHED}
        return {name: values.split() for name, values in lists.items() if values}

    @property
    def combinations(self) -> int:
        """Number of combinations of values."""
        return prod(len(values) for values in self.searched.values())

    @cached_property
    def price(self) -> PaddedSelection:
        """The cost of the winner, and the number of trainings."""
        trial = RdpCurve.of(self.plan.phases)
        return padded_selection(trial, mean_trials=self.mean_trials, delta=self.delta)

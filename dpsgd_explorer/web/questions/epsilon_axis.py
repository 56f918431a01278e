"""The ε axis of a run's charts: where the run ends on it, and ticks with their odds."""

from __future__ import annotations

import math
from typing import Literal

from pydantic import BaseModel

from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.web.charts.ticks import nice_step, spaced
from dpsgd_explorer.web.questions.odds import percent_at_most
from dpsgd_explorer.web.questions.rounding import limit

DIGITS = 2  # decimals of ε
SMALL_DIGITS = 4  # least number of decimals of a budget below 0.1
MOST_DECIMALS = 100  # limit of toFixed in browsers
TICKS = 6

Word = Literal["budget", "stop at", "planned", "spent"]


class EpsilonTick(BaseModel):
    """A tick; ``odds`` is the limit of this ε alone on right guesses, in percent."""

    epsilon: float
    text: str
    odds: str


class EpsilonAxis(BaseModel):
    """The ε axis of a run's charts.

    ``budget`` is the ε of the vertical line, null without privacy, and ``budget_word``
    its meaning. ``digits`` are the decimals of every ε of the run.
    """

    budget: float | None
    budget_word: Word
    budget_text: str
    digits: int
    ticks: list[EpsilonTick]


def epsilon_axis(budget: float | None, word: Word) -> EpsilonAxis:
    """Returns the axis of a run that ends at an ε; None: without privacy."""
    digits = decimals_of(budget)
    return EpsilonAxis(
        budget=budget,
        budget_word=word,
        budget_text="∞" if budget is None else limit(budget, digits),
        digits=digits,
        ticks=ticks_up_to(budget) if budget else [],
    )


def planned_axis(
    config: TrainingConfig, epsilon: float | None, *, stops_early: bool
) -> EpsilonAxis:
    """Returns the axis of a planned run.

    It ends at the budget for changes, at the ε at which the run stops, at the target,
    or at the planned final ε.

    Args:
        config: The settings.
        epsilon: Planned final ε, None without privacy.
        stops_early: If True, a limit on ε ends the run before its last step.
    """
    if epsilon is None:
        return epsilon_axis(None, "budget")
    if config.is_filtered:
        return epsilon_axis(config.filter_epsilon, "budget")
    if config.stop_at_epsilon and stops_early:
        return epsilon_axis(config.stop_at_epsilon, "stop at")
    if config.target_epsilon:
        return epsilon_axis(config.target_epsilon, "budget")
    return epsilon_axis(epsilon, "planned")


def decimals_of(budget: float | None) -> int:
    """Returns the decimals that resolve all values up to a budget."""
    if not budget or budget >= 0.1:
        return DIGITS
    return min(max(SMALL_DIGITS, 1 - math.floor(math.log10(budget))), MOST_DECIMALS)


def ticks_up_to(budget: float) -> list[EpsilonTick]:
    """Returns ticks from 0 to a budget above 0, each with the limit of ε alone."""
    step = nice_step(budget, TICKS)
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    return [
        EpsilonTick(
            epsilon=epsilon, text=f"{epsilon:.{digits}f}", odds=percent_at_most(epsilon)
        )
        for epsilon in spaced((0, budget * 1.0001), TICKS)
    ]

"""The ε of a run after a change of its settings now, or after its continuation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field

from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.experiments.events import changes_of
from dpsgd_explorer.experiments.mid_run import CHANGEABLE, FURTHER, along
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.web.questions.privacy import Epsilon, PrivacyTerms
from dpsgd_explorer.web.questions.question import Question
from dpsgd_explorer.web.questions.rounding import limit


class ChangeQuestion(Question):
    """A change of a run's settings; omitted settings do not change."""

    learning_rate: float | None = Field(None, description="New step size.")
    max_grad_norm: float | None = Field(None, description="New clipping bound.")
    noise_multiplier: float | None = Field(None, description="New noise multiplier.")
    expected_batch_size: int | None = Field(None, description="New mean batch size.")
    steps: int | None = Field(None, description="New number of steps of the run.")
    further_steps: int | None = Field(
        None, description="Number of further steps of an ended run."
    )

    @property
    def values(self) -> dict[str, Any]:
        """The given settings."""
        return self.model_dump(exclude_none=True)


class ChangeAnswer(Epsilon):
    """The guaranteed and the counted ε of the run with the change.

    ``epsilon`` is null without a guarantee.  ``counted`` is ε after ``last_step``, the
    last step that the budget allows; ``before`` is ε of the steps done so far.
    """

    counted: float | None
    before: float | None
    step: int
    steps: int
    last_step: int
    words: str


def price(
    config: TrainingConfig,
    phases: Sequence[Mapping[str, Any]],
    step: int,
    values: Mapping[str, Any],
) -> ChangeAnswer:
    """Return the ε of a run after a change.

    Args:
        config: Settings of the run at its start.
        phases: Data of the ``phase`` events in its log.
        step: Number of steps done.
        values: New values of the changed settings.

    Raises:
        ConfigError: no change is given, or a change is not allowed.
    """
    if not values:
        names = ", ".join((*CHANGEABLE, FURTHER))
        raise ConfigError("steps", f"at least one of {names} must be given, got none.")
    changes = [*changes_of(phases), (step, values)]
    changed, spending = along(config, changes)
    last = spending.last
    spent = spending.epsilons([step, last])
    counted = spent[last]
    epsilon = config.guaranteed(counted)
    terms = PrivacyTerms.of_counter(
        spending.accountant, config.delta, spending.status if counted else ""
    )
    return ChangeAnswer(
        **Epsilon.spent(math.inf if epsilon is None else epsilon, terms).model_dump(),
        counted=counted,
        before=spent[step],
        step=step,
        steps=changed.plan.steps,
        last_step=last,
        words=_words(config, step, changed.plan.steps, last, spent),
    )


def _words(
    config: TrainingConfig,
    step: int,
    steps: int,
    last: int,
    spent: Mapping[int, float | None],
) -> str:
    counted, before = spent[last], spent[step]
    if counted is None or before is None:
        return (
            f"The run would continue to step {last:,}; without noise it has no "
            "guarantee."
        )
    if not config.is_filtered:
        return f"To step {last:,}: ε = {limit(counted)} instead of {limit(before)}."
    budget = limit(config.filter_epsilon or 0.0)
    if last <= step < steps:
        return (
            f"The budget for changes, ε = {budget}, allows no such step: the run would "
            "end here. Use more noise or a smaller batch."
        )
    end = (
        f"The budget ends the run after step {last:,} of {steps:,}"
        if last < steps
        else f"All {steps:,} steps are within the budget"
    )
    return (
        f"{end}: the filter has counted ε = {limit(before)} and will count "
        f"{limit(counted)} of {budget}. The guarantee remains ε = {budget} (bound)."
    )

"""Figures of the chapter on practice: a person with several records, and systems."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from dpsgd_explorer.errors import DataError
from dpsgd_explorer.web.hub.chapters.in_the_real_world.deployments import (
    DEPLOYMENT_HEAD,
    DEPLOYMENTS,
    LIBRARIES,
    LIBRARY_HEAD,
)
from dpsgd_explorer.web.hub.widgets.people.group_privacy import (
    chained_text,
    epsilon_text,
    people_picture,
)
from dpsgd_explorer.web.questions.odds import percent_at_most as right_at_most
from dpsgd_explorer.web.questions.odds import posterior
from dpsgd_explorer.web.questions.rounding import limit, percent, percent_limit
from dpsgd_explorer.web.recorded.runs import RecordedRun, recorded, recorded_twin

__all__ = [
    "DEPLOYMENT_HEAD",
    "LIBRARIES",
    "LIBRARY_HEAD",
    "chained_text",
    "deployments",
    "epsilon_text",
    "fine_tuned",
    "posterior_percent",
    "right_at_most",
]

thumbnail = people_picture


@dataclass(frozen=True)
class FineTuned:
    """A private fine-tuning.

    Attributes:
        run: The recorded run.
        records: Number of records, one per person.
        parameters: Number of trained parameters.
        epsilon: Its ε, rounded up.
        private: Next characters predicted, in percent.
        ordinary: As ``private``, of the twin without privacy.
    """

    run: RecordedRun
    records: int
    parameters: int
    epsilon: str
    private: str
    ordinary: str


def deployments() -> list[tuple[str, ...]]:
    """Returns the rows of the table of deployed systems."""
    return [row.cells for row in DEPLOYMENTS]


def posterior_percent(prior: float, epsilon: float) -> str:
    """Returns the largest belief that a prior can become (δ = 0), in percent."""
    return percent_limit(posterior(epsilon, prior))


@cache
def fine_tuned() -> FineTuned:
    """Returns the recorded fine-tuning of a language model, with its twin."""
    run, twin = recorded("sentences"), recorded_twin("sentences")
    if twin is None:
        raise DataError("the recording of the language model must have a twin")
    receipt = run.data("end")[-1]["receipt"]
    return FineTuned(
        run,
        records=receipt["told"]["sample_size"],
        parameters=receipt["done"][0]["parameters"],
        epsilon=limit(receipt["epsilon"]),
        private=percent(run.curve()[-1][1]),
        ordinary=percent(twin.curve()[-1][1]),
    )

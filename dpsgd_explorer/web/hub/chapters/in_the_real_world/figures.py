"""Figures of the chapter on practice: a person with several records, and systems."""

from __future__ import annotations

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
from dpsgd_explorer.web.questions.rounding import percent_limit

__all__ = [
    "DEPLOYMENT_HEAD",
    "LIBRARIES",
    "LIBRARY_HEAD",
    "chained_text",
    "deployments",
    "epsilon_text",
    "posterior_percent",
    "right_at_most",
]

thumbnail = people_picture


def deployments() -> list[tuple[str, ...]]:
    """Returns the rows of the table of deployed systems."""
    return [row.cells for row in DEPLOYMENTS]


def posterior_percent(prior: float, epsilon: float) -> str:
    """Returns the largest belief that a prior can become (δ = 0), in percent."""
    return percent_limit(posterior(epsilon, prior))

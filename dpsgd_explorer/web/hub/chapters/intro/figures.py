"""Figures of the introduction: the survey with two coins, and odds."""

from __future__ import annotations

import math
from functools import cache, partial

from markupsafe import Markup

from dpsgd_explorer.web.figures.svg import Picture, Plot
from dpsgd_explorer.web.hub.examples.default_run import unclipped_learning_rate
from dpsgd_explorer.web.hub.widgets.randomised_response import survey
from dpsgd_explorer.web.hub.widgets.randomised_response.survey import (
    TRUE_SHARE,
    standard_error,
)
from dpsgd_explorer.web.questions.comparison import Comparison
from dpsgd_explorer.web.questions.odds import (
    attacker_accuracy,
    epsilon_of,
    posterior,
)
from dpsgd_explorer.web.questions.odds import percent_at_most as right_at_most
from dpsgd_explorer.web.questions.rounding import (
    certainty_limit,
    nearest,
    percent,
    points,
)

__all__ = [
    "even_odds_percent",
    "noise_error_by_place",
    "price_picture",
    "right_at_most",
    "right_calls_by_epsilon",
    "survey_factor",
    "unclipped_learning_rate",
    "wrong_answer_epsilon",
    "wrong_answer_percent",
]

PEOPLE = (100, 1_000, 10_000, 100_000)  # numbers of people in the survey
SHOWN = (0.1, 0.5, 1.0, 2.0, 4.0)  # ε in the table
WRONG_ANSWER = 0.51  # probability named by a wrong answer of a question

thumbnail = survey.answers_picture

right_calls_by_epsilon = Comparison(
    posterior, "epsilon", (0.1, 1.0, 3.0, 8.0), {"prior": 0.5}, certainty_limit
)
noise_error_by_place = Comparison(
    survey.noise_error,
    "noise_on",
    ("the total", "each answer"),
    {"people": 10_000, "epsilon": 1.0},
    points,
)


def survey_factor() -> str:
    """Returns the probability ratio of a true and a false answer."""
    return nearest(math.exp(survey.SURVEY_EPSILON), 0)


def even_odds_percent(epsilon: float) -> str:
    """Returns e^ε / (1 + e^ε) in percent, to two decimals."""
    return percent(attacker_accuracy(epsilon), 2)


def wrong_answer_percent() -> str:
    """Returns ``WRONG_ANSWER`` in percent."""
    return percent(WRONG_ANSWER, 0)


def wrong_answer_epsilon() -> str:
    """Returns the ε that allows at most ``WRONG_ANSWER``, to nearest."""
    return nearest(epsilon_of(WRONG_ANSWER))


@cache
def price_picture() -> Picture:
    """Returns the error of the survey against ε, for several numbers of people."""
    by_people = Comparison(
        standard_error,
        "people",
        (PEOPLE[1], PEOPLE[3]),
        {"epsilon": 1.0, "share": TRUE_SHARE},
        points,
    )
    few, many = by_people.values
    return Picture(
        title=(
            f"At ε = 1, {few:,} people give the share to about ±{by_people[0]} points, "
            f"{many:,} to ±{by_people[1]}"
        ),
        sub=(
            "Standard error of the estimated share, percentage points; in the title "
            f"with {by_people.held}"
        ),
        comparisons=(by_people,),
        wide=_errors((904, 320), narrow=False),
        narrow=_errors((342, 260), narrow=True),
        head=("ε", *(f"{n:,} people" for n in PEOPLE)),
        rows=tuple(
            (f"{e:g}", *(points(standard_error(e, n)) for n in PEOPLE)) for e in SHOWN
        ),
        status="exact",
    )


def _errors(size: tuple[int, int], *, narrow: bool) -> Markup:
    plot = Plot.framed(
        size,
        (0.1, 5.0),
        (0.1, 200.0),
        log_x=True,
        log_y=True,
        left=44,
        right=64 if narrow else 130,
    )
    plot.y_axis([(y, f"{y:g}") for y in (1, 10, 100)], "points, log scale")
    plot.x_axis([(x, f"{x:g}") for x in (0.1, 0.3, 1, 3)], "ε, log scale")
    for people in PEOPLE:
        line = plot.curve(partial(_error_in_points, people), "s-private")
        label = f"{people:,}" if narrow else f"{people:,} people"
        plot.text(line[-1], label, "private", shift=(8, 4.5))
    return plot.svg(
        f"{len(PEOPLE)} falling lines, one for each number of people; a hundred "
        "times the people lower the error by a factor of ten."
    )


def _error_in_points(people: int, epsilon: float) -> float:
    return 100 * standard_error(epsilon, people)

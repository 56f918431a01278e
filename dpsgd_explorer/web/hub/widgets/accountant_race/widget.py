"""The accountant race: one run, counted step by step by every accountant that applies.

The lab computes the curves; the script only shows them.

Misconception: "The smallest ε is the best accountant", and "a larger ε means less
    privacy"
Content: one run counted step by step by every accountant that applies, each marked
    exact, bound or approximation; the run is equally private each time, and the
    approximation ends below the truth; a close-up of the three nearest lines
Source: our accountants, as in the lab; Dong, Roth and Su 2019, arXiv:1905.02383;
    Mironov, Talwar and Zhang 2019, arXiv:1908.10530; Abadi et al. 2016,
    arXiv:1607.00133
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import urlencode

from markupsafe import Markup

from dpsgd_explorer import accounting
from dpsgd_explorer.web.figures.accountant_race import conclusion, draw, looks
from dpsgd_explorer.web.figures.svg import Picture, small
from dpsgd_explorer.web.forms.starts import Choices
from dpsgd_explorer.web.hub.examples.classic_run import DELTA, classic_plan
from dpsgd_explorer.web.hub.widgets.base import Widget
from dpsgd_explorer.web.questions.accountant_race import SILENT, race
from dpsgd_explorer.web.questions.comparison import Comparison
from dpsgd_explorer.web.questions.privacy import CurvesAnswer, Racer
from dpsgd_explorer.web.questions.privacy_models import CurvesQuestion
from dpsgd_explorer.web.questions.rounding import limit, thousands

POINTS = 41
CLOSE = ("exact", "rdp", "gdp")  # lines of the close-up
HEADROOM = 1.25  # length of the close-up's axis, as a multiple of its largest ε
LARGE = 100  # larger ε have no decimals


@dataclass(frozen=True)
class Course:
    """A run with a name."""

    name: str
    sample_rate: float
    noise_multiplier: float
    steps: int

    @property
    def settings(self) -> dict[str, float]:
        """Arguments of the accountants."""
        return {
            "sample_rate": self.sample_rate,
            "noise_multiplier": self.noise_multiplier,
            "steps": self.steps,
            "delta": DELTA,
        }

    @property
    def counts(self) -> Comparison:
        """Comparison of the final ε of three accountants."""
        names = ("exact", "gdp", "basic")
        return Comparison(counted_epsilon, "accountant", names, self.settings, _text)


def counted_epsilon(
    sample_rate: float,
    noise_multiplier: float,
    steps: int,
    delta: float,
    accountant: str,
) -> float:
    """Returns the ε of a run by an accountant."""
    return accounting.epsilon(
        sample_rate=sample_rate,
        noise_multiplier=noise_multiplier,
        steps=steps,
        delta=delta,
        accountant=accountant,
    )


@cache
def courses() -> tuple[Course, ...]:
    """Returns the available runs; the first is the chapter's run."""
    plan = classic_plan()
    return (
        Course("small batches", plan.sample_rate, plan.noise_multiplier, plan.steps),
        Course("few steps, little noise", 0.015, 0.65, 200),
        Course("full batches", 1.0, 10.0, 100),
    )


@cache
def counted(course: Course) -> CurvesAnswer:
    """Returns the curves of all accountants, as in the lab."""
    return race(CurvesQuestion(**course.settings, points=POINTS))


def runners(course: Course) -> list[Racer]:
    """Returns the applicable accountants in order of their final ε."""
    applying = [racer for racer in counted(course).curves if racer.status != SILENT]
    return sorted(
        applying, key=lambda racer: (_value(racer.epsilon[-1]), racer.accountant)
    )


def top(course: Course) -> int:
    """Returns the end of the close-up's axis, which starts at 0."""
    ends = (
        _value(racer.epsilon[-1])
        for racer in runners(course)
        if racer.accountant in CLOSE
    )
    return math.ceil(HEADROOM * max(ends))


def said(accountant: str) -> str:
    """Returns the final ε of the chapter's run by an accountant, as text."""
    [end] = [
        racer.epsilon[-1]
        for racer in runners(courses()[0])
        if racer.accountant == accountant
    ]
    return _text(_value(end))


@cache
def data() -> dict[str, Any]:
    """Returns each run with its curves."""
    return {
        "delta": small(DELTA),
        "looks": looks(),
        "close": CLOSE,
        "courses": [
            {
                "name": course.name,
                "held": course.counts.held,
                "query": urlencode(course.settings),
                "steps": counted(course).steps,
                "top": top(course),
                "curves": [
                    racer.model_dump(
                        include={"accountant", "label", "status", "epsilon"}
                    )
                    for racer in runners(course)
                ],
            }
            for course in courses()
        ],
    }


@cache
def picture() -> Picture:
    """Returns the chart of the chapter's run after the last step."""
    course = courses()[0]
    counts = course.counts
    return Picture(
        title=conclusion(
            course.steps,
            [(racer.status, racer.epsilon[-1]) for racer in runners(course)],
            _text,
        ),
        sub=(
            f"ε at δ = {small(DELTA)} over steps, as each accountant counts "
            f"{counts.held}; add or remove one record, Poisson sampling"
        ),
        comparisons=(counts,),
        wide=_drawn((904, 400), course),
        narrow=_drawn((342, 340), course),
        head=("accountant", "answer", f"ε after {course.steps:,} steps"),
        rows=tuple(
            (racer.label, racer.status, _text(_value(racer.epsilon[-1])))
            for racer in runners(course)
        ),
        kind="computed",
        note=(
            "The run is equally private each time; only the proof differs. An "
            "approximation may be below the truth and is no guarantee."
        ),
    )


def _drawn(size: tuple[int, int], course: Course) -> Markup:
    return draw(size, counted(course).steps, runners(course))


def _value(epsilon: float | None) -> float:
    assert epsilon is not None, "these runs are counted by floats"
    return epsilon


def _text(epsilon: float | None) -> str:
    value = _value(epsilon)
    return limit(value) if value < LARGE else thousands(limit(value, 0))


WIDGET = Widget(
    slug="accountant-race",
    title="The accountant race",
    picture=picture,
    data=data,
    controls={"course": "Run, by its number of steps", "play": "Play"},
    starts={
        "course": (Choices(tuple(course.steps for course in courses())),),
    },
)

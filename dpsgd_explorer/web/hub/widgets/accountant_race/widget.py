"""The accountant race: one run, counted step by step by every accountant that applies.

The curves are those of the lab; the script shows them and computes no ε.

Misconception: "The smallest ε is the best accountant", and "a larger ε means less
    privacy"
Content: one run counted step by step by every accountant that applies, each marked
    exact, bound or approximation; the run is equally private each time, and the
    approximation ends below the truth
Source: our accountants, as in the lab; Dong, Roth and Su 2019, arXiv:1905.02383;
    Mironov, Talwar and Zhang 2019, arXiv:1908.10530; Abadi et al. 2016,
    arXiv:1607.00133
"""

from __future__ import annotations

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
LARGE = 100  # an ε beyond it is printed whole


@dataclass(frozen=True)
class Course:
    """A run to be counted, with a name."""

    name: str
    sample_rate: float
    noise_multiplier: float
    steps: int

    @property
    def settings(self) -> dict[str, float]:
        """The run and δ, as the lab and the accountants are asked."""
        return {
            "sample_rate": self.sample_rate,
            "noise_multiplier": self.noise_multiplier,
            "steps": self.steps,
            "delta": DELTA,
        }

    @property
    def counts(self) -> Comparison:
        """What three accountants say at the end."""
        said = ("exact", "gdp", "basic")
        return Comparison(counted_epsilon, "accountant", said, self.settings, _text)


def counted_epsilon(
    sample_rate: float,
    noise_multiplier: float,
    steps: int,
    delta: float,
    accountant: str,
) -> float:
    """Return what an accountant says that a run spends."""
    return accounting.epsilon(
        sample_rate=sample_rate,
        noise_multiplier=noise_multiplier,
        steps=steps,
        delta=delta,
        accountant=accountant,
    )


@cache
def courses() -> tuple[Course, ...]:
    """Return the runs to choose from; the first is the chapter's."""
    plan = classic_plan()
    return (
        Course("small batches", plan.sample_rate, plan.noise_multiplier, plan.steps),
        Course("few steps, little noise", 0.015, 0.65, 200),
        Course("full batches", 1.0, 10.0, 100),
    )


@cache
def counted(course: Course) -> CurvesAnswer:
    """Return the curves of all accountants, as the lab has them."""
    return race(CurvesQuestion(**course.settings, points=POINTS))


def runners(course: Course) -> list[Racer]:
    """Return the accountants that apply, from the least at the end to the largest."""
    applying = [one for one in counted(course).curves if one.status != SILENT]
    return sorted(applying, key=lambda one: (_value(one.epsilon[-1]), one.accountant))


def said(accountant: str) -> str:
    """Return what an accountant says at the end of the chapter's run."""
    [end] = [
        one.epsilon[-1] for one in runners(courses()[0]) if one.accountant == accountant
    ]
    return _text(_value(end))


@cache
def data() -> dict[str, Any]:
    """Return each run with its curves."""
    return {
        "delta": small(DELTA),
        "looks": looks(),
        "courses": [
            {
                "name": course.name,
                "held": course.counts.held,
                "query": urlencode(course.settings),
                "steps": counted(course).steps,
                "curves": [
                    one.model_dump(include={"accountant", "label", "status", "epsilon"})
                    for one in runners(course)
                ],
            }
            for course in courses()
        ],
    }


@cache
def picture() -> Picture:
    """Return the finished race over the chapter's run."""
    course = courses()[0]
    counts = course.counts
    return Picture(
        title=conclusion(
            course.steps,
            [(one.status, one.epsilon[-1]) for one in runners(course)],
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
            (one.label, one.status, _text(_value(one.epsilon[-1])))
            for one in runners(course)
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
        "course": (Choices(tuple(one.steps for one in courses())),),
    },
)

"""The lab "Accountant race": the ε of one run by every accountant."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import parse_qsl

from flask import Response, render_template, request

from dpsgd_explorer import accounting
from dpsgd_explorer.accounting import ACCOUNTANTS, Phase
from dpsgd_explorer.experiments.accountant_words import LABELS
from dpsgd_explorer.experiments.vocabulary import setting
from dpsgd_explorer.web.api.answer_cache import cached_page
from dpsgd_explorer.web.figures.accountant_race import looks, picture
from dpsgd_explorer.web.figures.svg import Picture
from dpsgd_explorer.web.forms.fields import form_fields, script_fields
from dpsgd_explorer.web.forms.form import parse_texts, read_form
from dpsgd_explorer.web.labs.base import Lab
from dpsgd_explorer.web.questions.accountant_race import race
from dpsgd_explorer.web.questions.privacy import CurvesAnswer, Racer
from dpsgd_explorer.web.questions.privacy_models import CurvesQuestion
from dpsgd_explorer.web.questions.question import Question
from dpsgd_explorer.web.questions.rounding import epsilon_limit

POINTS = 31
WHAT_IF = ("forget", "shuffle")


class RaceQuestion(Question):
    """Settings of the run, and δ."""

    sample_rate: float = setting("sample_rate", 0.01, group="Run")
    noise_multiplier: float = setting(
        "noise_multiplier", 4.0, group="Run", ends=None, step=None, gt=0, le=1000
    )
    steps: int = setting(
        "steps",
        10_000,
        group="Run",
        help="Length of the race.",
        marks=(10, 100, 1_000, 10_000, 100_000),
        ends=None,
        step=None,
        ge=2,
        le=10_000_000,
    )
    delta: float = setting(
        "delta",
        1e-5,
        group="Run",
        help="The same for every accountant.",
        marks=(1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4),
    )

    @property
    def curves(self) -> CurvesQuestion:
        """Query of the API for the curves."""
        return CurvesQuestion(**self.model_dump(), points=POINTS)


@dataclass(frozen=True)
class Surprise:
    """A run with an unexpected result.

    Attributes:
        address: Query string of the page with this run.
        shown: Two accountants whose answers are shown, the larger answer first.
        why: Explanation of the result.
    """

    title: str
    address: str
    shown: tuple[str, str]
    why: str

    @property
    def settings(self) -> dict[str, str]:
        """Form fields as text."""
        return dict(parse_qsl(self.address))

    @property
    def note(self) -> str:
        """The ε of both accountants after the last step, as text."""
        return "; ".join(
            f"{LABELS[name]}: {epsilon_limit(_spent(self.address, name))}"
            for name in self.shown
        )


SURPRISES = (
    Surprise(
        "The run that made DP-SGD known",
        "sample_rate=0.01&noise_multiplier=4&steps=10000&delta=1e-5",
        ("moments", "exact"),
        "The moments accountant of 2016 made DP-SGD practical: composition theorems "
        "count far more. The excess over the exact ε was never spent: part of it "
        "comes from an older, looser conversion to ε, the rest from describing "
        "losses by their moments.",
    ),
    Surprise(
        "A better theorem can lose",
        "sample_rate=1&noise_multiplier=10&steps=100&delta=1e-5",
        ("advanced", "basic"),
        "Besides its square root, advanced composition has a second term, which is "
        "large if the ε of a step is large. Then basic composition is better, and "
        "both are far off.",
    ),
    Surprise(
        "Below the truth is not better",
        "sample_rate=0.01485&noise_multiplier=0.65&steps=202&delta=7.4e-6",
        ("exact", "gdp"),
        "After 202 noisy steps, the central limit is still inaccurate. The run does "
        "not satisfy the smaller ε.",
    ),
    Surprise(
        "A valid bound, far too large",
        "sample_rate=1e-5&noise_multiplier=0.8&steps=100000&delta=1e-6",
        ("rdp", "exact"),
        "Rényi divergences see rare, large losses through a moment of high order. If "
        "a record is rarely used, rare events dominate that moment.",
    ),
)


def accountants() -> Response:
    """Shows the race with the settings of the address, and errors in them."""
    return cached_page(_page, queue="slow_pages")


@cache
def first_picture() -> Picture | None:
    """Returns the race of the run that the lab shows first."""
    return picture(race(RaceQuestion().curves))


def _page() -> str:
    form = read_form(RaceQuestion, request.args.to_dict())
    question = form.settings
    answer = race(question.curves) if question else None
    return render_template(
        "labs/accountants.html",
        form=form,
        fields=form_fields(RaceQuestion),
        surprises=SURPRISES,
        what_if={name: request.args.get(name) == "true" for name in WHAT_IF},
        question=question,
        rows=ranking(answer) if answer else [],
        picture=picture(answer) if answer else None,
        page_data={
            "fields": script_fields(RaceQuestion),
            "surprises": [surprise.settings for surprise in SURPRISES],
            "points": POINTS,
            "looks": looks(),
            "answer": answer.model_dump(mode="json") if answer else None,
        },
    )


def ranking(answer: CurvesAnswer) -> list[dict[str, Any]]:
    """Returns a table row per accountant with its ε after the last step."""
    return [
        {
            "label": racer.label,
            "status": racer.status,
            "note": _why_not(racer, answer) if racer.reason else racer.note,
            "epsilon": epsilon_limit(racer.epsilon[-1]) if racer.epsilon else "–",
        }
        for racer in answer.curves
    ]


def _why_not(racer: Racer, answer: CurvesAnswer) -> str:
    """Returns the reason why an accountant has no answer, as a sentence."""
    whole = Phase(1.0, answer.noise_multiplier, answer.steps[-1])
    if answer.sample_rate < 1 and not ACCOUNTANTS[racer.accountant].why_not([whole]):
        return "Does not count sampling; applies at q = 1."
    return racer.reason[:1].upper() + racer.reason[1:]


@cache
def _spent(address: str, accountant: str) -> float:
    run = parse_texts(RaceQuestion, dict(parse_qsl(address)))
    return accounting.epsilon(**run.model_dump(), accountant=accountant)


LAB = Lab(
    slug="accountants",
    title="Accountant race",
    question="The same run, counted by everyone: who is right?",
    summary=(
        "Basic and advanced composition, moments, RDP, the central limit and the "
        "exact ε climb together, each with its claim."
    ),
    page=accountants,
)

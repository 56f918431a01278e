"""The lab "Budget planner": solves for one of five numbers."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any
from urllib.parse import urlencode

from flask import Response, render_template, request

from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.experiments.accountant_words import LABELS
from dpsgd_explorer.experiments.catalogue import DATA_SETS
from dpsgd_explorer.web.api.answer_cache import cached_page
from dpsgd_explorer.web.figures.svg import Picture
from dpsgd_explorer.web.forms.fields import form_fields, text_of
from dpsgd_explorer.web.forms.form import Form, read_form
from dpsgd_explorer.web.labs.base import Lab
from dpsgd_explorer.web.labs.planner.api import BudgetAnswer, answer_to, bp
from dpsgd_explorer.web.labs.planner.budget_map import (
    MOST_EPSILON,
    BudgetMap,
    MapQuestion,
    budget_map,
)
from dpsgd_explorer.web.labs.planner.figure import AXES, picture
from dpsgd_explorer.web.labs.planner.question import SOLVABLE, BudgetQuestion
from dpsgd_explorer.web.questions.privacy_models import DEFAULT_ACCOUNTANT
from dpsgd_explorer.web.questions.rounding import limit

MAP = "map"  # query parameter that requests the map
SOLVED_DIGITS = {"noise_multiplier": 4, "epsilon": 4}


def planner() -> Response:
    """Shows the planner with the numbers of the address, and errors in them."""
    return cached_page(_page, queue="slow_pages")


def _page() -> str:
    fields = dict(form_fields(BudgetQuestion))
    solve = request.args.get("solve") or fields["solve"].default
    form = read_form(BudgetQuestion, request.args.to_dict(), solved=solve)
    answer, form = _answered(form)
    del fields["solve"]
    lines = map_around(form.settings, answer) if asks_for_map() else None
    return render_template(
        "labs/planner.html",
        form=form,
        fields=fields,
        solvable=SOLVABLE,
        solve=form.texts["solve"] if form.texts["solve"] in SOLVABLE else "",
        answer=answer,
        picture=picture(lines, answer) if lines and answer else None,
        with_map=f"?{urlencode({**request.args.to_dict(), MAP: 'true'})}",
        results=result_texts(answer),
        accountant=LABELS[DEFAULT_ACCOUNTANT],
        sizes={data.label: data.train_size for data in DATA_SETS.values()},
        page_data={
            "fields": [field.for_script() for field in fields.values()],
            "answer": answer.model_dump(mode="json") if answer else None,
            "map": lines.model_dump(mode="json") if lines else None,
            "ticks": AXES,
        },
    )


@cache
def first_picture() -> Picture | None:
    """Returns the map of the plan that the lab shows first."""
    solve = dict(form_fields(BudgetQuestion))["solve"].default
    answer, form = _answered(read_form(BudgetQuestion, {}, solved=solve))
    lines = map_around(form.settings, answer)
    return picture(lines, answer) if lines and answer else None


def asks_for_map() -> bool:
    """Returns True if the server draws the map.

    The map of the plan shown first is recorded, others take a second.  For a plan in
    the address, the form without script requests it explicitly, and the script requests
    it after the page is loaded.
    """
    return not request.args or MAP in request.args


def map_around(
    question: BudgetQuestion | None, answer: BudgetAnswer | None
) -> BudgetMap | None:
    """Returns the lines of equal ε around a plan, None if no map can show it."""
    if not question or not answer or not 0 < (answer.budget or 0) <= MOST_EPSILON:
        return None
    return budget_map(
        MapQuestion(
            sample_size=question.sample_size,
            expected_batch_size=answer.expected_batch_size,
            delta=answer.delta,
            epsilon=answer.budget,
        )
    )


def result_texts(answer: BudgetAnswer | None) -> dict[str, str]:
    """Returns the planner's results as text, with dashes for missing ones."""
    if answer is None:
        return dict.fromkeys(
            ("epsilon", "odds", "run_odds", "noise", "steps", "rate"), "–"
        )
    return {
        "epsilon": answer.epsilon_text,
        "odds": f"{answer.odds} %",
        "run_odds": f"{answer.run_odds} %",
        "noise": f"{answer.noise_per_update:.3g} C",
        "steps": f"{answer.steps:,}",
        "rate": f"{answer.sample_rate:.3g}",
    }


def _answered(
    form: Form[BudgetQuestion],
) -> tuple[BudgetAnswer | None, Form[BudgetQuestion]]:
    """Returns the answer and the form with the solved number, or with errors."""
    question = form.settings
    if question is None:
        return None, form
    try:
        answer = answer_to(question)
    except ConfigError as error:
        return None, replace(form, errors=error.fields)
    solved = {question.solve: solved_text(question.solve, answer)}
    return answer, replace(form, texts=form.texts | solved)


def solved_text(name: str, answer: BudgetAnswer) -> str:
    """Returns the solved number as text, rounded conservatively."""
    value: Any = answer.budget if name == "epsilon" else getattr(answer, name)
    if name in SOLVED_DIGITS:
        return limit(value, SOLVED_DIGITS[name])
    return text_of(float(f"{value:.4g}") if name in ("delta", "epochs") else value)


LAB = Lab(
    slug="planner",
    title="Budget planner",
    question="ε, δ, noise, batch, epochs: what follows from four of them?",
    summary=(
        "Lock four numbers and the fifth solves as you drag; walk along the line of "
        "equal ε, read the odds, and train what you planned."
    ),
    page=planner,
    api=bp,
)

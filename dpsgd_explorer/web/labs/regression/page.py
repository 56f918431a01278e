"""The page of the linear regression lab."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any
from urllib.parse import parse_qsl, urlencode

from flask import render_template, request

from dpsgd_explorer.errors import QuotaError
from dpsgd_explorer.experiments.california_housing import housing
from dpsgd_explorer.web.forms.fields import form_groups, script_fields, text_of
from dpsgd_explorer.web.forms.form import Form, parse, read_form
from dpsgd_explorer.web.labs.base import Lab
from dpsgd_explorer.web.labs.regression.api import bp
from dpsgd_explorer.web.labs.regression.figures import pictures
from dpsgd_explorer.web.labs.regression.question import (
    METHODS,
    RegressionQuestion,
    solved_for,
)
from dpsgd_explorer.web.labs.regression.results import (
    REGIMES,
    RankedMethod,
    View,
    epsilon_text,
    mse,
)
from dpsgd_explorer.web.questions.rounding import limit

SOLVED_DIGITS = 4
WAIT = "wait"  # query parameter that requests long descents
WAITS = {"descent": ("",), "regimes": ("", *REGIMES)}  # its values; others: "descent"
WORSE = 1.1  # minimum ratio of two errors for the word "larger"


@dataclass(frozen=True)
class PresetLink:
    """A link to preset settings.

    Attributes:
        template: Note with ``{steps}`` for the number of steps of the descent.
        address: Query string of the settings that differ from the defaults.
    """

    label: str
    template: str
    address: str

    @property
    def settings(self) -> dict[str, str]:
        """Form fields as text."""
        return dict(parse_qsl(self.address))

    @cached_property
    def note(self) -> str:
        """Description of the settings in a few words."""
        question = parse(RegressionQuestion, self.settings)
        return self.template.format(steps=question.run.planned_steps)


PRESETS = (
    PresetLink("This site’s defaults", "tight, public learning rate", ""),
    PresetLink(
        "The notebook’s figure",
        "large noise, {steps:,} steps",
        "variant=notebook&noise_multiplier=500&rate=notebook&epsilon=2",
    ),
    PresetLink(
        "Its small-noise descent",
        "less noise, {steps:,} steps",
        "variant=notebook&rate=notebook&epsilon=2",
    ),
    PresetLink(
        "Its rate, paid for",
        "λ_max released, {steps:,} steps",
        "noise_multiplier=500&rate=released&epsilon=2",
    ),
    PresetLink(
        "Little privacy to spend", "everything at ε = 0.1", "epsilon=0.1&method=ssp"
    ),
    PresetLink("Labels cut at 2", "bias against noise", "y_bound=2&epsilon=0.2"),
)


def linear_regression() -> str:
    """Shows the lab with the settings of the address, and errors in them.

    Without charts if a setting is invalid.  If another long descent is running, the
    page contains a message instead of this descent.
    """
    query = {n: text for n, text in request.args.items() if n != WAIT and text}
    form = _form()
    view, busy = _view(form.settings)
    run = view.question.run.model_dump(mode="json", exclude_none=True) if view else None
    return render_template(
        "labs/linear_regression.html",
        form=form,
        groups=form_groups(RegressionQuestion),
        presets=PRESETS,
        size=housing.SIZE,
        query=query,
        guesses=guesses(),
        busy=busy,
        view=view,
        run=run,
        waiting={name: urlencode({**query, WAIT: name}) for name in WAITS},
        page_data={
            "fields": script_fields(RegressionQuestion),
            "errors": form.errors,
            "run": run,
        },
        **(_results(view) if view else {}),
    )


def _form() -> Form[RegressionQuestion]:
    """Returns the submitted form, with the solved number filled in."""
    settings = {n: text for n, text in request.args.items() if n != WAIT}
    solved = str(solved_for(settings))
    form = read_form(RegressionQuestion, settings, solved=solved)
    texts = form.texts | {"solve": solved}  # older addresses lack "solve"
    if form.settings is not None:
        texts[solved] = _spent_texts(form.settings)[solved]
    return replace(form, texts=texts)


def _spent_texts(question: RegressionQuestion) -> dict[str, str]:
    """Returns steps, noise and ε of the descent, rounded conservatively."""
    noise, steps = question.run.schedule
    return {
        "steps": str(steps),
        "noise_multiplier": limit(noise, SOLVED_DIGITS),
        "target_epsilon": limit(question.run.epsilon, SOLVED_DIGITS),
    }


def _view(question: RegressionQuestion | None) -> tuple[View | None, str]:
    """Returns the results, and a message if a long descent has to wait."""
    if question is None:
        return None, ""
    wanted = request.args.get(WAIT)
    view = View(question, WAITS.get(wanted, WAITS["descent"]) if wanted else ())
    try:
        _ = view.followed, view.regimes
    except QuotaError as error:
        return View(question), str(error)
    return view, ""


def _results(view: View) -> dict[str, Any]:
    """Returns the template's variables for the results."""
    table = view.question.prepared_housing.table
    noise = view.question.run.schedule[0]
    texts = _spent_texts(view.question)
    return {
        "figures": pictures(view),
        "key_numbers": {
            "Without privacy": mse(view.evaluation_set.mse),
            "Bounds alone, no noise": mse(view.clipped_mse),
            "Rows beyond B": f"{table.shortened_rows:,}",
            "Labels cut at Y": f"{table.clipped_labels:,}",
        },
        "variants": [_variants(name, view) for name in METHODS],
        "noise": text_of(float(f"{noise:.4g}")),
        "epsilon": texts["target_epsilon"],
    }


def _variants(name: str, view: View) -> tuple[str, ...]:
    """Returns the table row that compares both ways of spending one budget."""
    before, after = (
        RankedMethod.of(name, view.chosen[name][variant])
        for variant in ("notebook", "tight")
    )
    change = 100 * (after.spread.median / before.spread.median - 1)
    text = f"{change:+.0f} %".replace("-", "−")
    if before.range[0] <= after.range[1] and after.range[0] <= before.range[1]:
        text = "within chance"
    return METHODS[name], before.median, after.median, text


@cache
def guesses() -> dict[str, Any]:
    """Returns the computed answers of the two prediction questions."""
    small = View(RegressionQuestion(epsilon=0.1, variant="notebook"))
    notebook = View(RegressionQuestion(noise_multiplier=500.0, rate="notebook"))
    usual, larger = notebook.followed[""].end, notebook.followed["× 10"].end
    return {
        "winner": small.ranking[0].name,
        "epsilon": epsilon_text(small.question.epsilon),
        "medians": {s.name: s.median for s in small.ranking},
        "usual": mse(usual.median),
        "larger": mse(larger.median),
        "band": (mse(larger.low), mse(larger.high)),
        "larger_is": "better"
        if larger.median * WORSE < usual.median
        else "worse"
        if larger.median > usual.median * WORSE
        else "the same",
    }


LAB = Lab(
    slug="linear-regression",
    title="Private linear regression",
    question="Noisy statistics or noisy steps?",
    summary=(
        "SSP, AdaSSP and noisy gradient descent on California housing: error against "
        "ε, the cloud of possible releases, and the cost of each part."
    ),
    page=linear_regression,
    api=bp,
)

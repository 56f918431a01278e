"""The page of the linear regression lab, and its results for the page's script."""

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
from dpsgd_explorer.web.labs.regression.figures import PICTURES
from dpsgd_explorer.web.labs.regression.question import (
    METHODS,
    RegressionQuestion,
    solved_for,
)
from dpsgd_explorer.web.labs.regression.results import (
    NAMES,
    RankedMethod,
    View,
    epsilon_text,
    median_range,
    mse,
)
from dpsgd_explorer.web.questions.rounding import limit

SOLVED_DIGITS = 4
WAIT = "wait"  # query parameter that requests a long descent
REGIMES = "regimes"  # value of WAIT that also requests both noise regimes
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
        return self.template.format(steps=question.planned_steps)


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
    """Shows the lab with the settings of the address, and errors in them."""
    form = _form()
    return render_template(
        "labs/linear_regression.html",
        form=form,
        groups=form_groups(RegressionQuestion),
        presets=PRESETS,
        size=housing.SIZE,
        query={name: text for name, text in _settings().items() if text},
        guesses=guesses(),
        page_data={"fields": script_fields(RegressionQuestion)},
        **_results(form),
    )


def linear_regression_results() -> str:
    """Returns the results without the rest of the page, for the script."""
    return render_template("labs/_regression_results.html", **_results(_form()))


def _form() -> Form[RegressionQuestion]:
    """Returns the submitted form, with the solved number filled in."""
    settings = _settings()
    solved = str(solved_for(settings))
    form = read_form(RegressionQuestion, settings, solved=solved)
    texts = form.texts | {"solve": solved}  # older addresses lack "solve"
    if form.settings is not None:
        texts |= solved_texts(form.settings)
    return replace(form, texts=texts)


def solved_texts(question: RegressionQuestion) -> dict[str, str]:
    """Returns {setting: solved number}, rounded conservatively."""
    noise, steps = question.schedule
    texts = {
        "steps": str(steps),
        "noise_multiplier": limit(noise, SOLVED_DIGITS),
        "target_epsilon": limit(question.descent_epsilon, SOLVED_DIGITS),
    }
    return {question.solve: texts[question.solve]}


def _settings() -> dict[str, str]:
    return {name: text for name, text in request.args.items() if name != WAIT}


def _results(form: Form[RegressionQuestion]) -> dict[str, Any]:
    """Returns the variables of the template; without charts if a setting is invalid.

    If another long descent is running, the results contain a message instead of this
    descent.
    """
    question = form.settings
    shared: dict[str, Any] = {
        "errors": form.errors,
        "view": None,
        "busy": "",
        "figures": {},
    }
    if question is None:
        return shared
    wanted = request.args.get(WAIT)
    view = View(question, waits=bool(wanted), compares_regimes=wanted == REGIMES)
    try:
        _ = view.followed, view.regimes
    except QuotaError as error:
        shared["busy"] = str(error)
        view = View(question)
    figures = {name: draw(view) for name, draw in PICTURES.items()}
    return shared | {
        "view": view,
        "figures": figures,
        "key_numbers": key_numbers(view),
        "variants": _variant_rows(view),
        "run": question.run.model_dump(mode="json", exclude_none=True),
        "plan": _plan(question),
        "solved": solved_texts(question),
        "wait_queries": {
            name: urlencode({**_settings(), WAIT: value})
            for name, value in (("descent", "1"), (REGIMES, REGIMES))
        },
    }


def _plan(question: RegressionQuestion) -> dict[str, Any]:
    """Returns the texts of the panel that launches the descent."""
    noise, steps = question.schedule
    return {
        "steps": steps,
        "noise_text": text_of(float(f"{noise:.4g}")),
        "epsilon_text": limit(question.descent_epsilon, SOLVED_DIGITS),
    }


def key_numbers(view: View) -> list[tuple[str, str]]:
    """Returns labels and values of the numbers above the charts."""
    table = view.question.prepared_housing.table
    rows, labels = table.shortened_rows, table.clipped_labels
    return [
        ("Without privacy", mse(view.evaluation_set.mse)),
        ("Bounds alone, no noise", mse(view.clipped_mse)),
        ("Rows beyond B", f"{rows:,}"),
        ("Labels cut at Y", f"{labels:,}"),
    ]


def _variant_rows(view: View) -> list[tuple[str, ...]]:
    """Returns the table rows that compare both methods of spending one budget."""
    rows: list[tuple[str, ...]] = []
    for name, sweeps in view.chosen.items():
        before, after = (
            RankedMethod(name, sweeps[v].spreads[0], median_range(sweeps[v].mse[0]))
            for v in ("notebook", "tight")
        )
        rows.append(
            (METHODS[name], before.median, after.median, _change(before, after))
        )
    return rows


def _change(before: RankedMethod, after: RankedMethod) -> str:
    """Returns the change of a median in percent, or a note that it may be chance."""
    if before.range[0] <= after.range[1] and after.range[0] <= before.range[1]:
        return "within chance"
    change = 100 * (after.spread.median / before.spread.median - 1)
    return f"{change:+.0f} %".replace("-", "−")


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
        "names": NAMES,
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
    parts={"results": linear_regression_results},
    api=bp,
)

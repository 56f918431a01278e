"""The trainer: settings, what they will spend, and the run as it goes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any
from urllib.parse import urlencode

from flask import Blueprint, Response, render_template, request

from dpsgd_explorer.experiments.catalogue import DATA_SETS, MODELS
from dpsgd_explorer.experiments.own_table import OwnTable
from dpsgd_explorer.experiments.presets import PRESETS
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.runs.classes.records import Class
from dpsgd_explorer.web.api.answer_cache import cached_page
from dpsgd_explorer.web.classes.setup import CLASS, class_asked
from dpsgd_explorer.web.content.choice_notes import choice_notes
from dpsgd_explorer.web.figures.run_charts.accuracy import Line
from dpsgd_explorer.web.figures.run_charts.standing import standing
from dpsgd_explorer.web.forms.fields import (
    FormField,
    form_fields,
    form_groups,
)
from dpsgd_explorer.web.forms.form import Form, read_form, to_query
from dpsgd_explorer.web.forms.limits import HIDE, LOCK, Limits, read_limits
from dpsgd_explorer.web.forms.trainer import trainer_controls
from dpsgd_explorer.web.http.data_sets import (
    STAND_IN,
    absent_default,
    absent_labels,
    data_to_do,
)
from dpsgd_explorer.web.http.own_tables import own_tables
from dpsgd_explorer.web.http.services import settings as environment
from dpsgd_explorer.web.pages.runs import LATEST, rows
from dpsgd_explorer.web.questions.plan_preview import (
    CURVE_POINTS,
    VIEWS,
    catalogue_with,
    data_note,
    fitting_models,
    layer_answers,
    model_note,
    plan_of,
    plan_texts,
    rate_note,
    truth_of,
)
from dpsgd_explorer.web.questions.rounding import limit, nearest
from dpsgd_explorer.web.questions.run_charts import RUN_CHARTS
from dpsgd_explorer.web.recorded import runs as recorded
from dpsgd_explorer.web.recorded.files import FOLDER
from dpsgd_explorer.web.recorded.runs import RecordedRun
from dpsgd_explorer.web.run_views.listing import RunRow

DRAWN_DIGITS = 4  # of an accuracy that is drawn and not printed
EPSILON_DIGITS = 3  # of an ε along the way; it is printed with fewer

bp = Blueprint("train", __name__, url_prefix="/train")


@dataclass(frozen=True)
class PresetLink:
    """A set-up one click away.

    Attributes:
        query: Its settings, as the address carries them.
        result: Summary of its recorded run, empty if there is none.
    """

    slug: str
    label: str
    note: str
    query: dict[str, str]
    result: dict[str, Any]

    @property
    def address(self) -> str:
        """The part of the address behind the question mark."""
        return urlencode(self.query)


@bp.get("/")
def index() -> str | Response:
    """Show the trainer with the settings of the address; wrong ones stand corrected.

    Raises:
        ConfigError: the address hides or locks a setting that there is not.
    """
    latest = rows(LATEST)
    limits = read_limits(request.args, trainer_controls(), "the trainer")
    found = class_asked()
    page = partial(_page, latest, limits, found)
    if latest or own_tables() or CLASS in request.args:
        return page()
    return cached_page(page, state=tuple(data_to_do()))


def _page(latest: list[RunRow], limits: Limits, found: Class | None) -> str:
    settings = request.args.to_dict()
    for name in (HIDE, LOCK, CLASS):
        settings.pop(name, None)
    absent = "" if settings else absent_default()
    if absent:
        settings = stand_in()
    labels = {} if found is None else {CLASS: found.id}
    form = read_form(TrainingConfig, settings)
    config, fields = form.settings, form_fields(TrainingConfig)
    plan = plan_of(config) if config else None
    own = own_tables()
    catalogue = catalogue_with(own, data_to_do())
    data_sets = catalogue["data_sets"]
    return render_template(
        "train/index.html",
        form=form,
        limits=limits,
        absent=absent,
        of_class=found,
        class_is_wrong=found is None and CLASS in request.args,
        fixed=_fixed(form, limits),
        groups=_groups(own),
        takes_own_data=environment().takes_own_data,
        switches={switch.name: switch for switch in form.switches},
        choice_notes=notes_of(form),
        fitting={
            "model": data_sets.get(form.texts["dataset"], {}).get("models"),
            "accountant": plan["accountants"] if plan else None,
        },
        presets=preset_links(),
        query=to_query(config) if config else None,
        plan=plan_texts(plan),
        layers=plan["layers"] if plan else layer_answers(TrainingConfig.parse({})),
        truth=truth_of(plan),
        labels={name: field.label for name, field in fields.items()},
        views=VIEWS | {"runs": "Runs"},
        rows=latest,
        run_charts=RUN_CHARTS,
        standing=standing(config, plan, _recorded_lines(config)) if config else {},
        page_data=_page_data(form, plan)
        | {"catalogue": catalogue, "fields": _script_fields(own)}
        | {"limits": urlencode(limits.query | labels, safe=","), "labels": labels},
    )


def _names_of(tables: list[OwnTable]) -> dict[str, str]:
    """Return labels of data sets beyond those of the catalogue, or other than there."""
    own = {table.name: table.facts.label for table in tables}
    return absent_labels() | own


def _groups(tables: list[OwnTable]) -> dict[str, list[FormField]]:
    """Return the fields by heading; the data sets are also the visitor's tables."""
    names = _names_of(tables)
    return {
        group: [
            field.offering(names) if field.name == "dataset" else field
            for field in fields
        ]
        for group, fields in form_groups(TrainingConfig).items()
    }


def _script_fields(tables: list[OwnTable]) -> list[dict[str, Any]]:
    return [
        field.for_script() for fields in _groups(tables).values() for field in fields
    ]


def _fixed(form: Form[TrainingConfig], limits: Limits) -> list[str]:
    """Return label and value of each setting that cannot be set."""
    fields = form_fields(TrainingConfig)
    names = [
        form.chosen.get(control, control)
        for control in trainer_controls()
        if control in limits.hidden | limits.locked
    ]
    return [
        f"{fields[name].label} {fields[name].symbol}".strip()
        + f": {fields[name].in_words(form.texts[name])}"
        for name in names
    ]


def notes_of(form: Form[TrainingConfig]) -> dict[str, str]:
    """Return what is said about what is chosen, by setting."""
    said = {
        field: of.get(form.texts[field], "") for field, of in choice_notes().items()
    }
    if form.settings is not None and form.settings.table is not None:
        return said | {"dataset": data_note(form.settings.data)}
    dataset, model = DATA_SETS.get(form.texts["dataset"]), form.texts["model"]
    said |= {"private": rate_note(model, form.texts["dataset"])}
    if dataset is None or model not in fitting_models()[form.texts["dataset"]]:
        return said
    to_do = data_to_do().get(form.texts["dataset"], "")
    return said | {
        "dataset": f"{data_note(dataset)} {to_do}".strip(),
        "model": model_note(MODELS[model], form.texts["dataset"]),
    }


def stand_in() -> dict[str, str]:
    """Return the settings of the preset that starts where MNIST is not available."""
    return next(link.query for link in preset_links() if link.slug == STAND_IN)


@cache
def preset_links() -> list[PresetLink]:
    """Return the presets with what their recorded runs reached."""
    return [
        PresetLink(
            slug=preset.slug,
            label=preset.label,
            note=preset.note,
            query=to_query(TrainingConfig.parse(preset.config)),
            result=run.summary if (run := recorded_run(preset.slug)) else {},
        )
        for preset in PRESETS
    ]


def _placed(twin: RecordedRun, run: RecordedRun) -> list[dict[str, Any]]:
    """Return a twin's evaluations, each at the ε that the run spent by that step."""
    spent = {event["step"]: event["epsilon"] for event in run.data("evaluation")}
    return [
        event | {"drawn_at": spent.get(event["step"])}
        for event in twin.data("evaluation")
    ]


def _recorded_lines(config: TrainingConfig) -> list[Line]:
    """Return the recorded run of these settings and its twin, as far as there are."""
    query = to_query(config)
    slug = next((p.slug for p in preset_links() if p.query == query), "")
    curves = recorded_curves().get(slug)
    if curves is None:
        return []
    lines = [
        Line(curves["twin"], "twin without privacy", "s-twin thin dashed"),
        Line(curves["recorded"], "recorded", "s-private thin soft"),
    ]
    return [line for line in lines if line.evaluations]


def recorded_run(slug: str) -> RecordedRun | None:
    """Return a preset's recorded run, None if none was made."""
    if not (FOLDER / f"{slug}.json").is_file():
        return None
    return recorded.recorded(slug)


@cache
def recorded_curves() -> dict[str, dict[str, list[dict[str, Any]]]]:
    """Return the evaluations of each preset's recorded run, and of its twin's."""
    curves: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for preset in PRESETS:
        if run := recorded_run(preset.slug):
            twin = recorded.recorded_twin(preset.slug)
            curves[preset.slug] = {
                "recorded": run.data("evaluation"),
                "twin": _placed(twin, run) if twin else [],
            }
    return curves


def _short(event: dict[str, Any]) -> dict[str, Any]:
    """Return what is drawn of a recorded evaluation, shortened; ε is rounded up."""
    drawn = {
        "step": event["step"],
        "seconds": float(nearest(event["seconds"], 1)),
        "test_accuracy": float(nearest(event["test_accuracy"], DRAWN_DIGITS)),
    }
    spent = {name: event[name] for name in ("epsilon", "drawn_at") if name in event}
    return drawn | {
        name: None if epsilon is None else float(limit(epsilon, EPSILON_DIGITS))
        for name, epsilon in spent.items()
    }


@cache
def _drawn_curves() -> dict[str, dict[str, dict[str, list[Any]]]]:
    """Return the recorded curves by columns, which are half as large as rows."""
    return {
        slug: {name: _columns(map(_short, curve)) for name, curve in of.items()}
        for slug, of in recorded_curves().items()
    }


def _columns(points: Iterable[dict[str, Any]]) -> dict[str, list[Any]]:
    columns: dict[str, list[Any]] = {}
    for point in points:
        for name, value in point.items():
            columns.setdefault(name, []).append(value)
    return columns


def _page_data(
    form: Form[TrainingConfig], plan: dict[str, Any] | None
) -> dict[str, Any]:
    """Return what the script needs and the page does not say."""
    return {
        "switches": {switch.name: list(switch.members) for switch in form.switches},
        "presets": {preset.slug: preset.query for preset in preset_links()},
        "recorded": _drawn_curves(),
        "notes": choice_notes(),
        "config": form.settings.model_dump(mode="json") if form.settings else None,
        "plan": plan,
        "points": CURVE_POINTS,
    }

"""The trainer's page: settings, predicted ε, and live charts of the run."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache, partial
from typing import Any
from urllib.parse import urlencode

from flask import Blueprint, Response, render_template, request
from markupsafe import Markup

from dpsgd_explorer.accounting.sampling_schemes import RANDOM_ALLOCATION
from dpsgd_explorer.experiments.catalogue import DATA_SETS, MODELS
from dpsgd_explorer.experiments.own_table import OwnTable
from dpsgd_explorer.experiments.presets import PRESETS, Preset
from dpsgd_explorer.experiments.training_config import DEFAULTS_OF, TrainingConfig
from dpsgd_explorer.runs.classes.records import Class
from dpsgd_explorer.web.api.answer_cache import QUEUES, cached_page
from dpsgd_explorer.web.charts.run_charts import RUN_CHARTS
from dpsgd_explorer.web.charts.several_runs import LINES_BEHIND, lines_behind
from dpsgd_explorer.web.classes.setup import CLASS, class_asked
from dpsgd_explorer.web.content.choice_notes import choice_notes
from dpsgd_explorer.web.figures.run_charts.accuracy import Line
from dpsgd_explorer.web.figures.run_charts.standing import standing
from dpsgd_explorer.web.figures.spark import spark
from dpsgd_explorer.web.forms.fields import (
    FormField,
    form_fields,
    form_groups,
    layout_of,
    text_of,
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
from dpsgd_explorer.web.http.own_tables import own_tables, tables_with_classes
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
from dpsgd_explorer.web.recorded import runs as recorded
from dpsgd_explorer.web.recorded.files import FOLDER
from dpsgd_explorer.web.recorded.runs import RecordedRun
from dpsgd_explorer.web.run_views.listing import RunRow

DRAWN_DIGITS = 4  # digits of an accuracy in a chart; texts show fewer
EPSILON_DIGITS = 3  # digits of the ε of an evaluation; texts show fewer

bp = Blueprint("train", __name__, url_prefix="/train")


@dataclass(frozen=True)
class PresetLink:
    """A link to the settings of a preset.

    Attributes:
        query: Settings in the form of a query string.
        epsilon: Target ε as text, "" without one.
        result: Summary of the recorded run, {} without one.
        curve: Its accuracy against ε as an SVG, "" without a recorded run.
    """

    slug: str
    name: str
    note: str
    query: dict[str, str]
    epsilon: str
    result: dict[str, Any]
    curve: Markup

    @property
    def address(self) -> str:
        """Query string of the address."""
        return urlencode(self.query)


@bp.get("/")
def index() -> str | Response:
    """Shows the trainer with the settings of the address, and errors in them.

    Raises:
        ConfigError: The address hides or locks an unknown setting.
    """
    latest = rows(LATEST)
    limits = read_limits(request.args, trainer_controls(), "the trainer")
    school_class = class_asked()
    page = partial(_page, latest, limits, school_class)
    # The plan takes seconds, during which other pages must not wait.
    is_slow = request.args.get("sampling") == RANDOM_ALLOCATION
    if latest or own_tables() or CLASS in request.args:
        with QUEUES["slow"].turn() if is_slow else nullcontext():
            return page()
    queue = "slow" if is_slow else "pages"
    return cached_page(page, queue, state=tuple(data_to_do()))


def _page(latest: list[RunRow], limits: Limits, school_class: Class | None) -> str:
    settings = request.args.to_dict()
    for name in (HIDE, LOCK, CLASS):
        settings.pop(name, None)
    absent = "" if settings else absent_default()
    if absent:
        settings = stand_in()
    labels = {} if school_class is None else {CLASS: school_class.id}
    form = read_form(TrainingConfig, settings)
    config, fields = form.settings, form_fields(TrainingConfig)
    plan = plan_of(config) if config else None
    visitor_tables = tables_with_classes()
    catalogue = catalogue_with(visitor_tables, data_to_do())
    data_sets = catalogue["data_sets"]
    groups = _groups(visitor_tables)
    rest = [f for fields in groups.values() for f in fields if not f.basic]
    return render_template(
        "train/index.html",
        form=form,
        limits=limits,
        absent=absent,
        of_class=school_class,
        class_is_wrong=school_class is None and CLASS in request.args,
        fixed=_fixed(form, limits),
        basic=_basic(groups),
        groups=groups,
        unusual=_unusual(form, rest),
        opens_all=form.faulty(rest) or (config is not None and _is_shared(form, rest)),
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
        | {"catalogue": catalogue, "fields": _script_fields(visitor_tables)}
        | {"limits": urlencode(limits.query | labels, safe=","), "labels": labels},
    )


def _names_of(tables: list[OwnTable]) -> dict[str, str]:
    """Returns {data set: label} for labels that differ from the catalogue."""
    table_labels = {table.name: table.facts.label for table in tables}
    return absent_labels() | table_labels


def _groups(tables: list[OwnTable]) -> dict[str, list[FormField]]:
    """Returns {heading: fields}; the data sets include the visitor's tables."""
    names = _names_of(tables)
    return {
        group: [
            field.offering(names) if field.name == "dataset" else field
            for field in fields
        ]
        for group, fields in form_groups(TrainingConfig).items()
    }


def _basic(groups: dict[str, list[FormField]]) -> list[FormField]:
    """Returns the settings that are always in view, in their order."""
    fields = {field.name: field for fields in groups.values() for field in fields}
    return [fields[name] for name in layout_of(TrainingConfig).basic]


def _unusual(form: Form[TrainingConfig], fields: list[FormField]) -> str:
    """Returns how many settings differ from their defaults, as text.

    ``describeChoices`` of the page's script writes the same text.
    """
    counted = form.effective(fields)
    changed = len(form.unusual(counted))
    usual = f"{len(counted) - changed} as usual"
    return f"{changed} changed, {usual}" if changed else usual


def _is_shared(form: Form[TrainingConfig], fields: list[FormField]) -> bool:
    """Returns whether a link sets one of the fields and is not a preset."""
    if form.settings is None or not form.unusual(form.effective(fields)):
        return False
    query = to_query(form.settings)
    return all(link.query != query for link in preset_links())


def _script_fields(tables: list[OwnTable]) -> list[dict[str, Any]]:
    return [
        field.for_script() for fields in _groups(tables).values() for field in fields
    ]


def _fixed(form: Form[TrainingConfig], limits: Limits) -> list[str]:
    """Returns label and value of each locked or hidden setting."""
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
    """Returns {setting: note about the chosen value}."""
    notes = {
        field: by_choice.get(form.texts[field], "")
        for field, by_choice in choice_notes().items()
    }
    if form.settings is not None and form.settings.table is not None:
        return notes | {"dataset": data_note(form.settings.data)}
    dataset, model = DATA_SETS.get(form.texts["dataset"]), form.texts["model"]
    notes |= {"private": rate_note(model, form.texts["dataset"])}
    if dataset is None or model not in fitting_models()[form.texts["dataset"]]:
        return notes
    to_do = data_to_do().get(form.texts["dataset"], "")
    return notes | {
        "dataset": f"{data_note(dataset)} {to_do}".strip(),
        "model": model_note(MODELS[model], form.texts["dataset"]),
    }


def stand_in() -> dict[str, str]:
    """Returns the settings of the default preset for sites without MNIST."""
    return next(link.query for link in preset_links() if link.slug == STAND_IN)


@cache
def preset_links() -> list[PresetLink]:
    """Returns the links to presets, with results of their recorded runs."""
    return [_preset_link(preset) for preset in PRESETS]


def _preset_link(preset: Preset) -> PresetLink:
    query = to_query(TrainingConfig.parse(preset.config))
    run = recorded_run(preset.slug)
    return PresetLink(
        slug=preset.slug,
        name=preset.name,
        note=preset.note,
        query=query,
        epsilon=query.get("target_epsilon", ""),
        result=run.summary if run else {},
        curve=spark(run.data("evaluation")) if run else Markup(),
    )


def _placed(twin: RecordedRun, run: RecordedRun) -> list[dict[str, Any]]:
    """Returns a twin's evaluations, each with the private run's ε at that step."""
    spent = {event["step"]: event["epsilon"] for event in run.data("evaluation")}
    return [
        event | {"drawn_at": spent.get(event["step"])}
        for event in twin.data("evaluation")
    ]


def _recorded_lines(config: TrainingConfig) -> list[Line]:
    """Returns the lines of the recorded run and its twin, if these are recorded."""
    query = to_query(config)
    slug = next((p.slug for p in preset_links() if p.query == query), "")
    curves = recorded_curves().get(slug)
    if curves is None:
        return []
    looks = {name: LINES_BEHIND[name] for name in ("twin", "recorded")}
    lines = [Line(curves[name], look.label, look.css) for name, look in looks.items()]
    return [line for line in lines if line.evaluations]


def recorded_run(slug: str) -> RecordedRun | None:
    """Returns a preset's recorded run, None without one."""
    if not (FOLDER / f"{slug}.json").is_file():
        return None
    return recorded.recorded(slug)


@cache
def recorded_curves() -> dict[str, dict[str, list[dict[str, Any]]]]:
    """Returns the evaluations of each preset's recorded run and its twin."""
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
    """Returns the plotted values of a recorded evaluation, rounded; ε is rounded up."""
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
    """Returns the recorded curves as columns, whose JSON is half as large as rows."""
    return {
        slug: {name: _columns(map(_short, curve)) for name, curve in of.items()}
        for slug, of in recorded_curves().items()
    }


def _default_texts() -> dict[str, dict[str, dict[str, str]]]:
    """Returns the texts of ``DEFAULTS_OF``."""
    return {
        setting: {
            chosen: {name: text_of(value) for name, value in values.items()}
            for chosen, values in by_value.items()
        }
        for setting, by_value in DEFAULTS_OF.items()
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
    """Returns the data that the script needs in addition to the page's markup."""
    return {
        "switches": {switch.name: list(switch.members) for switch in form.switches},
        "presets": {preset.slug: preset.query for preset in preset_links()},
        "recorded": _drawn_curves(),
        "lines_behind": lines_behind(),
        "notes": choice_notes(),
        "defaults_of": _default_texts(),
        "config": form.settings.model_dump(mode="json") if form.settings else None,
        "plan": plan,
        "points": CURVE_POINTS,
    }

"""The page of a group of runs: live charts of all runs and their joint progress."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import comb
from typing import Any

from flask import Blueprint, render_template

from dpsgd_explorer.errors import RunNotFoundError
from dpsgd_explorer.experiments.catalogue import MODELS
from dpsgd_explorer.experiments.groups import (
    ROLES,
    SEEDS,
    SWEEP,
    TWIN,
    RunGroup,
    role_of,
)
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.experiments.vocabulary import SETTINGS
from dpsgd_explorer.runs.store.records import Group
from dpsgd_explorer.runs.store.schema import RUNNING
from dpsgd_explorer.web.charts.several_runs import (
    OF_A_SWEEP,
    OF_A_TWIN,
    OF_SEEDS,
    Colour,
    RunLine,
)
from dpsgd_explorer.web.forms.fields import FormField, form_fields
from dpsgd_explorer.web.forms.form import to_query
from dpsgd_explorer.web.http.own_tables import visible_group
from dpsgd_explorer.web.http.services import run_store
from dpsgd_explorer.web.http.visitor import current_visitor
from dpsgd_explorer.web.hub.widgets.three_way_twin.widget import (
    CLIPPED,
    PRIVATE,
    own_rate,
    private_config,
)
from dpsgd_explorer.web.questions.plan_preview import accuracy_range
from dpsgd_explorer.web.recorded.runs import rates_without_privacy
from dpsgd_explorer.web.run_views.group_models import GroupAnswer, GroupMember
from dpsgd_explorer.web.run_views.listing import STATE_WORDS
from dpsgd_explorer.web.run_views.registry import VIEWS

bp = Blueprint("groups", __name__, url_prefix="/groups")

NOUNS = {SWEEP: "sweep", SEEDS: "seeds", TWIN: "twin"}
CHARTS = {SWEEP: OF_A_SWEEP, SEEDS: OF_SEEDS, TWIN: OF_A_TWIN}
TWIN_COLOURS: tuple[Colour, ...] = ("private", "good", "twin")
LOG_BEYOND = 5  # ratio of a sweep's values above which their axis is logarithmic
ROOM = 0.06  # share of the axis beyond the first and last value


@dataclass(frozen=True)
class MemberRow:
    """Table row of a run in the group.

    Attributes:
        state: State of the run in a word.
        result: Result as text, "" if unknown.
        value: Value of the setting that differs between the runs, or the run's role.
        number: Value as a number; None if it is not numeric.
        seed: Seed of the run if other runs have its value, else None.
    """

    run: GroupMember
    state: str
    result: str
    value: str
    number: float | None
    seed: int | None

    @property
    def name(self) -> str:
        """Returns the run's name within the group."""
        return self.value if self.seed is None else f"{self.value}, seed {self.seed}"

    @property
    def is_private(self) -> bool:
        """Returns True if the run adds noise."""
        config = self.run.config
        return bool(config["private"]) and config["noise_multiplier"] != 0


@dataclass(frozen=True)
class Luck:
    """Comparison of two values of a sweep by the ranges of their seeds.

    Attributes:
        seeds: Number of runs of each value.
    """

    seeds: int

    @property
    def apart_percent(self) -> str:
        """Returns how often two equal values have ranges that do not overlap.

        All orders of the 2n results are equally likely if they are independent, and
        the ranges are disjoint in two of the ``comb(2n, n)`` divisions into n and n.
        """
        return f"{200 / comb(2 * self.seeds, self.seeds):.2g}"


@dataclass(frozen=True)
class TwinStart:
    """Learning rates that were tuned without noise, by model and data set.

    Attributes:
        ordinary: Learning rate of the recorded run without privacy.
        clipped: Ratio of the learning rates with clipping alone and with privacy, if
            both were tuned.
    """

    ordinary: dict[str, dict[str, float]]
    clipped: dict[str, dict[str, float]]

    @property
    def roles(self) -> tuple[str, ...]:
        """Kinds of training, in the order of the group's runs."""
        return ROLES

    @property
    def rates(self) -> dict[str, dict[str, dict[str, float]]]:
        """Learning rates and ratios as JSON for the script."""
        return {"ordinary": self.ordinary, "clipped": self.clipped}


@bp.app_template_global()
def twin_start() -> TwinStart:
    """Returns the learning rates that the trainer suggests for a twin."""
    recorded = private_config()
    ratio = own_rate(CLIPPED) / own_rate(PRIVATE)
    clipped = {recorded.model: {recorded.dataset: ratio}}
    return TwinStart(rates_without_privacy(), clipped)


@bp.app_template_global()
def group_words(group_id: str) -> str:
    """Returns the name of a run's group for a link, "" if the run has no group."""
    if not group_id:
        return ""
    try:
        group = run_store().group(group_id)
    except RunNotFoundError:
        return ""  # group name that the visitor typed
    number = len(group.runs)
    return {
        SWEEP: f"Sweep, {number} runs",
        SEEDS: f"{number} seeds",
        TWIN: "Three-way twin",
    }[group.purpose]


@bp.get("/<group_id>/")
def show(group_id: str) -> str:
    """Shows a group of runs, with live updates until all runs end."""
    store, visitor = run_store(), current_visitor()
    group = visible_group(group_id)
    answer = GroupAnswer.of(
        group,
        visitor,
        store.phases_of([run.id for run in group.runs]),
    )
    configs = [TrainingConfig.parse(run.config) for run in group.runs]
    made = RunGroup(group.purpose, group.setting, tuple(configs))
    members = _by_value(
        _member(made, config, run)
        for run, config in zip(answer.runs, configs, strict=True)
    )
    field = form_fields(TrainingConfig).get(group.setting)
    return render_template(
        "groups/show.html",
        group=answer,
        title=_title(group, field),
        noun=NOUNS[group.purpose],
        setup=_setup(configs[0]),
        field=field,
        members=members,
        luck=_luck(members),
        chart=CHARTS[group.purpose],
        query=to_query(configs[0]),
        page_data=_page_data(answer, members, field, configs[0]),
    )


def _title(group: Group, field: FormField | None) -> str:
    if group.purpose == TWIN:
        return "Three-way twin"
    if group.purpose == SEEDS or field is None:
        return f"The same settings, {len(group.runs)} seeds"
    return f"Sweep: {field.label[:1].lower()}{field.label[1:]} {field.symbol}".strip()


def _setup(config: TrainingConfig) -> str:
    """Returns the settings that all runs of a group share, in a few words."""
    return (
        f"{config.data.label}, {MODELS[config.model].inline_label}, "
        f"{config.planned_steps:,} steps"
    )


def _member(group: RunGroup, config: TrainingConfig, run: GroupMember) -> MemberRow:
    view = VIEWS[run.kind]
    state = view.kind.running if run.state == RUNNING else STATE_WORDS[run.state]
    text, number = _value(group, config)
    seed = config.seed if group.repeats_values else None
    return MemberRow(run, state, view.result(run.summary), text, number, seed)


def _by_value(members: Iterable[MemberRow]) -> list[MemberRow]:
    """Returns the runs, sorted by value."""
    groups: dict[str, list[MemberRow]] = {}
    for member in members:
        groups.setdefault(member.value, []).append(member)
    return [member for group in groups.values() for member in group]


def _luck(members: Sequence[MemberRow]) -> Luck | None:
    """Returns how the seeds of a sweep compare its values.

    Returns:
        None unless the values of the sweep have several runs each.
    """
    if any(member.seed is None for member in members):
        return None
    counts = Counter(member.value for member in members).values()
    return Luck(min(counts)) if min(counts) > 1 else None


def _value(group: RunGroup, config: TrainingConfig) -> tuple[str, float | None]:
    """Returns the value that distinguishes a run, as text and as a number."""
    if group.purpose == TWIN:
        symbol = SETTINGS["learning_rate"].symbol
        return f"{role_of(config)}, {symbol} = {config.learning_rate:g}", None
    value = getattr(config, group.setting)
    field = form_fields(TrainingConfig).get(group.setting)
    text = field.in_words(value) if field else str(value)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return text or "not set", float(value) if is_number else None


def _page_data(
    group: GroupAnswer,
    members: list[MemberRow],
    field: FormField | None,
    config: TrainingConfig,
) -> dict[str, Any]:
    """Returns the data for the page's script."""
    places = _places(members)
    return {
        "group": group.model_dump(mode="json"),
        "members": [
            _line(group.purpose, index, member).described()
            | {
                "id": member.run.id,
                "value": member.value,
                "place": place,
                "together": "" if member.seed is None else member.value,
            }
            for index, (member, place) in enumerate(zip(members, places, strict=True))
        ],
        "setting": {"label": field.label, "symbol": field.symbol} if field else None,
        "chart": CHARTS[group.purpose].within(accuracy_range(config.data)).described(),
        "values": _value_axis(members, places)
        | {"name": (field.symbol or field.label) if field else ""},
    }


def _line(purpose: str, index: int, member: MemberRow) -> RunLine:
    """Returns the line of a run; the lines of a twin differ in colour and name."""
    is_private = member.is_private
    line = RunLine(
        key=member.run.id,
        label=member.name,
        colour="private" if is_private else "twin",
        dashed=not is_private,
        planned=member.run.steps,
    )
    if purpose != TWIN:
        return line
    role = member.value.split(",")[0]
    label = f"{role}, not private" if index else role
    colour = TWIN_COLOURS[index]
    return replace(line, label=label, colour=colour, dashed=colour == "twin")


def _places(members: Sequence[MemberRow]) -> list[float]:
    """Returns the positions of a sweep's values: the values if they are numbers."""
    numbers = [member.number for member in members]
    known = [number for number in numbers if number is not None]
    if len(known) == len(numbers):
        return known
    values = list(dict.fromkeys(member.value for member in members))
    return [1.0 + values.index(member.value) for member in members]


def _value_axis(
    members: Sequence[MemberRow], places: Sequence[float]
) -> dict[str, Any]:
    """Returns the axis of a sweep's values, logarithmic if they span a large ratio."""
    low, high = min(places), max(places)
    is_number = all(member.number is not None for member in members)
    log = is_number and low > 0 and high / low >= LOG_BEYOND
    room = (high / low) ** ROOM if log else ROOM * (high - low)
    if not is_number:
        room = 0.5
    return {
        "range": (low / room, high * room) if log else (low - room, high + room),
        "log": log,
        "ticks": sorted(
            {
                (place, member.value)
                for place, member in zip(places, members, strict=True)
            }
        ),
    }

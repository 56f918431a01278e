"""Several trainings side by side: what differs, what came out, what luck alone does."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import scipy

from dpsgd_explorer.experiments.events import changes_of
from dpsgd_explorer.experiments.kinds import DEFAULT_KIND, KINDS
from dpsgd_explorer.experiments.mid_run import FURTHER
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.runs.store.records import Run
from dpsgd_explorer.runs.store.schema import CANCELLED
from dpsgd_explorer.web.questions.looked_at import Total, totals
from dpsgd_explorer.web.questions.rounding import need, percent, points
from dpsgd_explorer.web.run_views.listing import RunRow, looked_at, marked, row_of
from dpsgd_explorer.web.run_views.naming import SEED, short, whole_config
from dpsgd_explorer.web.run_views.registry import VIEWS

MOST = 8
LETTERS = "ABCDEFGH"
NOT_SET = "not set"
UNUSED = "–"
NO_CHANGE = "nothing"
SURE = 0.975  # two-sided 95 %
WORDS = 2  # settings in a short name
Phases = Mapping[str, list[dict[str, Any]]]


@dataclass(frozen=True)
class Compared:
    """One run of a comparison.

    Attributes:
        short: What tells it from the others.
        seeds: Letters of the runs with its settings but for the seed, itself included;
            "" if there is none.
        is_private: Whether it is trained with privacy.
        is_counted: Whether it has a budget: its curve stands at what a filter counted.
        budget: ε that its plan ends at; None without one, or after the run's end.
    """

    letter: str
    row: RunRow
    short: str
    seeds: str
    is_private: bool
    is_counted: bool
    budget: float | None

    @property
    def accuracy(self) -> float | None:
        """Test accuracy at its end, None before it."""
        found: float | None = self.row.run.summary.get("test_accuracy")
        return found


@dataclass(frozen=True)
class Setting:
    """One line of a table: a setting and its value in each run."""

    label: str
    symbol: str
    values: tuple[str, ...]

    @property
    def differs(self) -> bool:
        """Whether runs differ in it on which it has an effect."""
        return len(set(self.values) - {UNUSED}) > 1

    @property
    def common(self) -> str:
        """The value of the runs on which it has an effect."""
        return next((value for value in self.values if value != UNUSED), UNUSED)


@dataclass(frozen=True)
class Comparison:
    """What the page says of the runs.

    Attributes:
        heading: Its conclusion.
        luck: Sentences on what seeds alone do; [] if no two runs differ in it alone.
        spent: What looking at all of them costs, by data set.
        counted: Which curves stand at what a filter counted, "" if none does.
    """

    runs: list[Compared]
    heading: str
    differing: list[Setting]
    same: list[Setting]
    luck: list[str]
    spent: list[Total]
    counted: str = ""


def is_compared(run: Run) -> bool:
    """Return whether a run can be drawn over others."""
    return KINDS[run.kind].compared


def compare(runs: Sequence[Run], phases: Phases, visitor: str) -> Comparison:
    """Compare trainings, at most ``MOST``.

    Args:
        runs: In the order of their letters.
        phases: The data of each run's ``phase`` events, by its id.
        visitor: Who asks.
    """
    settings = _settings(runs, phases)
    differing = [setting for setting in settings if setting.differs]
    seeds = _seeds(runs, phases)
    looked = [looked_at(run, phases[run.id]) for run in runs]
    rows = marked([row_of(run, None, visitor) for run in runs], phases)
    compared = [
        Compared(
            letter,
            row,
            brief,
            together,
            is_private=bool(run.config["private"]),
            is_counted=seen.filtered is not None,
            budget=_budget(run),
        )
        for letter, run, row, together, brief, seen in zip(
            LETTERS, runs, rows, seeds, _shorts(runs, phases), looked, strict=False
        )
    ]
    return Comparison(
        compared,
        _heading(compared),
        differing,
        [setting for setting in settings if not setting.differs],
        _luck(compared),
        list(totals(looked).values()),
        _counted(compared),
    )


def _budget(run: Run) -> float | None:
    """Return the ε at the end of what is planned, while the chart may need it."""
    if run.has_ended or not run.config["private"]:
        return None
    config = TrainingConfig.parse(run.config)
    known = config.filter_epsilon or config.target_epsilon
    if known is not None:
        return known
    planned = config.plan.epsilon()
    return planned if math.isfinite(planned) else None


def _settings(runs: Sequence[Run], phases: Phases) -> list[Setting]:
    view = VIEWS[DEFAULT_KIND]
    configs = [whole_config(view, run.config) for run in runs]
    lines = [
        Setting(
            field.label,
            field.symbol,
            tuple(_value(name, config) for config in configs),
        )
        for name, field in view.fields.items()
    ]
    noise = tuple(_noise(phases[run.id]) for run in runs)
    return [
        *lines,
        Setting("Noise multiplier as used", "σ", noise),
        *_changed(runs, phases),
    ]


def _changed(runs: Sequence[Run], phases: Phases) -> list[Setting]:
    """Return the line of what was changed or continued; [] if nothing was."""
    values = tuple(_changes(run, phases[run.id]) for run in runs)
    is_empty = set(values) == {NO_CHANGE}
    return [] if is_empty else [Setting("Chosen while looking", "", values)]


def _changes(run: Run, told: Sequence[Mapping[str, Any]]) -> str:
    """Return each change of a run: the step it held from, before and after."""
    view = VIEWS[DEFAULT_KIND]
    fields, now = view.fields, whole_config(view, run.config)
    written = []
    for step, values in changes_of(told):
        if FURTHER in values:
            further = f"{values[FURTHER]:,} steps"
            written.append(f"continued after step {step:,} for {further}")
            continue
        words = ", ".join(
            f"{short(fields[name], now[name])} → {fields[name].in_words(value)}"
            for name, value in values.items()
        )
        written.append(f"from step {step + 1:,}: {words}")
        now = now | values
    return "; ".join(written) or NO_CHANGE


def _value(name: str, config: dict[str, Any]) -> str:
    view = VIEWS[DEFAULT_KIND]
    if not view.counts(name, config):
        return UNUSED
    return view.fields[name].in_words(config[name]) or NOT_SET


def _noise(told: Sequence[Mapping[str, Any]]) -> str:
    """Return the noise multiplier of a run, or its first and last."""
    used = [phase.get("noise_multiplier") for phase in told]
    ends = list(dict.fromkeys([used[0], used[-1]])) if used else []
    return " → ".join(UNUSED if x is None else need(x) for x in ends) or UNUSED


def _shorts(runs: Sequence[Run], phases: Phases) -> list[str]:
    """Return for each run its given name, else what sets it apart from most here.

    A run that was changed in mid-run, or stopped, says so: it is not as the others.
    """
    view = VIEWS[DEFAULT_KIND]
    configs = [whole_config(view, run.config) for run in runs]
    usual = {
        name: Counter(repr(config[name]) for config in configs).most_common(1)[0]
        for name in view.fields
    }
    shorts = []
    for run, config in zip(runs, configs, strict=True):
        apart = [
            short(field, config[name])
            for name, field in view.fields.items()
            if config[name] is not None
            and len(runs) > usual[name][1]  # not all have the same
            and (repr(config[name]) != usual[name][0] or usual[name][1] == 1)
            and view.counts(name, config)
        ]
        apart = [*apart[:WORDS], *_by_hand(run, phases[run.id])]
        shorts.append(run.name or " · ".join(apart) or "most common settings")
    return shorts


def _by_hand(run: Run, told: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the changes of a run in mid-run and its stop, in a few words each."""
    view = VIEWS[DEFAULT_KIND]
    fields, now = view.fields, whole_config(view, run.config)
    words = []
    for _, values in changes_of(told):
        if FURTHER in values:
            words.append(f"continued for {values[FURTHER]:,}")
            continue
        for name, value in values.items():
            before = short(fields[name], now[name])
            words.append(f"{before} → {fields[name].in_words(value)}")
        now = now | values
    if run.state == CANCELLED:
        words.append(f"stopped at {run.step:,}")
    return words


def _seeds(runs: Sequence[Run], phases: Phases) -> list[str]:
    """Return for each run the letters of those that differ from it in the seed only."""
    view = VIEWS[DEFAULT_KIND]
    configs = [whole_config(view, run.config) for run in runs]
    keys = [
        ({k: v for k, v in config.items() if k != SEED}, changes_of(phases[run.id]))
        for run, config in zip(runs, configs, strict=True)
    ]
    letters = [
        "".join(LETTERS[j] for j, other in enumerate(keys) if other == key)
        for key in keys
    ]
    return [group if len(group) > 1 else "" for group in letters]


def _counted(runs: Sequence[Compared]) -> str:
    """Return which runs have a budget for changes, and what that means for a chart."""
    letters = "".join(run.letter for run in runs if run.is_counted)
    if not letters:
        return ""
    their = "their filters" if len(letters) > 1 else "its filter"
    return (
        f"{_spoken(letters)} {'are' if len(letters) > 1 else 'is'} drawn at the ε that "
        f"{their} counted. This ε is not a guarantee: the run spends the whole budget, "
        "as in the table."
    )


def _by_data(runs: Sequence[Compared]) -> list[list[Compared]]:
    """Return the runs of each data set: accuracies of two data sets say nothing."""
    groups: dict[str, list[Compared]] = {}
    for run in runs:
        groups.setdefault(run.row.dataset, []).append(run)
    return list(groups.values())


def _heading(runs: Sequence[Compared]) -> str:
    """Return the conclusion, which ranks runs of one data set only."""
    groups = _by_data(runs)
    if len(groups) == 1:
        return _ranked(runs)
    known = [
        f"{group[0].row.dataset_label}: {_ranked(group)}"
        for group in groups
        if sum(run.accuracy is not None for run in group) > 1
    ]
    return ". ".join([f"{len(groups)} data sets: not comparable", *known])


def _ranked(runs: Sequence[Compared]) -> str:
    reached = [(run.accuracy, run) for run in runs if run.accuracy is not None]
    if len(reached) < 2:
        return f"{len(runs)} runs side by side" if len(runs) > 1 else "One run"
    best, first = max(reached, key=lambda pair: pair[0])
    least, last = min(reached, key=lambda pair: pair[0])
    if best == least:
        return f"All end at {percent(best)} %"
    return (
        f"{first.letter} ends highest, at {percent(best)} %: {points(best - least)} "
        f"points above {last.letter}"
    )


def _luck(runs: Sequence[Compared]) -> list[str]:
    """Return what seeds alone do, by data set, and whether the best is beyond it."""
    return [words for group in _by_data(runs) for words in _luck_among(group)]


def _luck_among(runs: Sequence[Compared]) -> list[str]:
    groups: dict[str, list[float]] = {}
    for run in runs:
        if run.accuracy is not None:
            groups.setdefault(run.seeds or run.letter, []).append(run.accuracy)
    sentences = []
    for letters, draws in groups.items():
        if len(draws) < 2:
            continue
        low, high = min(draws), max(draws)
        sentences.append(
            f"{_spoken(letters)} differ in the seed alone and end between "
            f"{percent(low)} and {percent(high)} %: luck moves them by "
            f"{points(high - low)} points."
        )
        others = {name: values for name, values in groups.items() if name != letters}
        if others:
            sentences.append(_beyond_luck(letters, draws, others))
    return sentences


def _beyond_luck(
    letters: str, draws: Sequence[float], others: Mapping[str, Sequence[float]]
) -> str:
    """Return how far the best of the others is from some draws, and whether by luck.

    The range is the prediction interval of the mean of as many new draws (Student).
    """
    name, values = max(others.items(), key=lambda pair: _mean(pair[1]))
    n, m = len(draws), len(values)
    lead = _mean(values) - _mean(draws)
    variance = sum((x - _mean(draws)) ** 2 for x in draws) / (n - 1)
    reach = float(scipy.special.stdtrit(n - 1, SURE)) * math.sqrt(
        variance * (1 / n + 1 / m)
    )
    place = f"{points(abs(lead))} points {'above' if lead > 0 else 'below'}"
    subject = f"The mean of {_spoken(name)}" if m > 1 else name
    claim = (
        "that is more than luck explains"
        if abs(lead) > reach
        else "another seed alone may explain that"
    )
    return (
        f"{subject} is {place} their mean; {claim}: of new draws like these "
        f"{_spoken(letters, count=True)}, 95 % lie within {points(reach)} points of it."
    )


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _spoken(letters: str, *, count: bool = False) -> str:
    """Return "A, B and C", or how many they are."""
    if count:
        return str(len(letters))
    *first, last = list(letters)
    return f"{', '.join(first)} and {last}" if first else last

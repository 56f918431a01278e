"""Comparison of trainings: different settings, results, and the effect of the seed."""

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
from dpsgd_explorer.runs.store.labels import SEED
from dpsgd_explorer.runs.store.records import Run
from dpsgd_explorer.runs.store.schema import CANCELLED
from dpsgd_explorer.web.questions.looked_at import Total, totals
from dpsgd_explorer.web.questions.rounding import need, percent, points
from dpsgd_explorer.web.run_views.listing import RunRow, looked_at, marked, row_of
from dpsgd_explorer.web.run_views.naming import short, whole_config
from dpsgd_explorer.web.run_views.registry import VIEWS

MOST = 8
LETTERS = "ABCDEFGH"
NOT_SET = "not set"
UNUSED = "–"
NO_CHANGE = "nothing"
SURE = 0.975  # quantile of a two-sided 95% interval
WORDS = 2  # maximum number of settings in a short name
Phases = Mapping[str, list[dict[str, Any]]]


@dataclass(frozen=True)
class Compared:
    """One run of a comparison.

    Attributes:
        short: Text that distinguishes it from the other runs.
        seeds: Letters of all runs that differ at most in the seed; "" if there is no
            other run.
        is_private: If True, the run is trained with privacy.
        is_counted: If True, the run has a budget for changes, and its curve shows the ε
            that the filter counted.
        budget: Planned final ε; None without one, or after the end of the run.
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
        """Test accuracy at the end of the run, None before."""
        accuracy: float | None = self.row.run.summary.get("test_accuracy")
        return accuracy


@dataclass(frozen=True)
class Setting:
    """A row of the table: a setting and its value in each run."""

    label: str
    symbol: str
    values: tuple[str, ...]

    @property
    def differs(self) -> bool:
        """Returns whether the value differs between the runs that it affects."""
        return len(set(self.values) - {UNUSED}) > 1

    @property
    def common(self) -> str:
        """Value of the setting in the first run that it affects."""
        return next((value for value in self.values if value != UNUSED), UNUSED)


@dataclass(frozen=True)
class Comparison:
    """The comparison of several runs, as texts and tables.

    Attributes:
        heading: The conclusion.
        luck: Sentences on the effect of the seed; [] if no two runs differ in it alone.
        spent: Joint ε of looking at all runs, by data set.
        counted: Sentence on the curves that show a filter's count; "" without such.
    """

    runs: list[Compared]
    heading: str
    differing: list[Setting]
    same: list[Setting]
    luck: list[str]
    spent: list[Total]
    counted: str = ""


def is_compared(run: Run) -> bool:
    """Returns whether a run can be overlaid with other runs."""
    return KINDS[run.kind].compared


def compare(runs: Sequence[Run], phases: Phases, visitor: str) -> Comparison:
    """Compares trainings, at most ``MOST``.

    Args:
        runs: The runs, in the order of their letters.
        phases: Data of each run's ``phase`` events, by the run's id.
        visitor: The current visitor.
    """
    settings = _settings(runs, phases)
    differing = [setting for setting in settings if setting.differs]
    seeds = _seeds(runs, phases)
    all_viewed = [looked_at(run, phases[run.id]) for run in runs]
    rows = marked([row_of(run, None, visitor) for run in runs], phases)
    compared = [
        Compared(
            letter,
            row,
            short_name,
            together,
            is_private=bool(run.config["private"]),
            is_counted=viewed.filtered is not None,
            budget=_budget(run),
        )
        for letter, run, row, together, short_name, viewed in zip(
            LETTERS,
            runs,
            rows,
            seeds,
            _shorts(runs, phases),
            all_viewed,
            strict=False,
        )
    ]
    return Comparison(
        compared,
        _heading(compared),
        differing,
        [setting for setting in settings if not setting.differs],
        _luck(compared),
        list(totals(all_viewed).values()),
        _counted(compared),
    )


def _budget(run: Run) -> float | None:
    """Returns the planned final ε of an unfinished run, None without one."""
    if run.has_ended or not run.config["private"]:
        return None
    config = TrainingConfig.parse(run.config)
    target = config.filter_epsilon or config.target_epsilon
    if target is not None:
        return target
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
    """Returns the row of changes and continuations; [] without any."""
    values = tuple(_changes(run, phases[run.id]) for run in runs)
    is_empty = set(values) == {NO_CHANGE}
    return [] if is_empty else [Setting("Chosen while looking", "", values)]


def _changes(run: Run, phase_data: Sequence[Mapping[str, Any]]) -> str:
    """Returns each change of a run: its first step, the old and the new value."""
    view = VIEWS[DEFAULT_KIND]
    fields, settings = view.fields, whole_config(view, run.config)
    texts = []
    for step, values in changes_of(phase_data):
        if FURTHER in values:
            further = f"{values[FURTHER]:,} steps"
            texts.append(f"continued after step {step:,} for {further}")
            continue
        words = ", ".join(
            f"{short(fields[name], settings[name])} → {fields[name].in_words(value)}"
            for name, value in values.items()
        )
        texts.append(f"from step {step + 1:,}: {words}")
        settings = settings | values
    return "; ".join(texts) or NO_CHANGE


def _value(name: str, config: dict[str, Any]) -> str:
    view = VIEWS[DEFAULT_KIND]
    if not view.counts(name, config):
        return UNUSED
    return view.fields[name].in_words(config[name]) or NOT_SET


def _noise(phase_data: Sequence[Mapping[str, Any]]) -> str:
    """Returns the first and last noise multiplier of a run, or the only one."""
    used = [phase.get("noise_multiplier") for phase in phase_data]
    ends = list(dict.fromkeys([used[0], used[-1]])) if used else []
    return " → ".join(UNUSED if x is None else need(x) for x in ends) or UNUSED


def _shorts(runs: Sequence[Run], phases: Phases) -> list[str]:
    """Returns each run's given name, or the settings that distinguish it.

    The name mentions mid-run changes and a stop, because they affect the result.
    """
    view = VIEWS[DEFAULT_KIND]
    configs = [whole_config(view, run.config) for run in runs]
    most_common = {
        name: Counter(repr(config[name]) for config in configs).most_common(1)[0]
        for name in view.fields
    }
    shorts = []
    for run, config in zip(runs, configs, strict=True):
        differences = [
            short(field, config[name])
            for name, field in view.fields.items()
            if config[name] is not None
            and len(runs) > most_common[name][1]  # not all runs have the same value
            and (
                repr(config[name]) != most_common[name][0] or most_common[name][1] == 1
            )
            and view.counts(name, config)
        ]
        differences = [*differences[:WORDS], *_by_hand(run, phases[run.id])]
        shorts.append(run.name or " · ".join(differences) or "most common settings")
    return shorts


def _by_hand(run: Run, phase_data: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns the mid-run changes and the stop of a run, each in a few words."""
    view = VIEWS[DEFAULT_KIND]
    fields, settings = view.fields, whole_config(view, run.config)
    words = []
    for _, values in changes_of(phase_data):
        if FURTHER in values:
            words.append(f"continued for {values[FURTHER]:,}")
            continue
        for name, value in values.items():
            old_value = short(fields[name], settings[name])
            words.append(f"{old_value} → {fields[name].in_words(value)}")
        settings = settings | values
    if run.state == CANCELLED:
        words.append(f"stopped at {run.step:,}")
    return words


def _seeds(runs: Sequence[Run], phases: Phases) -> list[str]:
    """Returns for each run the letters of the runs that differ in the seed only."""
    view = VIEWS[DEFAULT_KIND]
    configs = [whole_config(view, run.config) for run in runs]
    keys = [
        ({k: v for k, v in config.items() if k != SEED}, changes_of(phases[run.id]))
        for run, config in zip(runs, configs, strict=True)
    ]
    letters = [
        "".join(LETTERS[j] for j, other_key in enumerate(keys) if other_key == key)
        for key in keys
    ]
    return [group if len(group) > 1 else "" for group in letters]


def _counted(runs: Sequence[Compared]) -> str:
    """Returns a sentence on the curves of runs with a budget for changes."""
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
    """Returns the runs of each data set; different data sets are not comparable."""
    groups: dict[str, list[Compared]] = {}
    for run in runs:
        groups.setdefault(run.row.dataset, []).append(run)
    return list(groups.values())


def _heading(runs: Sequence[Compared]) -> str:
    """Returns the conclusion; it ranks only runs of the same data set."""
    groups = _by_data(runs)
    if len(groups) == 1:
        return _ranked(runs)
    rankings = [
        f"{group[0].row.dataset_label}: {_ranked(group)}"
        for group in groups
        if sum(run.accuracy is not None for run in group) > 1
    ]
    return ". ".join([f"{len(groups)} data sets: not comparable", *rankings])


def _ranked(runs: Sequence[Compared]) -> str:
    reached = [(run.accuracy, run) for run in runs if run.accuracy is not None]
    if len(reached) < 2:
        return f"{len(runs)} runs side by side" if len(runs) > 1 else "One run"
    best, first = max(reached, key=lambda pair: pair[0])
    worst, last = min(reached, key=lambda pair: pair[0])
    if percent(best) == percent(worst):
        return f"All end at {percent(best)} %"
    return (
        f"{first.letter} ends highest, at {percent(best)} %: {points(best - worst)} "
        f"points above {last.letter}"
    )


def _luck(runs: Sequence[Compared]) -> list[str]:
    """Returns sentences on the effect of the seed, by data set."""
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
    """Returns a sentence on the lead of the best other group, and on luck as its cause.

    The range is Student's prediction interval of the mean of ``len(values)`` new draws.
    """
    name, values = max(others.items(), key=lambda pair: _mean(pair[1]))
    n, m = len(draws), len(values)
    lead = _mean(values) - _mean(draws)
    variance = sum((x - _mean(draws)) ** 2 for x in draws) / (n - 1)
    reach = float(scipy.special.stdtrit(n - 1, SURE)) * math.sqrt(
        variance * (1 / n + 1 / m)
    )
    position = f"{points(abs(lead))} points {'above' if lead > 0 else 'below'}"
    subject = f"The mean of {_spoken(name)}" if m > 1 else name
    claim = (
        "that is more than luck explains"
        if abs(lead) > reach
        else "another seed alone may explain that"
    )
    return (
        f"{subject} is {position} their mean; {claim}: of new draws like these "
        f"{_spoken(letters, count=True)}, 95 % lie within {points(reach)} points of it."
    )


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _spoken(letters: str, *, count: bool = False) -> str:
    """Returns the letters as "A, B and C", or their number."""
    if count:
        return str(len(letters))
    *first, last = list(letters)
    return f"{', '.join(first)} and {last}" if first else last

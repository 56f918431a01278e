"""What it costs to look at several runs: their steps on the same records, composed.

Whoever chooses one of some runs has read all of them, so the ε of the choice is that of
their composition, stopped and failed runs included.  The exact composition is that of
mechanisms fixed beforehand.  A run and the one that continues it have one budget.  Of a
stored blind search the winner was seen alone: it counts at the price of the search.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from dpsgd_explorer.accounting import FilteredRun, PaddedSelection, Phase
from dpsgd_explorer.accounting.core.intervals import Interval
from dpsgd_explorer.accounting.queries import epsilon_interval
from dpsgd_explorer.accounting.rdp.together import BoundedRelease, joint_epsilon
from dpsgd_explorer.accounting.spending import FILTER
from dpsgd_explorer.errors import AccountingError, ConfigError
from dpsgd_explorer.experiments.events import Changes, changes_of
from dpsgd_explorer.experiments.mid_run import (
    CHANGED,
    CONTINUED,
    FURTHER,
    words_of,
)
from dpsgd_explorer.experiments.own_table import is_own, label_of
from dpsgd_explorer.experiments.search_config import SearchConfig
from dpsgd_explorer.web.questions.limits import check_size
from dpsgd_explorer.web.questions.privacy import Epsilon, PrivacyTerms
from dpsgd_explorer.web.questions.run_phases import budget_of, phases_done, phases_of

COVERED = (  # the same words as static/js/runs/actions/mid_run.js
    "Chosen while looking: ε covers the choice if the accuracy, ε or the weights led "
    "to it, and does not cover it if the loss or the gradients' lengths did."
)
TOTALS = 256
EXACT, RENYI = "exact", "rdp"  # accountants of steps, and of steps beside searches
Steps = frozenset[tuple[tuple[float, float], int]]  # rate and noise, and their steps
DIGITS = 2  # of noise that is rounded down, where too many phases differ


@dataclass(frozen=True)
class LookedAt:
    """One run that was looked at.

    Attributes:
        dataset: What it was trained on.
        label: Name of the data set for people.
        phases: Its steps so far; empty before the first one.
        delta: δ that it was planned with.
        is_covered: Whether it adds noise that its own audit did not refute, so that
            some ε covers it.
        has_begun: Whether it took a step: before the first one nothing is released.
        changes: Settings changed while it trained, and steps added at its end.
        filtered: Its budget for changes, None if it had none.
        run_id: Its id, "" if it does not matter.
        continues: Id of the run whose steps and budget it took over, "" if none.
        search: Price of the blind search that it is, None if it is none.
        is_refuted: Whether its own audit refuted what its plan says.
    """

    dataset: str
    label: str
    phases: tuple[Phase, ...]
    delta: float
    is_covered: bool
    has_begun: bool
    changes: Changes = ()
    filtered: FilteredRun | None = None
    run_id: str = ""
    continues: str = ""
    search: PaddedSelection | None = None
    is_refuted: bool = False

    def refuted(self) -> LookedAt:
        """Return the run as one that its own audit refuted: no ε covers it."""
        return replace(self, is_covered=False, is_refuted=True)

    @classmethod
    def of_search(cls, config: dict[str, Any], *, is_released: bool) -> LookedAt:
        """Read a blind search: nothing of it is seen before its winner is released."""
        names, delta = (config["dataset"], label_of(config)), float(config["delta"])
        if not is_released:
            return cls(*names, (), delta, is_covered=True, has_begun=False)
        price = SearchConfig.parse(config).price
        return cls(*names, (), delta, True, has_begun=True, search=price)

    @classmethod
    def of(
        cls,
        config: dict[str, Any],
        told: Sequence[dict[str, Any]],
        steps: int,
        *,
        run_id: str = "",
        parent: str = "",
    ) -> LookedAt:
        """Read a run of kind "training" from its settings and its log.

        Args:
            config: Its settings.
            told: The data of its ``phase`` events.
            steps: Steps that it took.
            run_id: Its id.
            parent: Id of the run from which it was made.
        """
        names, delta = (config["dataset"], label_of(config)), float(config["delta"])
        if not told:
            return cls(*names, (), delta, bool(config["private"]), has_begun=False)
        try:
            phases, delta = phases_of(told)
        except ConfigError:
            return cls(*names, (), delta, is_covered=False, has_begun=steps > 0)
        done = tuple(phases_done(phases, steps))
        has_noise = all(x.noise_multiplier > 0 for x in phases)
        changes = changes_of(told)
        went_on = any(FURTHER in values for _, values in changes)
        return cls(
            *names,
            done,
            delta,
            has_noise,
            steps > 0,
            changes,
            budget_of(told),
            run_id,
            parent if went_on else "",
        )


@dataclass(frozen=True)
class Total:
    """What all runs on one data set spent together.

    Attributes:
        spent: ε of their composition with its terms; None where too many different
            steps were taken for an answer.
        covered: Runs that it is the ε of.
        uncovered: Runs that took a step and that no ε covers: they have no noise, or
            their own audit refuted it.
        waiting: Runs that have not taken a step, of which nothing is released.
        runs: All of them.
        changed: Those covered whose settings were changed while they trained.
        continued: Those covered that took steps beyond their end.
        searches: Those covered that are blind searches.
        refuted: Those uncovered that their own audit refuted.
    """

    dataset: str
    label: str
    spent: Epsilon | None
    covered: int
    uncovered: int
    waiting: int
    runs: int
    changed: int
    continued: int
    searches: int = 0
    refuted: int = 0

    @property
    def chosen_words(self) -> str:
        """What ε covers of a choice in mid-run."""
        return COVERED

    @property
    def is_own(self) -> bool:
        """Whether it is the visitor's own table, whose test figures are not private."""
        return is_own(self.dataset)


def totals(runs: Iterable[LookedAt]) -> dict[str, Total]:
    """Return what was spent on each data set; those on different ones do not add up."""
    by_dataset: dict[str, list[LookedAt]] = {}
    for run in runs:
        by_dataset.setdefault(run.dataset, []).append(run)
    return {name: _total(runs) for name, runs in by_dataset.items()}


def _total(runs: Sequence[LookedAt]) -> Total:
    names = runs[0].dataset, runs[0].label
    begun = [run for run in runs if run.has_begun]
    covered = [run for run in begun if run.is_covered]
    # The strictest δ of all: a composition holds at any.
    delta = min(run.delta for run in covered or runs)
    spent = _spent(covered, delta)
    uncovered, waiting = len(begun) - len(covered), len(runs) - len(begun)
    chosen = [words_of(run.changes) for run in covered]
    changed, continued = (sum(x in y for y in chosen) for x in (CHANGED, CONTINUED))
    searches = sum(run.search is not None for run in covered)
    ended = (len(covered), uncovered, waiting, len(runs))
    refuted = sum(run.is_refuted for run in begun)
    counts = (*ended, changed, continued, searches, refuted)
    return Total(*names, spent, *counts)


def _spent(covered: Sequence[LookedAt], delta: float) -> Epsilon | None:
    """Return ε of all steps together; None: they differ too much for an answer."""
    continued = {run.continues for run in covered if run.continues}
    budgets = [
        run.filtered
        for run in covered
        if run.filtered is not None and run.run_id not in continued
    ]
    steps: Counter[tuple[float, float]] = Counter()
    for run in covered:
        for phase in () if run.filtered else run.phases:
            steps[phase.sample_rate, phase.noise_multiplier] += phase.steps
    searches = [run.search for run in covered if run.search is not None]
    bounded = [BoundedRelease.search(price) for price in searches]
    bounded += [BoundedRelease.budget(budget) for budget in budgets]
    interval = _together(bounded, frozenset(steps.items()), delta)
    if interval is None:
        return None
    if budgets and not searches:
        return Epsilon.spent(interval.value, PrivacyTerms.of_counter(FILTER, delta))
    accountant = RENYI if searches else EXACT
    terms = PrivacyTerms.of(accountant, delta, status=interval.status)
    return Epsilon.spent(interval.value, terms)


def _together(
    bounded: Sequence[BoundedRelease], steps: Steps, delta: float
) -> Interval | None:
    """Return the interval of ε of winners, whole budgets and steps; None: unknown."""
    if not bounded:
        return composed(steps, delta)

    def of_steps(delta: float) -> float:
        spent = composed(steps, delta)
        return math.inf if spent is None else spent.value

    planned = [Phase(*rates, count) for rates, count in steps]
    check_size(RENYI, planned)
    value = joint_epsilon(bounded, planned, delta, of_steps)
    return None if math.isinf(value) else Interval(value, None, value, "bound")


@lru_cache(maxsize=TOTALS)
def composed(steps: Steps, delta: float) -> Interval | None:
    """Return the interval of the ε that steps spend; None: they differ too much.

    Args:
        steps: Sample rate and noise multiplier, and how many steps have them.
        delta: In (0, 1).
    """
    if not steps:
        return Interval(0.0, 0.0, 0.0, "exact")
    phases = [Phase(*rates, count) for rates, count in sorted(steps)]
    try:
        check_size(EXACT, phases)
        return epsilon_interval(phases, delta)
    except AccountingError:
        return _coarsely_composed(phases, delta)


def _coarsely_composed(phases: Sequence[Phase], delta: float) -> Interval | None:
    """Return a bound: less noise spends no less, and fewer values are counted fast."""
    steps: Counter[tuple[float, float]] = Counter()
    for phase in phases:
        steps[phase.sample_rate, _down(phase.noise_multiplier)] += phase.steps
    try:
        coarse = [Phase(*rates, count) for rates, count in steps.items()]
        check_size(EXACT, coarse)
        value = epsilon_interval(coarse, delta).value
    except AccountingError:
        return None
    return Interval(value, None, value, "bound")


def _down(noise: float) -> float:
    """Return a number with so many digits that is not above the noise."""
    text = f"{noise:.{DIGITS - 1}e}"
    rounded = float(text)
    if rounded <= noise:
        return rounded
    mantissa, exponent = text.split("e")
    return float(f"{float(mantissa) - 10 ** (1 - DIGITS):.{DIGITS - 1}f}e{exponent}")

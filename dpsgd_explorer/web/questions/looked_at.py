"""The ε of viewing several runs: the composition of their steps on the same records.

Anyone who chooses one of several runs has seen all of them, so the ε of the choice is
the ε of their composition, including stopped and failed runs.  The exact composition
assumes that the mechanisms were fixed beforehand.  A run and its continuation share one
budget.  A stored blind search revealed only its winner, so it counts with the price of
the search.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from dpsgd_explorer.accounting import (
    AllocationPhase,
    FilteredRun,
    PaddedSelection,
    Phase,
)
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
from dpsgd_explorer.web.questions.run_phases import (
    budget_of,
    phases_done,
    phases_of,
    releases_after,
)

COVERED = (  # same text as in static/js/runs/actions/mid_run.js
    "Chosen while looking: ε covers the choice if the accuracy, ε or the weights led "
    "to it, and does not cover it if the loss or the gradients' lengths did."
)
TOTALS = 256
EXACT, RENYI = "exact", "rdp"  # accountants without and with searches
Steps = tuple[Phase, ...]  # in a fixed order
DIGITS = 2  # digits to which noise is rounded down if too many phases differ


@dataclass(frozen=True)
class LookedAt:
    """One run whose results were viewed.

    Attributes:
        dataset: Name of the data set.
        label: Display name of the data set.
        phases: Steps done so far; empty before the first step.
        delta: Planned δ.
        is_covered: If True, some ε covers the run: it adds noise, and its audit did not
            refute its plan.
        has_begun: If True, the run took a step; before that, nothing is released.
        changes: Settings changed while it trained, and steps added at its end.
        filtered: Budget for changes, None without one.
        run_id: Id of the run, "" if not needed.
        continues: Id of the run that it continues, with its steps and budget; "" if it
            is not a continuation.
        search: Price of the run as a blind search, None for other runs.
        is_refuted: If True, the run's own audit refuted its plan.
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
        """Return the run marked as refuted by its own audit: no ε covers it."""
        return replace(self, is_covered=False, is_refuted=True)

    @classmethod
    def of_search(cls, config: dict[str, Any], *, is_released: bool) -> LookedAt:
        """Read a blind search, which reveals nothing before its winner is released."""
        names, delta = (config["dataset"], label_of(config)), float(config["delta"])
        if not is_released:
            return cls(*names, (), delta, is_covered=True, has_begun=False)
        price = SearchConfig.parse(config).price
        return cls(*names, (), delta, True, has_begun=True, search=price)

    @classmethod
    def of(
        cls,
        config: dict[str, Any],
        phase_data: Sequence[dict[str, Any]],
        steps: int,
        *,
        run_id: str = "",
        parent: str = "",
    ) -> LookedAt:
        """Read a run of kind "training" from its settings and its log.

        Args:
            config: Settings of the run.
            phase_data: Data of its ``phase`` events.
            steps: Number of steps done.
            run_id: Id of the run.
            parent: Id of the run from which it was created.
        """
        names, delta = (config["dataset"], label_of(config)), float(config["delta"])
        if not phase_data:
            return cls(*names, (), delta, bool(config["private"]), has_begun=False)
        try:
            phases, delta = phases_of(phase_data)
        except ConfigError:
            return cls(*names, (), delta, is_covered=False, has_begun=steps > 0)
        phases_so_far = tuple(phases_done(phases, releases_after(phase_data, steps)))
        has_noise = all(x.noise_multiplier > 0 for x in phases)
        changes = changes_of(phase_data)
        was_continued = any(FURTHER in values for _, values in changes)
        return cls(
            *names,
            phases_so_far,
            delta,
            has_noise,
            steps > 0,
            changes,
            budget_of(phase_data),
            run_id,
            parent if was_continued else "",
        )


@dataclass(frozen=True)
class Total:
    """The joint spending of all runs on one data set.

    Attributes:
        spent: ε of the composition with its terms; None if the steps differ too much
            to be computed.
        covered: Number of runs that this ε covers.
        uncovered: Number of runs that took a step and that no ε covers, because they
            have no noise or their own audit refuted it.
        waiting: Number of runs without a step, which have released nothing.
        runs: Number of all runs.
        changed: Number of covered runs whose settings were changed in mid-run.
        continued: Number of covered runs that took steps beyond their end.
        searches: Number of covered runs that are blind searches.
        refuted: Number of uncovered runs that their own audit refuted.
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
        """Sentence on whether ε covers a choice in mid-run."""
        return COVERED

    @property
    def is_own(self) -> bool:
        """If True, the data are the visitor's own, and test results are not private."""
        return is_own(self.dataset)


def totals(runs: Iterable[LookedAt]) -> dict[str, Total]:
    """Return the total of each data set; spending on different data does not add up."""
    by_dataset: dict[str, list[LookedAt]] = {}
    for run in runs:
        by_dataset.setdefault(run.dataset, []).append(run)
    return {name: _total(runs) for name, runs in by_dataset.items()}


def _total(runs: Sequence[LookedAt]) -> Total:
    names = runs[0].dataset, runs[0].label
    started = [run for run in runs if run.has_begun]
    covered = [run for run in started if run.is_covered]
    # The strictest δ of all runs: the composition holds at any δ.
    delta = min(run.delta for run in covered or runs)
    spent = _spent(covered, delta)
    uncovered, waiting = len(started) - len(covered), len(runs) - len(started)
    chosen = [words_of(run.changes) for run in covered]
    changed, continued = (sum(x in y for y in chosen) for x in (CHANGED, CONTINUED))
    searches = sum(run.search is not None for run in covered)
    ended = (len(covered), uncovered, waiting, len(runs))
    refuted = sum(run.is_refuted for run in started)
    counts = (*ended, changed, continued, searches, refuted)
    return Total(*names, spent, *counts)


def _spent(covered: Sequence[LookedAt], delta: float) -> Epsilon | None:
    """Return ε of all steps together; None if they differ too much to compute it."""
    continued = {run.continues for run in covered if run.continues}
    budgets = [
        run.filtered
        for run in covered
        if run.filtered is not None and run.run_id not in continued
    ]
    steps = _ordered(
        phase for run in covered for phase in (() if run.filtered else run.phases)
    )
    searches = [run.search for run in covered if run.search is not None]
    bounded = [BoundedRelease.search(price) for price in searches]
    bounded += [BoundedRelease.budget(budget) for budget in budgets]
    interval = _together(bounded, steps, delta)
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

    planned = [_with_known_slots(phase) for phase in steps]
    check_size(RENYI, planned)
    value = joint_epsilon(bounded, planned, delta, of_steps)
    return None if math.isinf(value) else Interval(value, None, value, "bound")


def _with_known_slots(phase: Phase) -> Phase:
    """Return a phase without slots that bounds the divergences of random allocation.

    An observer who knows a record's slots sees one Gaussian step per epoch.
    """
    if not isinstance(phase, AllocationPhase):
        return phase
    return Phase(1.0, phase.noise_multiplier, math.ceil(phase.steps / phase.slots))


@lru_cache(maxsize=TOTALS)
def composed(steps: Steps, delta: float) -> Interval | None:
    """Return the interval of the ε of steps; None if they differ too much.

    Args:
        steps: Phases, as ``_ordered`` returns them.
        delta: In (0, 1).
    """
    if not steps:
        return Interval(0.0, 0.0, 0.0, "exact")
    try:
        check_size(EXACT, steps)
        return epsilon_interval(steps, delta)
    except AccountingError:
        return _coarsely_composed(steps, delta)


def _ordered(phases: Iterable[Phase]) -> Steps:
    """Return phases in a fixed order, with equal settings merged.

    Further steps would begin a new epoch, so an incomplete epoch of random allocation
    is a phase of its own.
    """
    merged: Counter[Phase] = Counter()
    incomplete: list[Phase] = []
    for phase in phases:
        rest = phase.steps % phase.slots if isinstance(phase, AllocationPhase) else 0
        merged[replace(phase, steps=0)] += phase.steps - rest
        incomplete += [replace(phase, steps=rest)] if rest else []
    whole = [replace(phase, steps=steps) for phase, steps in merged.items() if steps]
    return tuple(sorted([*whole, *incomplete], key=_setting))


def _setting(phase: Phase) -> tuple[float, float, int, bool]:
    is_allocated = isinstance(phase, AllocationPhase)
    return (phase.sample_rate, phase.noise_multiplier, phase.steps, is_allocated)


def _coarsely_composed(phases: Sequence[Phase], delta: float) -> Interval | None:
    """Return an upper bound: with noise rounded down, fewer different phases remain."""
    coarse = _ordered(
        replace(phase, noise_multiplier=_rounded_down(phase.noise_multiplier))
        for phase in phases
    )
    try:
        check_size(EXACT, coarse)
        value = epsilon_interval(coarse, delta).value
    except AccountingError:
        return None
    return Interval(value, None, value, "bound")


def _rounded_down(noise: float) -> float:
    """Return the noise rounded down to ``DIGITS`` significant digits."""
    text = f"{noise:.{DIGITS - 1}e}"
    rounded = float(text)
    if rounded <= noise:
        return rounded
    mantissa, exponent = text.split("e")
    return float(f"{float(mantissa) - 10 ** (1 - DIGITS):.{DIGITS - 1}f}e{exponent}")

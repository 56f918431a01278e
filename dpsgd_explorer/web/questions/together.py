"""The joint ε of several runs, for anyone who has seen all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache

from dpsgd_explorer.accounting import Phase
from dpsgd_explorer.accounting.core.phase import has_slots, is_continued_by
from dpsgd_explorer.accounting.queries import epsilon_intervals
from dpsgd_explorer.experiments.accountant_words import MIXED
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.web.questions.limits import check_size
from dpsgd_explorer.web.questions.privacy import Epsilon, PrivacyTerms
from dpsgd_explorer.web.questions.privacy_models import DEFAULT_ACCOUNTANT

CACHED = 64


def together(configs: Iterable[TrainingConfig]) -> Epsilon | None:
    """Return the joint ε of runs that take all their steps, at their smallest δ.

    Returns:
        None without a common guarantee: a run is not private, or the runs use different
        records.
    """
    runs = list(configs)
    if not runs or len({run.dataset for run in runs}) > 1:
        return None
    if not all(run.plan.is_private for run in runs):
        return None
    counts = Counter(phase for run in runs for phase in run.plan.phases)
    delta = min(run.delta for run in runs)
    ordered = sorted(counts.items(), key=lambda item: _setting(item[0]))
    samplings = {run.sampling_law for run in runs}
    sampling = samplings.pop() if len(samplings) == 1 else MIXED
    return _composed(tuple(ordered), delta, sampling)


def _setting(phase: Phase) -> tuple[float, float, int, bool]:
    is_allocated = has_slots([phase])
    return (phase.sample_rate, phase.noise_multiplier, phase.steps, is_allocated)


def _repeated(phase: Phase, number: int) -> list[Phase]:
    """Return the phases of equal runs; an incomplete epoch is not continued."""
    if is_continued_by(phase, phase):
        return [replace(phase, steps=number * phase.steps)]
    return [phase] * number


@lru_cache(maxsize=CACHED)
def _composed(
    releases: tuple[tuple[Phase, int], ...], delta: float, sampling: str
) -> Epsilon:
    phases = [x for phase, number in releases for x in _repeated(phase, number)]
    total = sum(phase.steps for phase in phases)
    check_size(DEFAULT_ACCOUNTANT, phases)
    [interval] = epsilon_intervals(phases, [total], delta, DEFAULT_ACCOUNTANT)
    terms = PrivacyTerms.of(
        DEFAULT_ACCOUNTANT, delta, status=interval.status, sampling=sampling
    )
    return Epsilon.spent(interval.value, terms)

"""The joint ε of several runs, for anyone who has seen all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import lru_cache

from dpsgd_explorer.accounting import Phase
from dpsgd_explorer.accounting.queries import epsilon_intervals
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.web.questions.limits import check_size
from dpsgd_explorer.web.questions.privacy import Epsilon, PrivacyTerms
from dpsgd_explorer.web.questions.privacy_models import DEFAULT_ACCOUNTANT

CACHED = 64
Release = tuple[float, float, int]  # sample rate, noise multiplier, steps


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
    phases = (phase for run in runs for phase in run.plan.phases)
    counts = Counter((p.sample_rate, p.noise_multiplier, p.steps) for p in phases)
    delta = min(run.delta for run in runs)
    return _composed(tuple(sorted(counts.items())), delta)


@lru_cache(maxsize=CACHED)
def _composed(releases: tuple[tuple[Release, int], ...], delta: float) -> Epsilon:
    phases = [Phase(rate, noise, n * steps) for (rate, noise, steps), n in releases]
    total = sum(phase.steps for phase in phases)
    check_size(DEFAULT_ACCOUNTANT, phases)
    [interval] = epsilon_intervals(phases, [total], delta, DEFAULT_ACCOUNTANT)
    terms = PrivacyTerms.of(DEFAULT_ACCOUNTANT, delta, status=interval.status)
    return Epsilon.spent(interval.value, terms)

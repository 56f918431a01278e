"""Bounds that always hold, for settings that the integrals cannot be trusted with.

Notation: P phases, S rows of steps.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dpsgd_explorer.accounting.accountant import SENSITIVITY, Floats, Phase
from dpsgd_explorer.accounting.gaussian import delta_of_mu, epsilon_of_mu
from dpsgd_explorer.accounting.rdp import RdpAccountant
from dpsgd_explorer.accounting.single_step import (
    single_step_delta,
    single_step_epsilon,
)

ROUNDING = 1e-10  # relative error of the closed forms, generously


def crude(
    phases: Sequence[Phase], counts: Floats, delta: float, relation: str
) -> tuple[Floats, Floats]:
    """Return bounds that always hold: one step of each phase, and Rényi's."""
    losses = [
        single_step_epsilon(p.sample_rate, p.noise_multiplier, delta, relation)
        if p.sample_rate < 1
        else 0.0
        for p in phases
    ]
    lower = ((counts > 0) * np.array(losses) * (1 - ROUNDING)).max(axis=1)
    return lower, crude_epsilons(phases, counts, delta, relation)


def crude_epsilons(
    phases: Sequence[Phase], counts: Floats, delta: float, relation: str
) -> Floats:
    """Return Rényi's bound, or for a replaced record that without sampling; [S]."""
    if relation == "replace_one":
        mus = _unsampled_mu(phases, counts)
        return np.array([epsilon_of_mu(delta, float(mu)) for mu in mus])
    rdp = RdpAccountant()
    return np.array(
        [
            rdp.epsilons(done_phases(phases, count), [count.sum()], delta)[0]
            for count in counts
        ]
    )


def crude_deltas(
    phases: Sequence[Phase], count: Floats, epsilons: Floats, relation: str
) -> tuple[Floats, Floats]:
    """Return the same the other way round, with 0 on the other side."""
    done = done_phases(phases, count)
    if relation == "replace_one":
        mu = float(_unsampled_mu(phases, count[None])[0])
        upper = [delta_of_mu(float(x), mu) for x in epsilons]
    else:
        upper = [RdpAccountant().delta(done, float(x)) for x in epsilons]
    return np.zeros(len(epsilons)), np.array(upper)


def variations(phases: Sequence[Phase], relation: str) -> Floats:
    """Return the total variation of a step of each phase, [P].

    They add up over steps: a sum within δ makes ε 0.
    """
    return np.array(
        [
            single_step_delta(p.sample_rate, p.noise_multiplier, 0.0, relation)
            if p.sample_rate < 1
            else delta_of_mu(0.0, SENSITIVITY[relation] / p.noise_multiplier)
            for p in phases
        ]
    )


def _unsampled_mu(phases: Sequence[Phase], counts: Floats) -> Floats:
    """Return μ of a replaced record if every step used all records; [S, P] -> [S].

    Sampling mixes both sides with the same third distribution, which tells no more.
    """
    rates = np.array([SENSITIVITY["replace_one"] / p.noise_multiplier for p in phases])
    return np.asarray(np.sqrt(counts @ rates**2))


def done_phases(phases: Sequence[Phase], count: Floats) -> list[Phase]:
    """Return the phases with so many steps of each."""
    return [
        Phase(phase.sample_rate, phase.noise_multiplier, int(n))
        for phase, n in zip(phases, count, strict=True)
    ]

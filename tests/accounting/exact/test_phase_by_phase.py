"""Several phases, of which one spoils the contour and the lattice for all."""

import math

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as peer

from dpsgd_explorer.accounting import Phase
from dpsgd_explorer.accounting.core.neighboring_relation import (
    ADD_OR_REMOVE_ONE,
    REPLACE_ONE,
)
from dpsgd_explorer.accounting.exact.accountant import ExactAccountant
from dpsgd_explorer.accounting.exact.phase_by_phase import epsilon_phase_by_phase
from dpsgd_explorer.accounting.queries import epsilon_interval

DELTA = 1.055e-7
ODD = Phase(8.8292e-6, 0.230469, 1)  # one step, little noise, on a tiny sample
OTHERS = [
    Phase(0.00511777, 158.44, 34506),
    Phase(1.6029e-5, 2.11805, 26),
    Phase(0.00558339, 0.353665, 171),
    Phase(3.4746e-5, 54.879, 64),
]
FEW, MANY = 6, 40


def peer_epsilon(phases, delta, interval):
    """Return the upper bound of Google's library."""
    losses = [
        peer.from_gaussian_mechanism(
            phase.noise_multiplier,
            value_discretization_interval=interval,
            sampling_prob=phase.sample_rate,
        ).self_compose(phase.steps)
        for phase in phases
    ]
    total = losses[0]
    for loss in losses[1:]:
        total = total.compose(loss)
    return total.get_epsilon_for_delta(delta)


def test_an_odd_phase_costs_what_it_spends_and_no_more():
    """It raised the bound from 20.840 to 24.068."""
    without = epsilon_interval(OTHERS, DELTA)
    found = epsilon_interval([*OTHERS, ODD], DELTA)
    pair = epsilon_interval([OTHERS[2], ODD], DELTA)  # is within reach of a lattice
    theirs = peer_epsilon([*OTHERS, ODD], DELTA, 1e-3)
    assert without.status == found.status == pair.status == "exact"
    assert pair.lower <= found.upper <= 20.842
    assert without.lower * (1 - 1e-4) <= found.lower <= theirs
    assert found.upper == pytest.approx(theirs, rel=1e-4)


def heterogeneous(seed):
    """Return a random relation, δ and phases that differ by orders of magnitude."""
    rng = np.random.default_rng([33, seed])
    relation = REPLACE_ONE if seed % 4 == 3 else ADD_OR_REMOVE_ONE
    phases = [
        Phase(
            math.exp(rng.uniform(math.log(1e-3), math.log(0.5))),
            math.exp(rng.uniform(math.log(0.6), math.log(100.0))),
            int(math.exp(rng.uniform(math.log(60), math.log(20_000)))),
        )
        for _ in range(rng.integers(2, 5))
    ]
    return relation, math.exp(rng.uniform(math.log(1e-11), math.log(1e-3))), phases


@pytest.mark.parametrize(
    "seed",
    [
        *range(FEW),
        *(
            pytest.param(x, marks=pytest.mark.long("long statistics"))
            for x in range(FEW, MANY)
        ),
    ],
)
def test_bounds_phase_by_phase_enclose_what_all_phases_spend(seed):
    """The contour of all phases at once, where it serves, is another way."""
    relation, delta, phases = heterogeneous(seed)
    exact = ExactAccountant()
    steps = sum(phase.steps for phase in phases)
    [truth] = exact.bounds(phases, [steps], delta, relation)
    terms = (exact, phases, delta, relation, truth.upper * 1.3)
    lower, upper = epsilon_phase_by_phase(*terms)
    assert lower <= truth.upper
    assert truth.lower <= upper
    if truth.upper < 100:
        assert upper <= truth.upper * (1 + 2e-3)


def test_too_many_phases_are_left_to_the_other_bounds():
    phases = [Phase(0.01, 1.0 + i, 10) for i in range(9)]
    found = epsilon_phase_by_phase(
        ExactAccountant(), phases, 1e-5, ADD_OR_REMOVE_ONE, math.inf
    )
    assert found == (0.0, math.inf)

"""300 random mixes: no ε is below the truth, and no lower bound is above it."""

import numpy as np
import pytest

from dpsgd_explorer.accounting import (
    DiscreteGaussianMechanism,
    EpsilonDelta,
    LaplaceMechanism,
    Odometer,
    gaussian_delta,
)
from tests.accounting.mechanisms import lattice

SETTINGS, CHUNKS = 300, 10
OFTEN = 3  # chunks that `make test-all` runs; `make test-release` runs the others
#: A setting is decided if the sums reject its ε times this.
SMALLER = 0.998
#: Relative round-off of the plain sums.
ROUND_OFF = 1e-6


def drawn(rng):
    """Return an odometer and its parts in both directions, for the plain sums."""
    ledger, parts = Odometer(), {"remove": [], "add": []}
    for _ in range(rng.integers(1, 3)):
        rate, noise = 10 ** rng.uniform(-2.5, -0.1), 10 ** rng.uniform(-0.3, 0.7)
        steps = int(10 ** rng.uniform(0, 1.8))
        ledger.add_dp_sgd(rate, noise, steps)
        for direction, row in parts.items():
            row.append(lattice.dp_sgd(rate, noise, steps, direction))
    others = [add for add, share in OTHERS.items() if rng.random() < share]
    for add in others:
        part = add(ledger, rng)
        for row in parts.values():
            row.append(part)
    return ledger, parts, add_guarantee in others


def add_gaussian(ledger, rng):
    noise = 10 ** rng.uniform(0.0, 1.5)
    ledger.add_gaussian(noise)
    return lattice.gaussian(noise)


def add_laplace(ledger, rng):
    scale, count = 10 ** rng.uniform(-0.2, 1.5), int(rng.integers(1, 6))
    ledger.add(LaplaceMechanism(scale, 0.5), count=count)
    return lattice.laplace(0.5 / scale, count)


def add_discrete(ledger, rng):
    scale, sensitivity = 10 ** rng.uniform(0.3, 2), int(rng.integers(1, 3))
    ledger.add(DiscreteGaussianMechanism(scale, sensitivity), count=2)
    return lattice.discrete_gaussian(scale, sensitivity, 2)


def add_guarantee(ledger, rng):
    loss, failure = 10 ** rng.uniform(-2, 0), 10 ** rng.uniform(-9, -7)
    ledger.add(EpsilonDelta(loss, failure), count=2)
    return lattice.guarantee(loss, failure, 2)


#: Functions that add a mechanism, and the share of the settings that have it.
OTHERS = {add_gaussian: 0.4, add_laplace: 0.5, add_discrete: 0.3, add_guarantee: 0.3}


def test_the_plain_sums_know_the_gaussian():
    """Four steps on all records are one Gaussian of half the noise."""
    part = lattice.gaussian(4.0)._replace(count=4)
    found, error = lattice.deltas([part], [0.5, 1.0, 3.0])
    truth = [gaussian_delta(epsilon=x, noise_multiplier=2.0) for x in (0.5, 1.0, 3.0)]
    np.testing.assert_allclose(found, truth, rtol=1e-6)
    assert np.all(error < 1e-6)


@pytest.mark.long("long statistics")
@pytest.mark.timeout(1200)  # 1 to 3 minutes of one core each
@pytest.mark.parametrize(
    "chunk",
    [
        *range(OFTEN),
        *(pytest.param(i, marks=pytest.mark.release) for i in range(OFTEN, CHUNKS)),
    ],
)
def test_no_epsilon_is_below_the_truth(chunk):
    rng, decided, narrow = np.random.default_rng([14, chunk]), 0, 0
    for _ in range(SETTINGS // CHUNKS):
        ledger, parts, has_guarantee = drawn(rng)
        delta = 10 ** rng.uniform(-6.5, -2)
        spent = ledger.epsilon_interval(delta)
        asked = [spent.lower, spent.upper, spent.upper * SMALLER]
        both = [lattice.deltas(row, asked) for row in parts.values()]
        values, errors = (np.max(x, axis=0) for x in zip(*both, strict=True))
        at_lower, at_upper, at_smaller = values
        slack = errors + ROUND_OFF * delta
        assert at_upper <= delta + slack[1], ledger.to_json()
        if spent.lower > 0:
            assert at_lower >= delta - slack[0], ledger.to_json()
        decided += at_smaller > delta + slack[2]
        narrow += has_guarantee or spent.upper - spent.lower <= 1e-2 * spent.upper
    assert decided >= 0.9 * SETTINGS / CHUNKS
    assert narrow >= 0.9 * SETTINGS / CHUNKS

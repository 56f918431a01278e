"""Two steps: δ is an integral over one of them of the closed form of the other."""

import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsgd_explorer import accounting
from dpsgd_explorer.accounting import Phase
from dpsgd_explorer.accounting.exact.subsampled_gaussian import SubsampledGaussianLoss
from dpsgd_explorer.accounting.queries import epsilon_interval
from tests.in_order import in_order

# Both had an upper side that was too low: one step's transform falls to 1e-12, where
# that of the other, on a tiny sample, is still near 1.
PAIRS = [
    (
        Phase(0.002612035706687453, 11.291929551820388, 1),
        Phase(3.123049296581438e-05, 7.942233210107755, 1),
        1.0055202505277296e-15,
    ),
    (
        Phase(0.038275310410311125, 7.101510567238103, 1),
        Phase(0.0001304490163244841, 1.5791885322116792, 1),
        6.2e-9,
    ),
]


def step_delta(q, sigma, loss):
    """δ of one step, "remove", at any loss, with mpmath's digits."""
    gain = mp.expm1(loss)
    if gain <= -q:
        return -gain
    inner = mp.log1p(gain / q)
    near = mp.ncdf(1 / (2 * sigma) - inner * sigma)
    return q * (near - mp.exp(inner) * mp.ncdf(-1 / (2 * sigma) - inner * sigma))


def delta_of_two(one, other, loss, spacing):
    """δ of both steps, "remove": the trapezoid rule over the noise of the second."""
    p, r = mp.mpf(one.sample_rate), mp.mpf(one.noise_multiplier)
    q, sigma = mp.mpf(other.sample_rate), mp.mpf(other.noise_multiplier)
    total = mp.mpf(0)
    for k in range(round(-12 / spacing), round((12 + 1 / sigma) / spacing) + 1):
        v = k * mp.mpf(spacing)
        ratio = 1 + q * mp.expm1((v - 1 / (2 * sigma)) / sigma)
        total += mp.npdf(v) * ratio * step_delta(p, r, loss - mp.log(ratio))
    return total * spacing


@pytest.mark.parametrize(("one", "other", "delta"), PAIRS)
def test_the_truth_lies_between_the_sides(one, other, delta):
    sides = epsilon_interval([one, other], delta)
    assert sides.status == "exact"
    assert sides.lower <= sides.upper
    with mp.workdps(30):
        coarse, fine, below = (
            delta_of_two(one, other, mp.mpf(loss), spacing) / delta
            for loss, spacing in [
                (sides.upper, 0.25),
                (sides.upper, 0.125),
                (sides.lower, 0.25),
            ]
        )
    assert abs(coarse - fine) < 1e-12
    assert fine <= 1 <= below


def delta_by_floats(one, other, loss, nodes):
    """The same with 64 bits, which are enough: every term is positive."""
    q, sigma = other.sample_rate, other.noise_multiplier
    v = np.linspace(-12, 12 + 1 / sigma, nodes)
    y = np.log1p(q * np.expm1((v - 0.5 / sigma) / sigma))
    weight = np.exp(y - v * v / 2) * (v[1] - v[0]) / math.sqrt(2 * math.pi)
    step = SubsampledGaussianLoss(one.sample_rate, one.noise_multiplier, "remove")
    return float(weight @ step.deltas(loss - y))


def delta_and_doubt(one, other, loss):
    """δ of both in the order that converges faster, and how far it may be off."""
    found = []
    for first, second in ((one, other), (other, one)):
        coarse, fine = (
            delta_by_floats(first, second, loss, n) for n in (16_001, 32_001)
        )
        found.append((3 * abs(coarse - fine) + 1e-9 * fine, fine))
    doubt, value = min(found)
    assert doubt < 1e-5 * value, "neither order of the steps has converged"
    return value, doubt


RATE = st.floats(-4.5, -0.3).map(lambda x: 10**x)
NOISE = st.floats(-0.3, 1.3).map(lambda x: 10**x)
STEP = st.builds(Phase, RATE, NOISE, st.just(1))


@settings(deadline=None, derandomize=True, max_examples=40)
@given(STEP, STEP, st.floats(-12, -1).map(lambda x: 10**x))
def test_the_truth_of_any_two_steps_lies_between_the_sides(one, other, delta):
    sides = epsilon_interval([one, other], delta)
    assert sides.lower <= sides.upper * (1 + 1e-10)
    value, doubt = delta_and_doubt(one, other, sides.upper)
    assert value <= delta + doubt
    if sides.lower > 0:  # of the larger direction, "remove"
        value, doubt = delta_and_doubt(one, other, sides.lower)
        assert value >= delta - doubt


@pytest.mark.parametrize(
    ("rate", "noise", "steps", "relation"),
    [
        (1.1640e-4, 1.7460, 17, "add_or_remove_one"),
        (9.0874e-5, 0.389598, 12, "replace_one"),
        (0.01, 1.0, 1000, "add_or_remove_one"),
        (0.3, 2.0, 5, "add_or_remove_one"),
    ],
)
def test_the_epsilon_of_some_steps_allows_as_many(rate, noise, steps, relation):
    """The searcher's lattice was coarser than the answer's: one step fewer."""
    terms = (3.81e-11, "exact", relation)
    spent = in_order(accounting.epsilon, rate, noise, steps, *terms)
    assert in_order(accounting.steps, spent, rate, noise, *terms) == steps

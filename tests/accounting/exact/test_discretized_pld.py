"""Discretised PLDs bracket the truth, as independent evaluations of it do."""

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

from dpsgd_explorer.accounting.calibration import steps as most_steps
from dpsgd_explorer.accounting.core.accountant import Phase
from dpsgd_explorer.accounting.core.neighboring_relation import (
    ADD_OR_REMOVE_ONE,
    REPLACE_ONE,
)
from dpsgd_explorer.accounting.core.phase import StepCounts
from dpsgd_explorer.accounting.exact.accountant import ExactAccountant
from dpsgd_explorer.accounting.exact.composition import Composition
from dpsgd_explorer.accounting.exact.discretization import (
    optimistic_masses,
    pessimistic_masses,
)
from dpsgd_explorer.accounting.exact.discretized_pld import TiltedPld
from dpsgd_explorer.accounting.exact.fallback_bounds import fallback_epsilons
from dpsgd_explorer.accounting.exact.pld_bounds import (
    discretized_epsilons,
    discretized_log_deltas,
)
from dpsgd_explorer.accounting.exact.privacy_loss import GaussianLoss
from dpsgd_explorer.accounting.exact.single_step import (
    single_step_delta,
    single_step_epsilon,
)
from dpsgd_explorer.accounting.exact.subsampled_gaussian import SubsampledGaussianLoss
from tests.accounting.curves import arrays

DIRECTIONS = ["remove", "add", "replace"]
LOSSES = [SubsampledGaussianLoss(1e-3, 0.7, direction) for direction in DIRECTIONS]
LOSSES += [SubsampledGaussianLoss(0.3, 2.0, direction) for direction in DIRECTIONS]
LOSSES += [GaussianLoss(0.5)]


def by_discretized_plds(losses, counts, delta, refinements=3):
    composition = Composition(losses)
    rows = np.atleast_2d(np.asarray(counts, dtype=float))
    composition._saddles.at_delta(rows, math.log(delta))
    tilts = composition._saddles.tilts
    cumulants = composition._saddles.cumulants(rows)[0]
    found = discretized_epsilons(losses, rows, delta, tilts, cumulants, refinements)
    return composition, tilts, cumulants, found


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_the_two_curves_enclose_the_true_one(loss):
    low, high = loss.loss_range(1e-12)
    corners = np.linspace(low - 0.01, high + 0.01, 700)
    upper, infinite = pessimistic_masses(loss, corners)
    lower = optimistic_masses(loss, corners)
    assert lower.min() >= 0
    assert upper.min() > -1e-12
    assert upper.sum() + infinite == pytest.approx(1, abs=1e-9)
    for epsilon in np.linspace(low, high, 1999):
        gain = np.maximum(-np.expm1(epsilon - corners), 0.0)
        truth = loss.deltas(np.array([epsilon]))[0]
        assert lower @ gain <= truth * (1 + 1e-12) + 1e-15
        assert truth <= upper @ gain + infinite + 1e-12 * truth + 1e-15


@pytest.mark.parametrize("direction", ["remove", "replace"])
@pytest.mark.parametrize(("q", "sigma"), [(1e-4, 0.5), (0.01, 1.0), (0.9, 3.0)])
def test_many_losses_at_once_are_each_by_itself(q, sigma, direction):
    relation = {"remove": ADD_OR_REMOVE_ONE, "replace": REPLACE_ONE}[direction]
    epsilons = np.linspace(0, 3, 31)
    alone = [single_step_delta(q, sigma, float(x), relation) for x in epsilons]
    at_once = SubsampledGaussianLoss(q, sigma, direction).deltas(epsilons)
    assert at_once == pytest.approx(alone, rel=1e-9, abs=1e-18)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_at_a_negative_loss_a_curve_is_that_of_the_swapped_pair(loss):
    swapped = loss
    if isinstance(loss, SubsampledGaussianLoss) and loss.direction != "replace":
        other = "add" if loss.direction == "remove" else "remove"
        swapped = SubsampledGaussianLoss(loss.sample_rate, loss.noise_multiplier, other)
    x = np.linspace(-2, 2, 41)
    mirrored = -np.expm1(x) + np.exp(x) * swapped.deltas(-x)
    assert loss.deltas(x) == pytest.approx(mirrored, abs=1e-14)


@settings(deadline=None, derandomize=True, max_examples=50)
@example(-0.5, 0.0, 0.375, -10.0, "add")  # weights that are no floats
@given(
    st.floats(-5, -0.1),
    st.floats(-0.5, 1.0),
    st.floats(0.31, 3),
    st.floats(-12, -3),
    st.sampled_from(DIRECTIONS),
)
def test_discretised_plds_and_the_contour_agree(log_q, log_sigma, log_t, slack, way):
    loss = SubsampledGaussianLoss(10**log_q, 10**log_sigma, way)
    count, delta = [float(int(10**log_t))], 10**slack
    composition, tilts, cumulants, (low, high) = by_discretized_plds(
        [loss], count, delta, 2
    )
    lower, upper = composition.epsilons(np.array([count]), delta)
    assert low <= np.maximum(upper, 0) * (1 + 1e-9)
    assert np.maximum(lower, 0) <= high * (1 + 1e-9)
    if 0 < high < np.inf:
        one, row = np.array([high[0]]), np.array(count)
        least, most = discretized_log_deltas([loss], row, one, tilts, cumulants[0], 2)
        assert least[0] <= math.log(delta) + 1e-6
        assert least[0] <= most[0]


def test_unlike_phases_compose():
    losses = [
        SubsampledGaussianLoss(0.02, 0.8, "remove"),
        GaussianLoss(0.2),
        SubsampledGaussianLoss(0.1, 2.0, "remove"),
    ]
    composition, _, _, (low, high) = by_discretized_plds(losses, [5.0, 2.0, 30.0], 1e-6)
    lower, upper = composition.epsilons(np.array([[5.0, 2.0, 30.0]]), 1e-6)
    assert upper[0] - lower[0] < 1e-6 * upper[0]
    assert low[0] <= upper[0]
    assert lower[0] <= high[0] <= low[0] * (1 + 2e-4)


def test_a_curve_of_few_steps_rises_and_ends_at_its_last_value():
    accountant, steps = ExactAccountant(), np.arange(1, 61)
    phase = Phase(64 / 32_561, 0.6699, 60)
    curve = arrays(accountant.bounds([phase], steps, 1e-5))
    assert np.all(np.diff(curve.upper) > 0)
    assert np.all(curve.upper - curve.lower < 2e-3 * curve.upper)
    last = arrays(accountant.bounds([phase], [60], 1e-5))
    assert curve.upper[-1] == pytest.approx(last.upper[0], rel=1e-6)
    middle = arrays(accountant.bounds([phase], [17], 1e-5))
    assert curve.upper[16] == pytest.approx(middle.upper[0], rel=1e-4)


@pytest.mark.parametrize("delta", [1e-5, 1e-12])
def test_delta_of_few_steps_undoes_epsilon(delta):
    accountant, run = ExactAccountant(), [Phase(64 / 32_561, 0.7548, 5)]
    sides = arrays(accountant.bounds(run, [5], delta))
    found = arrays(accountant.delta_bounds(run, [sides.lower[0], sides.upper[0]]))
    assert found.lower[1] <= delta <= found.upper[0]
    assert found.upper == pytest.approx([delta, delta], rel=2e-3)


def test_rows_beyond_those_that_are_narrowed_lie_between_them():
    steps = np.arange(1, 301)
    curve = arrays(ExactAccountant().bounds([Phase(1e-4, 0.3, 300)], steps, 1e-5))
    assert np.all(np.diff(curve.upper) >= 0)
    assert np.all(curve.lower <= curve.upper)
    assert np.quantile(curve.upper - curve.lower, 0.9) < 0.1


# No line serves 14 steps, and none serves 15 beside them: 17.58 alone was 20.3 here.
@pytest.mark.parametrize("asked", [[14, 15], [15, 41], [10, 15, 20], [15, 16]])
def test_steps_spend_beside_others_what_they_spend_alone(asked):
    phase = Phase(0.00997272960500488, 0.36538904671964956, 41)
    slack, relation = 4.692726251652295e-9, REPLACE_ONE
    accountant = ExactAccountant()
    beside = arrays(accountant.bounds([phase], asked, slack, relation))
    alone = [
        arrays(accountant.bounds([phase], [step], slack, relation)).upper[0]
        for step in asked
    ]
    assert beside.upper == pytest.approx(alone, rel=1e-4)


# The window of discrete losses was too wide to serve: 4.3 to 10, 13 to 19.
@pytest.mark.parametrize(
    ("q", "sigma", "steps", "slack"),
    [
        (1.65e-4, 0.362, 594, 3e-8),
        (1.07e-3, 0.358, 13, 4.4e-13),
        (2.77e-4, 0.352, 83, 7.5e-9),
    ],
)
def test_a_replaced_record_of_a_tiny_sample_is_narrowed(q, sigma, steps, slack):
    phase = Phase(q, sigma, steps)
    sides = arrays(ExactAccountant().bounds([phase], [steps], slack, REPLACE_ONE))
    assert sides.lower[0] <= sides.upper[0] <= 1.002 * sides.lower[0]
    assert sides.upper[0] <= steps * single_step_epsilon(
        q, sigma, slack / steps, REPLACE_ONE
    )


# Losses that no grid covers widened the window: 3.6386 at 0.99, 3.5504 at 1.001.
# Independent: losses rounded up and down to multiples of 2e-6, composed by Fourier
# transforms in 80-bit floats.
@pytest.mark.parametrize(
    ("share", "least", "most"),
    [
        (0.99, 0.633207, 0.633950),
        (1.0, 0.568661, 0.569404),
        (1.001, 0.562560, 0.563303),
        (1.1, 0.194422, 0.195165),
    ],
)
def test_losses_beyond_the_grid_widen_no_window(share, least, most):
    phase = Phase(3.3464481723376685e-06, share * 0.5635485763053107, 371)
    sides = arrays(ExactAccountant().bounds([phase], [371], 1.759800606322358e-13))
    assert sides.lower[0] <= most
    assert least <= sides.upper[0] <= 1.02 * most


# The least cancellation was that of a window too wide for any grid: 4.9e-15.
def test_a_tiny_delta_of_a_tiny_sample_is_narrowed():
    run = [Phase(1.0335286837382413e-07, 0.773744622599312, 1401)]
    found = arrays(ExactAccountant().delta_bounds(run, [1.821194375845951]))
    assert found.lower[0] <= found.upper[0] <= 1e-30


def test_epsilon_of_a_tiny_sample_falls_with_every_thousandth_of_noise():
    noises = 0.56 * 1.001 ** np.arange(13)
    phases = [Phase(3.3464481723376685e-06, float(noise), 371) for noise in noises]
    spent = [
        arrays(ExactAccountant().bounds([phase], [371], 1.759800606322358e-13)).upper[0]
        for phase in phases
    ]
    assert np.all(np.diff(spent) < 0)
    assert max(spent) < 0.62


@pytest.mark.parametrize("tilt", [0.3, 20.0, 400.0])
def test_moments_by_blocks_are_those_of_the_definition(tilt):
    generator = np.random.default_rng(5)
    corners = -0.7 + 0.003 * np.arange(1001)
    shares = generator.exponential(size=1001) * np.exp(-30 * generator.random(1001))
    shares[400:470] = 0.0
    shares[::50] = -1e-17
    shifts = np.array([0.5, 12.0, -0.2 * tilt, -tilt])
    step = TiltedPld(0, corners, shares, np.zeros(0), 0.0, 0.0, shifts)
    kept = shares > 0
    logs = np.outer(shifts, corners[kept]) + np.log(shares[kept])
    assert step.log_moments == pytest.approx(logsumexp(logs, axis=1), abs=1e-11)


# The squares of weights were too small for floats, and round-off had no bound.
@pytest.mark.parametrize(
    ("phase", "slack"),
    [
        (Phase(0.01, 7.456319798379756, 44), 1.3314031997977497e-215),
        (Phase(0.9999999956388032, 1.638987501160212, 16), 3.47697884e-171),
    ],
)
def test_sides_at_the_least_deltas_agree_with_other_bounds(phase, slack):
    loss = SubsampledGaussianLoss(phase.sample_rate, phase.noise_multiplier, "remove")
    counts = np.array([[float(phase.steps)]])
    *_, (lower, upper) = by_discretized_plds([loss], counts, slack)
    most = fallback_epsilons(StepCounts.whole([phase], ADD_OR_REMOVE_ONE), slack)
    assert lower[0] <= min(upper[0], most[0])


def test_a_search_for_steps_evaluates_the_moments_of_a_step_once(monkeypatch):
    seen = []
    original = SubsampledGaussianLoss.cumulants

    def counted(self, tilts):
        seen.append((self, float(tilts[0]), len(tilts)))
        return original(self, tilts)

    monkeypatch.setattr(SubsampledGaussianLoss, "cumulants", counted)
    phases = [Phase(1.3e-7, 3 + i / 5, 2) for i in range(5)]
    most_steps(
        target_epsilon=1e-3,
        sample_rate=1.3e-7,
        noise_multiplier=3.0,
        delta=1e-12,
        before=phases,
    )
    assert len(seen) == len(set(seen)) > len(phases)

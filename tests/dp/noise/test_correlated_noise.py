"""Correlated noise, against a dense matrix C⁻¹ and against its law.

Seeds are fixed, or the noise is secret and a test fails once in a million runs.
"""

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.linalg import toeplitz

from dpsgd_explorer.accounting import (
    ToeplitzStrategy,
    banded_strategy,
    geometric_strategy,
)
from dpsgd_explorer.accounting.correlated.strategies import strategy_of_inverse
from dpsgd_explorer.dp.noise.correlated import CorrelatedNoise
from dpsgd_explorer.dp.noise.secure import GRID_RATIO, SecureNoise
from dpsgd_explorer.dp.noise.seeded import SeededNoise
from dpsgd_explorer.errors import PrivacyError
from tests.dp.laws import ALARM, of_variance

STEPS, BANDS = 10, 4
STRATEGY = banded_strategy(STEPS, BANDS)
DEVIATION = 0.7


def dense(strategy=STRATEGY):
    """Return C, [T, T]."""
    column = np.zeros(strategy.steps)
    column[: strategy.bands] = strategy.coefficients
    return toeplitz(column, np.zeros(strategy.steps))


def released(noise, sums, divisor=1.0, first=0):
    """Return what is released of sums [T, P], each in two chunks."""
    rows = []
    for step, row in enumerate(sums, start=first):
        noise.begin_step(step)
        values = row.clone()
        for chunk in torch.split(values, len(values) // 2 + 1):
            noise.add_to(chunk, DEVIATION, divisor)
        rows.append(values)
    return torch.stack(rows)


def sums(entries=7, dtype=torch.float64):
    generator = torch.Generator().manual_seed(3)
    return torch.randn(STEPS, entries, dtype=dtype, generator=generator)


@pytest.mark.parametrize("bands", [1, 2, 4, STEPS])
def test_releases_are_those_of_the_inverse_matrix(bands):
    strategy, gradients = banded_strategy(STEPS, bands), sums()
    z = torch.zeros_like(gradients)
    fresh = SeededNoise(5)
    for row in z:
        for chunk in torch.split(row, 4):
            fresh.add_to(chunk, DEVIATION)
    expected = gradients.numpy() + np.linalg.solve(dense(strategy), z.numpy())
    noise = CorrelatedNoise(SeededNoise(5), strategy, strategy.bands)
    got = released(noise, gradients, divisor=2.0)
    np.testing.assert_allclose(got.numpy(), expected / 2.0, atol=1e-12)


@pytest.mark.parametrize(
    ("strategy", "kept"),
    [
        (geometric_strategy(0.9, STEPS), 1),
        (geometric_strategy(0.0, STEPS), 0),
        (strategy_of_inverse((1.0, -0.5, 0.2, -0.3), STEPS), 3),
    ],
    ids=["geometric", "independent", "three steps"],
)
def test_a_banded_inverse_keeps_fresh_noise_of_as_many_steps(strategy, kept):
    gradients = sums()
    z = torch.zeros_like(gradients)
    fresh = SeededNoise(5)
    for row in z:
        for chunk in torch.split(row, 4):
            fresh.add_to(chunk, DEVIATION)
    expected = gradients.numpy() + np.linalg.solve(dense(strategy), z.numpy())
    noise = CorrelatedNoise(SeededNoise(5), strategy, period=3)
    got = released(noise, gradients, divisor=2.0, first=3)
    np.testing.assert_allclose(got.numpy(), expected / 2.0, atol=1e-12)
    assert [len(chunk) for chunk in noise.state()["past"]] == [kept, kept]
    again = CorrelatedNoise(SeededNoise(5), strategy, period=3)
    half = released(again, gradients[:4])
    other = CorrelatedNoise(SeededNoise(6), strategy, period=3)
    other.restore(again.state())
    rest = released(other, gradients[4:], first=4)
    np.testing.assert_allclose(torch.cat([half, rest]) / 2, got, atol=1e-12)
    with pytest.raises(PrivacyError, match="from the start of a round of 3 steps"):
        CorrelatedNoise(SeededNoise(5), strategy, period=3).begin_step(1)


def test_squared_norms_are_those_of_the_sum_before_noise():
    noise, gradients = CorrelatedNoise(SeededNoise(5), STRATEGY, BANDS), sums()
    for step, row in enumerate(gradients):
        noise.begin_step(step)
        square = noise.add_to(row.clone(), DEVIATION)
        assert float(square) == pytest.approx(float(row @ row))


def test_the_matrix_makes_secret_noise_independent():
    gradients = sums(40_000, torch.float32)
    got = released(CorrelatedNoise(SecureNoise(), STRATEGY, BANDS), gradients)
    whitened = dense() @ (got - gradients).double().numpy()
    assert of_variance(whitened, DEVIATION) > ALARM
    correlations = np.corrcoef(whitened)[np.triu_indices(STEPS, 1)]
    square = whitened.shape[1] * np.square(correlations).sum()
    assert stats.chi2.sf(square, len(correlations)) > ALARM


@pytest.mark.parametrize("strategy", [STRATEGY, geometric_strategy(0.9, STEPS)])
def test_secret_releases_are_on_the_grid(strategy):
    noise = CorrelatedNoise(SecureNoise(), strategy, BANDS)
    got = released(noise, sums(50, torch.float32))
    grid = GRID_RATIO * 0.5  # the largest power of two below the standard deviation
    assert torch.equal(got, (got / grid).round() * grid)


def test_growth_is_the_norm_of_a_row():
    noise = CorrelatedNoise(SeededNoise(5), STRATEGY, BANDS)
    rows = np.linalg.norm(np.linalg.inv(dense()), axis=1)
    for step, row in enumerate(rows):
        noise.begin_step(step)
        assert noise.growth == pytest.approx(row)
        noise.add_to(torch.zeros(3), DEVIATION)


def test_a_seeded_state_continues_bit_by_bit():
    gradients = sums()
    whole = released(CorrelatedNoise(SeededNoise(5), STRATEGY, BANDS), gradients)
    first, second = (CorrelatedNoise(SeededNoise(s), STRATEGY, BANDS) for s in (5, 6))
    released(first, gradients[:6])
    state = first.state()
    released(first, gradients[6:], first=6)  # the state is a copy
    second.restore(state)
    assert torch.equal(released(second, gradients[6:], first=6), whole[6:])


def test_a_secret_state_has_no_noise_and_begins_afresh():
    noise = CorrelatedNoise(SecureNoise(), STRATEGY, BANDS)
    released(noise, sums()[:BANDS])
    state = noise.state()
    assert list(state) == ["fresh"]
    assert state["fresh"].numel() == 0
    noise.restore(state)
    assert noise.growth == 1.0
    noise.begin_step(BANDS)


def started(steps=1):
    noise = CorrelatedNoise(SecureNoise(), STRATEGY, BANDS)
    for step in range(steps):
        noise.begin_step(step)
        noise.add_to(torch.zeros(3), DEVIATION)
    return noise


@pytest.mark.parametrize("step", [0, 2, 4])
def test_a_step_out_of_order_gets_no_noise(step):
    with pytest.raises(PrivacyError, match="must follow the one before"):
        started().begin_step(step)


def test_a_strategy_begins_with_a_round():
    with pytest.raises(PrivacyError, match="from the start of a round of 4 steps"):
        started(0).begin_step(2)


def test_a_step_that_was_interrupted_ends_the_run():
    noise = started()
    noise.begin_step(1)
    noise.add_to(torch.zeros(3), DEVIATION)
    with pytest.raises(PrivacyError, match="must follow the one before"):
        noise.begin_step(1)


@pytest.mark.parametrize(
    ("values", "deviation"),
    [
        (torch.zeros(3), 2 * DEVIATION),
        (torch.zeros(4), DEVIATION),
        (torch.zeros(3, dtype=torch.float64), DEVIATION),
    ],
    ids=["deviation", "size", "dtype"],
)
def test_other_sums_get_no_noise(values, deviation):
    noise = started()
    noise.begin_step(1)
    with pytest.raises(PrivacyError, match="with one noise multiplier"):
        noise.add_to(values, deviation)


def test_further_sums_get_no_noise():
    noise = started()
    noise.begin_step(1)
    noise.add_to(torch.zeros(3), DEVIATION)
    with pytest.raises(PrivacyError, match="more values"):
        noise.add_to(torch.zeros(3), DEVIATION)


def test_coefficients_may_be_negative():
    strategy = ToeplitzStrategy((1.0, -0.5), STEPS)
    gradients = sums()
    got = (
        released(CorrelatedNoise(SeededNoise(5), strategy, strategy.bands), gradients)
        - gradients
    )
    fresh = released(
        CorrelatedNoise(SeededNoise(5), ToeplitzStrategy((1.0,), STEPS), 1),
        torch.zeros_like(gradients),
    )
    np.testing.assert_allclose(dense(strategy) @ got.numpy(), fresh, atol=1e-12)

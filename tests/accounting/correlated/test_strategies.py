"""Strategies of correlated noise, against dense matrices and published values."""

import itertools

import numpy as np
import pytest
from scipy.linalg import toeplitz

from dpsgd_explorer.accounting import (
    ToeplitzStrategy,
    banded_strategy,
    cyclic_poisson,
    epsilon,
    gaussian_noise_multiplier,
    geometric_strategy,
    momentum_workload,
    noise_multiplier,
    square_root_strategy,
)
from dpsgd_explorer.errors import AccountingError

STEPS = 12
STRATEGIES = {
    "independent": ToeplitzStrategy((1.0,), STEPS),
    "banded": banded_strategy(STEPS, 3),
    "square root": square_root_strategy(STEPS, STEPS),
    "geometric": geometric_strategy(0.7, STEPS),
    "negative": ToeplitzStrategy((1.0, -0.4, 0.1), STEPS),
}


def dense(strategy):
    column = np.zeros(strategy.steps)
    column[: strategy.bands] = strategy.coefficients
    return toeplitz(column, np.zeros(strategy.steps))


@pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES)
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_errors_are_those_of_the_dense_matrices(strategy, momentum):
    workload = momentum_workload(STEPS, momentum)
    sums = toeplitz(workload, np.zeros(STEPS))
    inverse = np.linalg.inv(dense(strategy))
    assert strategy.noise_weights() == pytest.approx(inverse[:, 0])
    norm = np.linalg.norm(dense(strategy), axis=0).max()
    errors = norm * np.linalg.norm(sums @ inverse, axis=1)
    assert strategy.column_norm == pytest.approx(norm)
    assert strategy.prefix_errors(workload) == pytest.approx(errors)
    assert strategy.rmse(workload) == pytest.approx(np.sqrt(np.mean(errors**2)))
    assert strategy.rmse(workload, 2.0) == pytest.approx(
        2 * np.sqrt(np.mean(errors**2)) / norm
    )


@pytest.mark.parametrize("bands", [1, 2, 3, 5])
def test_uses_of_a_record_in_a_group_are_separate_releases(bands):
    """No set of uses that are b apart has more than ‖c‖² for each of them."""
    matrix = dense(banded_strategy(STEPS, bands))
    norm = banded_strategy(STEPS, bands).column_norm
    for group in range(bands):
        steps = range(group, STEPS, bands)
        columns = matrix[:, steps]
        products = columns.T @ columns
        assert products == pytest.approx(np.diag(np.diag(products)))
        assert products.max() <= norm**2 * (1 + 1e-12)
    assert len(range(0, STEPS, bands)) == (
        cyclic_poisson(
            sample_rate=0.1, noise_multiplier=1.0, steps=STEPS, bands=bands
        ).steps
    )


@pytest.mark.parametrize("slots", [1, 3, 4, 7, STEPS])
@pytest.mark.parametrize("name", ["independent", "banded", "square root", "geometric"])
def test_fixed_slots_have_the_sensitivity_of_the_worst_slot_and_signs(name, slots):
    strategy = STRATEGIES[name]
    matrix = dense(strategy)
    worst = 0.0
    for slot in range(min(slots, STEPS)):
        columns = matrix[:, slot::slots]
        for signs in itertools.product((-1, 1), repeat=columns.shape[1]):
            worst = max(worst, np.linalg.norm(columns @ np.array(signs)))
    assert strategy.fixed_slots_sensitivity(slots) == pytest.approx(worst)


@pytest.mark.parametrize(("steps", "bands"), [(50, 2), (300, 4), (2000, 8)])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_no_strategy_near_the_best_one_is_better(steps, bands, momentum):
    workload = momentum_workload(steps, momentum)
    best = banded_strategy(steps, bands, workload)
    assert best.rmse(workload) < square_root_strategy(steps, bands).rmse(workload)
    draw = np.random.default_rng(0)
    for size in (1e-2, 1e-1):
        for _ in range(20):
            column = np.array(best.coefficients)
            column[1:] *= 1 + size * draw.normal(size=bands - 1)
            near = ToeplitzStrategy(tuple(column), steps)
            assert near.rmse(workload) > best.rmse(workload) * (1 - 1e-7)


@pytest.mark.parametrize(
    ("batch", "steps", "target", "ratios"),
    [
        (4096, 300, 3, {2: 0.974, 4: 0.980, 8: 1.028}),
        (512, 2000, 1, {4: 0.941, 16: 0.978}),
        (512, 2000, 8, {2: 0.842, 8: 0.574, 32: 0.514}),
    ],
)
def test_the_gain_at_equal_epsilon_is_the_one_found_by_another_program(
    batch, steps, target, ratios
):
    def error(bands):
        sigma = noise_multiplier(
            target_epsilon=target,
            sample_rate=bands * batch / 60_000,
            steps=-(-steps // bands),
            delta=1e-5,
        )
        phase = cyclic_poisson(
            sample_rate=batch / 60_000,
            noise_multiplier=sigma,
            steps=steps,
            bands=bands,
        )
        spent = epsilon(
            sample_rate=phase.sample_rate,
            noise_multiplier=phase.noise_multiplier,
            steps=phase.steps,
            delta=1e-5,
        )
        assert target * (1 - 1e-3) < spent <= target
        return sigma * banded_strategy(steps, bands).rmse()

    plain = error(1)
    for bands, ratio in ratios.items():
        assert error(bands) / plain == pytest.approx(ratio, abs=6e-4)


def test_a_fixed_order_loses_less_with_correlated_noise():
    """The ratios to Poisson sampling of another program, for 512 of 60,000 records."""
    steps, slots = 2000, 117
    for target, expected in ((1, (9.8, 1.84, 1.95)), (8, (4.2, 0.78, 0.83))):
        poisson = noise_multiplier(
            target_epsilon=target, sample_rate=512 / 60_000, steps=steps, delta=1e-5
        )
        base = poisson * ToeplitzStrategy((1.0,), steps).rmse()
        sigma = gaussian_noise_multiplier(epsilon=target, delta=1e-5)
        found = [
            sigma * one.rmse(sensitivity=one.fixed_slots_sensitivity(slots)) / base
            for one in (
                ToeplitzStrategy((1.0,), steps),
                geometric_strategy(0.95, steps),
                square_root_strategy(steps, steps),
            )
        ]
        assert found == pytest.approx(expected, rel=0.012)


@pytest.mark.parametrize(
    "call",
    [
        lambda: ToeplitzStrategy((0.5,), 3),
        lambda: ToeplitzStrategy((1.0, float("nan")), 3),
        lambda: ToeplitzStrategy((1.0, 0.5), 1),
        lambda: ToeplitzStrategy((), 3),
        lambda: ToeplitzStrategy((1.0,), 0),
        lambda: STRATEGIES["negative"].fixed_slots_sensitivity(3),
        lambda: STRATEGIES["banded"].fixed_slots_sensitivity(0),
        lambda: STRATEGIES["banded"].rmse(np.ones(3)),
        lambda: ToeplitzStrategy((1.0, 1e200), 3),
        lambda: STRATEGIES["banded"].rmse(sensitivity=float("nan")),
        lambda: STRATEGIES["banded"].rmse(sensitivity=-1.0),
        lambda: STRATEGIES["banded"].rmse(sensitivity=0),
        lambda: STRATEGIES["banded"].rmse(sensitivity=True),
        lambda: STRATEGIES["banded"].rmse(sensitivity="2"),
        lambda: banded_strategy(3, 2, workload=[1.0]),
        lambda: banded_strategy(3, 2, workload=1.0),
        lambda: banded_strategy(3, 2, workload="abc"),
        lambda: banded_strategy(3, 2, workload=[0.0, 0.0, 0.0]),
        lambda: banded_strategy(3, 2, workload=[1.0, float("nan"), 1.0]),
        lambda: geometric_strategy(1.0, 3),
        lambda: geometric_strategy(float("nan"), 3),
        lambda: banded_strategy(3, 4),
        lambda: momentum_workload(3, 1.0),
        lambda: cyclic_poisson(sample_rate=0.3, noise_multiplier=1.0, steps=9, bands=4),
        lambda: cyclic_poisson(
            sample_rate=float("nan"), noise_multiplier=1.0, steps=9, bands=4
        ),
    ],
)
def test_what_is_outside_its_domain_is_rejected(call):
    with pytest.raises(AccountingError, match="must"):
        call()

"""Fixed slots: sensitivity by brute force, ε by closed forms, plans."""

import itertools
import math

import numpy as np
import pytest
from scipy.linalg import toeplitz

from dpsgd_explorer.accounting import (
    Phase,
    Plan,
    ToeplitzStrategy,
    TreeStrategy,
    banded_strategy,
    fixed_slots,
    gaussian_epsilon,
    gaussian_noise_multiplier,
    geometric_strategy,
    schedules,
    square_root_strategy,
)
from dpsgd_explorer.accounting.correlated.strategies import strategy_of_inverse
from dpsgd_explorer.errors import AccountingError, ConfigError

STEPS, SLOTS = 9, 4
STRATEGIES = {
    "independent": ToeplitzStrategy((1.0,), STEPS),
    "banded": banded_strategy(STEPS, 3),
    "square root": square_root_strategy(STEPS, STEPS),
    "geometric": geometric_strategy(0.7, STEPS),
}
SIZES = {"sample_size": 1000, "expected_batch_size": 90, "delta": 1e-4}


def dense(strategy):
    column = np.zeros(strategy.steps)
    column[: strategy.bands] = strategy.coefficients
    return toeplitz(column, np.zeros(strategy.steps))


def plan(decay=0.9, steps=50, **options):
    strategy = None if decay is None else geometric_strategy(decay, steps)
    given = {"noise_multiplier": 2.0, "noise_correlation": strategy} | options
    return Plan.create(**SIZES, steps=steps, sampling="fixed_slots", **given)


@pytest.mark.parametrize("slots", [1, 2, SLOTS, STEPS, STEPS + 3])
@pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES)
def test_first_steps_have_the_largest_distance_of_all_slots_uses_and_signs(
    strategy, slots
):
    matrix, sigma = dense(strategy), 1.5
    for steps in (1, 3, SLOTS, STEPS):
        worst = 0.0
        for slot in range(min(slots, steps)):
            columns = matrix[:steps, slot:steps:slots]
            for signs in itertools.product((-1, 0, 1), repeat=columns.shape[1]):
                worst = max(worst, np.linalg.norm(columns @ np.array(signs)))
        assert strategy.fixed_slots_sensitivity(slots, steps) == pytest.approx(worst)
        [norm] = {np.linalg.norm(matrix[:, 0])}
        phase = fixed_slots(
            noise_multiplier=sigma, steps=steps, slots=slots, strategy=strategy
        )
        assert (phase.sample_rate, phase.steps) == (1.0, 1)
        assert phase.noise_multiplier == pytest.approx(sigma * norm / worst)


@pytest.mark.parametrize("uses", [1, 2, 9])
def test_independent_noise_costs_one_gaussian_release_for_each_use(uses):
    steps = uses * SLOTS - 1
    phase = fixed_slots(noise_multiplier=2.0, steps=steps, slots=SLOTS)
    assert phase == Phase(1.0, 2.0 / math.sqrt(uses), 1)
    white = ToeplitzStrategy((1.0,), steps)
    for strategy in (white, geometric_strategy(0.0, steps)):
        same = fixed_slots(
            noise_multiplier=2.0, steps=steps, slots=SLOTS, strategy=strategy
        )
        assert same.noise_multiplier == pytest.approx(phase.noise_multiplier)


def test_a_record_in_all_steps_has_a_sum_of_geometric_series():
    decay, steps = 0.8, 30
    series = (1 - decay ** np.arange(1, steps + 1)) / (1 - decay)
    strategy = geometric_strategy(decay, steps)
    assert strategy.fixed_slots_sensitivity(1) == pytest.approx(np.linalg.norm(series))
    assert strategy.column_norm**2 == pytest.approx(
        (1 - decay ** (2 * steps)) / (1 - decay**2)
    )


def test_uses_far_apart_cost_what_the_norm_of_a_column_says():
    steps, slots, decay = 3000, 1000, 0.5
    strategy = geometric_strategy(decay, steps)
    uses = strategy.fixed_slots_sensitivity(slots)
    assert uses == pytest.approx(math.sqrt(3 / (1 - decay**2)))


@pytest.mark.parametrize("steps", [1, 12, 13, 50])
def test_a_plan_spends_what_the_closed_form_says(steps):
    one = plan()
    column = 0.9 ** np.arange(steps)
    sums = np.array([column[i::-12].sum() for i in range(steps)])
    norm = np.linalg.norm(0.9 ** np.arange(50))
    sigma = 2.0 * norm / np.linalg.norm(sums)
    expected = gaussian_epsilon(delta=1e-4, noise_multiplier=sigma)
    assert one.epsilon(steps) == pytest.approx(expected, rel=1e-9)
    assert one.epsilons([0, steps]) == pytest.approx([0, expected])


@pytest.mark.parametrize("decay", [None, 0.0, 0.5, 0.95])
@pytest.mark.parametrize("target", [0.7, 8.0])
def test_a_target_is_met_by_all_steps(decay, target):
    one = plan(decay, noise_multiplier=None, target_epsilon=target)
    assert target * (1 - 1e-6) < one.epsilon() <= target
    needed = gaussian_noise_multiplier(epsilon=target, delta=1e-4)
    assert one.phases[0].noise_multiplier == pytest.approx(needed, rel=1e-6)
    spent = one.epsilons(range(51))
    assert spent == sorted(spent)
    assert spent[-1] == one.epsilon()
    assert one.steps_within(target) == 50
    assert one.steps_within(spent[30]) >= 30
    assert one.epsilon(one.steps_within(spent[30])) <= spent[30]


def test_a_plan_divides_by_the_mean_of_a_slot():
    one = plan(noise_multiplier=1.0)
    assert (one.slots, one.mean_batch_size, one.bands) == (12, 1000 / 12, 1)
    assert one.sample_rate == 1 / 12
    assert one.noise_multiplier_at(49) == 1.0
    epochs = Plan.create(
        **SIZES, epochs=2, noise_multiplier=1.0, sampling="fixed_slots"
    )
    assert epochs.steps == 24
    assert plan(0.5, steps=5).epsilon() < plan(0.5).epsilon()  # less than an epoch


def test_a_banded_strategy_may_have_fixed_slots():
    strategy = banded_strategy(50, 3)
    sigma = plan(noise_correlation=strategy).phases[0].noise_multiplier
    # Uses that are 12 steps apart share no row, and the last one is cut by the end.
    assert sigma == pytest.approx(2.0 / math.sqrt(5), rel=0.05)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"noise_correlation": geometric_strategy(0.9, 49)}, "noise_correlation"),
        ({"noise_correlation": ToeplitzStrategy((1, -0.1), 50)}, "noise_correlation"),
        ({"noise_schedule": schedules.Linear(0.5)}, "noise_schedule"),
        ({"decay": None, "noise_schedule": schedules.Linear(0.5)}, "noise_schedule"),
    ],
)
@pytest.mark.parametrize("noise", [{}, {"noise_multiplier": None, "target_epsilon": 1}])
def test_what_fixed_slots_do_not_cover_is_refused(options, field, noise):
    with pytest.raises(ConfigError) as caught:
        plan(**options, **noise)
    assert caught.value.field == field


@pytest.mark.parametrize("sampling", ["poisson", "random_allocation"])
def test_a_geometric_strategy_needs_fixed_slots(sampling):
    """Even in a run that is short enough for one group of records for each step."""
    with pytest.raises(ConfigError, match="fixed_slots") as caught:
        Plan.create(
            **SIZES,
            steps=5,
            noise_multiplier=1.0,
            sampling=sampling,
            noise_correlation=geometric_strategy(0.5, 5),
        )
    assert caught.value.field == "noise_correlation"


@pytest.mark.parametrize(
    "call",
    [
        lambda: ToeplitzStrategy((1.0, 0.5), 3, (1.0, -0.4)),
        lambda: ToeplitzStrategy((1.0, 0.5, 0.25), 3, (1.0, float("inf"))),
        lambda: strategy_of_inverse((2.0, 1.0), 3),
        lambda: strategy_of_inverse((1.0, -0.5), 1),
        lambda: strategy_of_inverse((1.0, -1e200), 9),
        lambda: strategy_of_inverse((1.0, -2.0, 3.0), 2000),
        lambda: strategy_of_inverse((), 3),
        lambda: strategy_of_inverse(True, 3),
        lambda: strategy_of_inverse((0.0, 1.0), 3),
        lambda: ToeplitzStrategy((1.0,), 3, (0.0,)),
        lambda: fixed_slots(noise_multiplier=1.0, steps=4, slots=2, strategy="tree"),
        lambda: fixed_slots(
            noise_multiplier=1.0, steps=3, slots=2, strategy=TreeStrategy(4)
        ),
        lambda: fixed_slots(noise_multiplier=1.0, steps=4, slots=0),
        lambda: fixed_slots(
            noise_multiplier=1.0, steps=4, slots=2, strategy=geometric_strategy(0.5, 3)
        ),
        lambda: geometric_strategy(0.5, 3).fixed_slots_sensitivity(2, 4),
    ],
)
def test_what_is_outside_its_domain_is_rejected(call):
    with pytest.raises(AccountingError, match="must"):
        call()


def test_the_sensitivity_is_that_of_the_noise_and_not_of_rounded_coefficients():
    rounded = ToeplitzStrategy((1.0, 0.499996, 0.25), 3, (1.0, -0.5))
    assert rounded == geometric_strategy(0.5, 3)

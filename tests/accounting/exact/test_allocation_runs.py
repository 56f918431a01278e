"""Runs, plans and odometers with random allocation."""

import json
import math
from dataclasses import asdict, replace

import pytest

from dpsgd_explorer.accounting import (
    AllocationPhase,
    FilteredRun,
    Odometer,
    Phase,
    Plan,
    RdpCurve,
    delta_interval,
    epsilon_interval,
    gaussian_epsilon,
    group_epsilon_interval,
    random_allocation_epsilon,
    random_allocation_interval,
    trade_off_intervals,
)
from dpsgd_explorer.accounting.auditing.audit import audit
from dpsgd_explorer.accounting.auditing.error_rates import Scores
from dpsgd_explorer.accounting.core.phase import joined, phase_of
from dpsgd_explorer.accounting.registry import ACCOUNTANTS
from dpsgd_explorer.accounting.schedules import Linear, Stairs
from dpsgd_explorer.dp.ledger.phases import phases_of
from dpsgd_explorer.errors import AccountingError, ConfigError

SIZES = {"sample_size": 1010, "expected_batch_size": 100, "delta": 1e-4}


def plan(**changes):
    given = SIZES | {"epochs": 3, "noise_multiplier": 1.5} | changes
    return Plan.create(sampling="random_allocation", **given)


def test_an_epoch_has_enough_slots_for_batches_of_at_most_the_expected_size():
    run = plan()
    assert (run.slots, run.steps) == (11, 33)
    assert run.mean_batch_size == 1010 / 11 <= 100
    assert run.sample_rate == 1 / 11
    assert plan(epochs=1.5).steps == 17
    poisson = Plan.create(**SIZES, steps=3, noise_multiplier=1.5)
    assert (poisson.sampling, poisson.slots) == ("poisson", None)
    assert poisson.mean_batch_size == 100


def test_a_plan_spends_what_the_function_of_whole_epochs_returns():
    run = plan()
    at = {"noise_multiplier": 1.5, "slots": 11, "delta": 1e-4}
    assert run.epsilon() == random_allocation_epsilon(**at, epochs=3)
    within = random_allocation_interval(**at, steps=16)
    assert run.epsilon(16) == float(within)
    assert run.epsilon(11) < run.epsilon(16) < run.epsilon(22)


def test_many_epsilons_are_bounds_that_rise_to_the_exact_last_one():
    run = plan(epochs=4)
    counts = list(range(45))
    curve = run.epsilons(counts)
    assert curve == sorted(curve)
    assert curve[0] == 0
    assert curve[-1] == run.epsilon()
    for step in (5, 22, 40):
        assert run.epsilon(step) * (1 - 1e-3) <= curve[step]
    assert curve[22] == pytest.approx(run.epsilon(22), rel=2e-3)


def test_a_target_is_met_and_hardly_missed():
    run = plan(noise_multiplier=None, target_epsilon=1.0)
    assert 0.999 < run.epsilon() <= 1.0
    assert (
        run.noise_multiplier
        < Plan.create(**SIZES, epochs=3, target_epsilon=1.0).noise_multiplier
    )


def test_the_steps_within_a_target_cannot_be_many_more():
    run = plan(epochs=4)
    steps = run.steps_within(0.8 * run.epsilon())
    assert 0 < steps < run.steps
    assert run.epsilon(steps) <= 0.8 * run.epsilon() < run.epsilon(steps + 2)
    assert run.steps_within(run.epsilon()) == run.steps


def test_noise_changes_between_epochs_only():
    run = plan(noise_schedule=Stairs(rate=0.8, every=11))
    assert [phase.noise_multiplier for phase in run.phases] == pytest.approx(
        [1.5, 1.2, 0.96]
    )
    assert all(isinstance(phase, AllocationPhase) for phase in run.phases)
    constant = [plan(noise_multiplier=sigma).epsilon() for sigma in (1.5, 0.96)]
    assert constant[0] < run.epsilon() < constant[1]
    with pytest.raises(ConfigError, match="every 11 steps") as caught:
        plan(noise_schedule=Linear(to=0.5))
    assert caught.value.field == "noise_schedule"


def test_the_ledger_counts_the_same_phases():
    run = plan(noise_schedule=Stairs(rate=0.8, every=11))
    assert phases_of(run, 33, run.noise_schedule) == run.phases
    assert phases_of(plan(), 7) == [
        AllocationPhase(slots=11, noise_multiplier=1.5, steps=7)
    ]


@pytest.mark.parametrize("name", sorted(set(ACCOUNTANTS) - {"exact"}))
def test_only_the_exact_accountant_bounds_it(name):
    phase = AllocationPhase(slots=11, noise_multiplier=1.5, steps=11)
    accountant = ACCOUNTANTS[name]
    assert "random allocation with 11 slots" in accountant.why_not([phase])
    with pytest.raises(ConfigError, match="random allocation"):
        plan(accountant=name)
    for ask in (epsilon_interval, delta_interval, trade_off_intervals):
        with pytest.raises(AccountingError, match="random allocation"):
            ask([phase], 0.1, name)


def test_questions_without_a_proven_answer_are_rejected():
    phase = AllocationPhase(slots=11, noise_multiplier=1.5, steps=11)
    budget = FilteredRun(epsilon=2.0, delta=1e-5, order=20.0)
    questions = [
        lambda: epsilon_interval([phase], 0.1, "exact", "replace_one"),
        lambda: group_epsilon_interval([phase], 1e-5, 2),
        lambda: RdpCurve.of([phase]),
        lambda: budget.spent([phase]),
        lambda: budget.steps_within([], phase),
        lambda: FilteredRun.planned(2.0, 1e-5, phase),
        lambda: audit(Scores([1.0, 2.0], [0.0, 0.5]), [phase], 1e-5),
    ]
    for question in questions:
        with pytest.raises(AccountingError, match="random allocation"):
            question()


def test_phases_are_read_back_and_poisson_phases_keep_their_form():
    phase = AllocationPhase(slots=11, noise_multiplier=1.5, steps=7)
    stored = json.loads(json.dumps(asdict(phase)))
    assert phase_of(stored) == phase
    poisson = {"sample_rate": 0.1, "noise_multiplier": 1.0, "steps": 3}
    assert asdict(Phase(0.1, 1.0, 3)) == poisson
    assert type(phase_of(poisson)) is Phase
    with pytest.raises(AccountingError, match="sample_rate"):
        phase_of(stored | {"sample_rate": 0.5})


def test_an_incomplete_epoch_is_not_continued():
    part = AllocationPhase(slots=10, noise_multiplier=1.5, steps=5)
    whole = replace(part, steps=10)
    assert joined([part, part]) == [part, part]
    assert joined([whole, part]) == [replace(part, steps=15)]
    ledger = Odometer()
    for _ in range(2):
        ledger.add_random_allocation(10, 1.5, 5)
    assert len(ledger.entries) == 2
    assert ledger.epsilon(1e-5) > epsilon_interval([whole], 1e-5).lower


def test_an_odometer_composes_it_with_other_mechanisms():
    ledger = Odometer()
    ledger.add_random_allocation(11, 1.5, 27)
    alone = ledger.epsilon(1e-4)
    ledger.add_dp_sgd(0.1, 1.5, 20)
    ledger.add_gaussian(8.0)
    spent = ledger.epsilon_interval(1e-4)
    poisson = epsilon_interval([Phase(0.1, 1.5, 20), Phase(1.0, 8.0, 1)], 1e-4)
    assert max(alone, float(poisson)) < float(spent) < alone + float(poisson)
    assert spent.status == "exact"
    again = Odometer.from_json(ledger.to_json())
    assert again.epsilon_interval(1e-4) == spent
    assert ledger.delta(float(spent)) == pytest.approx(1e-4, rel=1e-2)
    assert ledger.delta(float(spent)) <= 1e-4 * (1 + 2e-3)


def test_it_commutes_with_gaussians_as_one_gaussian():
    """Slots of an epoch of one step are known: all is one Gaussian."""
    ledger = Odometer()
    ledger.add_random_allocation(1, 2.0, 4)
    ledger.add_gaussian(2.0)
    expected = gaussian_epsilon(delta=1e-5, noise_multiplier=2.0, steps=5)
    assert ledger.epsilon(1e-5) == pytest.approx(expected, rel=1e-9)


def test_without_noise_the_trade_off_is_the_share_of_used_slots():
    noiseless = AllocationPhase(slots=10, noise_multiplier=0.0, steps=3)
    [rate] = trade_off_intervals([noiseless], 0.1)
    assert float(rate) >= 0.3 + 0.7 * 0.1 - 1e-12
    assert rate.lower == pytest.approx(0.37)
    assert float(epsilon_interval([noiseless], 1e-5)) == math.inf

"""Training runs with correlated noise."""

import itertools
import math

import pytest
import torch

from dpsgd_explorer.accounting import Plan, banded_strategy, momentum_workload
from dpsgd_explorer.audit import verify_receipt
from dpsgd_explorer.training.dp_sgd import TrainingExperiment

BANDS, STEPS = 3, 7


@pytest.fixture
def correlated(adult):
    """Make a short configuration with three bands."""

    def configure(**settings):
        return adult(**{"noise_bands": BANDS, "steps": STEPS} | settings)

    return configure


def events(config, **arguments):
    run = TrainingExperiment(config, **arguments)
    return [event.timeless() for event in run.events()]


def data_of(logged, kind):
    return [data for event, data in logged if event == kind]


def test_evaluations_have_the_epsilon_of_the_library(correlated):
    config = correlated()
    logged = events(config)
    plan = Plan.create(
        sample_size=config.sample_size,
        expected_batch_size=64,
        steps=STEPS,
        noise_multiplier=1.0,
        delta=config.delta,
        noise_correlation=banded_strategy(
            STEPS, BANDS, momentum_workload(STEPS, config.momentum)
        ),
    )
    [phase] = data_of(logged, "phase")
    assert (phase["bands"], phase["sample_rate"]) == (BANDS, plan.sample_rate)
    assert phase["status"] == "exact"
    spent = {x["step"]: x["epsilon"] for x in data_of(logged, "step")}
    steps = list(range(1, STEPS + 1))
    assert list(spent) == steps
    assert [*spent.values()] == pytest.approx(plan.epsilons(steps), rel=1e-6)
    assert spent[1] == spent[3] < spent[4] == spent[6] < spent[7]  # ε of rounds
    [end] = data_of(logged, "end")
    assert end["epsilon"] == end["receipt"]["epsilon"] == plan.epsilon()
    assert len(end["receipt"]["told"]["noise_correlation"]) == BANDS
    assert not verify_receipt(end["receipt"]).wrong


def test_one_band_is_the_run_without_the_setting(adult):
    assert events(adult()) == events(adult(noise_bands=1))


def test_batches_come_from_groups_in_turn(correlated):
    run = TrainingExperiment(correlated(steps=2 * BANDS, expected_batch_size=8000))
    batches = [set(x.tolist()) for x in itertools.islice(_drawn(run), 2 * BANDS)]
    for first, second in itertools.combinations(range(2 * BANDS), 2):
        is_same_group = (second - first) % BANDS == 0
        assert bool(batches[first] & batches[second]) == is_same_group


def _drawn(run):
    batches = []
    drawn = run._train_step.batches
    run._train_step.batches = (batches.append(batch) or batch for batch in drawn)
    list(run.events())
    return iter(batches)


def test_a_run_killed_within_a_round_goes_on_bit_for_bit(correlated):
    whole = events(correlated())
    for count in (3, 5, len(whole) - 2):
        run = TrainingExperiment(correlated())
        list(itertools.islice(run.events(), count))
        assert events(correlated(), checkpoint=run.checkpoint()) == whole[count:]


def test_a_run_stops_at_a_budget_that_the_next_round_would_exceed(correlated):
    plan = correlated().plan
    budget = 1.001 * plan.epsilon(2 * BANDS)
    config = correlated(stop_at_epsilon=budget)
    [end] = data_of(events(config), "end")
    assert (end["reason"], end["step"]) == ("stop_at_epsilon", 2 * BANDS)
    assert end["epsilon"] <= budget < plan.epsilon(2 * BANDS + 1)


def test_the_microscope_has_the_length_of_the_noise_of_its_step(correlated):
    run = TrainingExperiment(correlated())
    lengths = []
    for event in run.events():
        if event.kind == "step":
            run.examine_next_step()
        if event.kind == "microscope":
            lengths.append(event.data)
    strategy = run.config.plan.noise_correlation
    independent = run.config.max_grad_norm * math.sqrt(run.config.parameters) / 64
    growth = torch.tensor(strategy.noise_weights()).square().cumsum(0).sqrt()
    expected = independent * strategy.column_norm * growth[1:STEPS]
    assert [x["noise_length"] for x in lengths] == pytest.approx(
        expected.tolist(), rel=1e-3
    )
    # The length of 270 normal numbers is within 20 % of the expected one.
    for data in lengths:
        assert 0.8 < data["noisy_length"] / data["noise_length"] < 1.4

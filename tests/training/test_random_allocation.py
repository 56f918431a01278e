"""Training runs whose records each join one step per epoch."""

import itertools

import pytest
import torch

from dpsgd_explorer.accounting import Plan
from dpsgd_explorer.audit import verify_receipt
from dpsgd_explorer.training.dp_sgd import TrainingExperiment
from dpsgd_explorer.training.train_step import sampler_of

SLOTS = 4


@pytest.fixture
def allocated(adult):
    """Make a configuration with few slots, so that exact values of ε are quick."""

    def configure(**settings):
        given = {"sampling": "random_allocation", "expected_batch_size": 8200}
        return adult(**given | settings)

    return configure


def events(config, **arguments):
    run = TrainingExperiment(config, **arguments)
    return [event.timeless() for event in run.events()]


def data_of(logged, kind):
    return [data for event, data in logged if event == kind]


def test_each_record_is_used_once_per_epoch(allocated):
    config = allocated(private=False, steps=SLOTS)
    run, batches = TrainingExperiment(config), []
    drawn = run._train_step.batches
    run._train_step.batches = (batches.append(batch) or batch for batch in drawn)
    list(run.events())
    assert len(batches) == SLOTS
    assert torch.cat(batches).sort().values.tolist() == list(range(config.sample_size))
    assert len({len(batch) for batch in batches}) > 1  # not a shuffled loader


def test_both_kinds_of_runs_draw_the_same_batches(allocated):
    private, plain = (allocated(private=value) for value in (True, False))
    batch = next(TrainingExperiment(private)._train_step.batches)
    assert torch.equal(batch, next(TrainingExperiment(plain)._train_step.batches))
    assert torch.equal(batch, next(sampler_of(plain.plan, plain.seed).all_epochs()))


def test_evaluations_have_the_epsilon_of_the_library(allocated):
    config = allocated(steps=SLOTS + 2, evaluations=2)
    logged = events(config)
    plan = Plan.create(
        sample_size=config.sample_size,
        expected_batch_size=8200,
        steps=SLOTS + 2,
        noise_multiplier=1.0,
        delta=config.delta,
        sampling="random_allocation",
    )
    assert plan.slots == SLOTS
    [phase] = data_of(logged, "phase")
    assert (phase["slots"], phase["sample_rate"]) == (SLOTS, 1 / SLOTS)
    evaluated = {x["step"]: x["epsilon"] for x in data_of(logged, "evaluation")}
    assert any(step % SLOTS for step in evaluated)  # within an epoch too
    assert evaluated == {step: plan.epsilon(step) for step in evaluated}
    spent = [x["epsilon"] for x in data_of(logged, "step")]
    assert spent == sorted(spent)
    for step, epsilon in enumerate(spent, start=1):
        assert epsilon >= plan.epsilon(step) * (1 - 1e-6)
    [end] = data_of(logged, "end")
    assert end["epsilon"] == end["receipt"]["epsilon"] == plan.epsilon()
    assert end["receipt"]["told"]["slots"] == SLOTS
    assert not verify_receipt(end["receipt"]).wrong


@pytest.mark.parametrize(
    "private", [pytest.param(True, marks=pytest.mark.long("real runs")), False]
)
def test_a_run_killed_within_an_epoch_goes_on_with_the_very_next(allocated, private):
    config = allocated(private=private, steps=SLOTS + 2, evaluations=2)
    whole = events(config)
    for count in (2, 4, len(whole) - 3):
        run = TrainingExperiment(config)
        list(itertools.islice(run.events(), count))
        assert events(config, checkpoint=run.checkpoint()) == whole[count:]


@pytest.mark.long("real runs")
def test_a_run_stops_at_a_budget_that_the_next_step_would_exceed(allocated):
    plan = allocated(steps=2 * SLOTS).plan
    budget = plan.epsilon(SLOTS + 1)
    config = allocated(steps=2 * SLOTS, stop_at_epsilon=budget * 1.01, evaluations=1)
    [end] = data_of(events(config), "end")
    assert (end["reason"], end["step"]) == ("stop_at_epsilon", SLOTS + 1)
    assert end["epsilon"] <= budget * 1.01 < plan.epsilon(SLOTS + 2)

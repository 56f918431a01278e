"""Learning rate, noise and clipping bound that change along a training run."""

import itertools

import pytest

from dpsgd_explorer.accounting import Phase
from dpsgd_explorer.accounting.queries import epsilon_intervals
from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.experiments.schedules import NOISE_STAGES, SHAPES
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.training.dp_sgd import TrainingExperiment, train
from dpsgd_explorer.web.api.recount import phases_of

# Of so many records, so that ε is no bound of a rare sample.
LARGE = {"expected_batch_size": 2048}
CHANGING = [shape for shape in SHAPES if shape != "constant"]


def of_kind(events, kind):
    return [event.data for event in events if event.kind == kind]


@pytest.mark.parametrize("shape", CHANGING)
def test_a_schedule_begins_at_the_setting_and_ends_at_its_multiple(adult, shape):
    settings = {"learning_rate_schedule": shape, "learning_rate_end": 0.25}
    config = adult(learning_rate=4.0, steps=9, **settings)
    rates = [config.learning_rate_at(step) for step in range(9)]
    assert (rates[0], rates[-1]) == pytest.approx((4.0, 1.0))
    assert all(a > b for a, b in itertools.pairwise(rates))
    if shape != "exponential":
        assert rates[4] == pytest.approx(2.5)
    assert adult(steps=1, **settings).learning_rate_at(0) == adult().learning_rate


def test_the_optimizer_takes_the_learning_rate_of_each_step(adult):
    changing = {"learning_rate_schedule": "linear", "learning_rate_end": 3.0}
    run = TrainingExperiment(adult(learning_rate=1.0, **changing))
    rates = [
        run._optimizer.param_groups[0]["lr"]
        for event in run.events()
        if event.kind == "step"
    ]
    assert rates == pytest.approx([1.0, 1 + 2 / 3, 1 + 4 / 3, 3.0])


@pytest.mark.parametrize("shape", CHANGING)
def test_scheduled_noise_is_drawn_and_counted_part_by_part(adult, shape):
    changing = {"noise_schedule": shape, "noise_end": 0.5, "steps": 25} | LARGE
    config = adult(noise_multiplier=2.0, **changing)
    events = list(train(config))
    told = of_kind(events, "phase")
    assert len(told) == NOISE_STAGES
    assert told[0]["noise_multiplier"] == 2.0
    assert told[-1]["noise_multiplier"] == pytest.approx(1.0)
    phases, delta = phases_of(told)
    assert phases == config.plan.phases
    steps = [data["step"] for data in of_kind(events, "step")]
    counted = [x.value for x in epsilon_intervals(phases, steps, delta)]
    logged = [data["epsilon"] for data in of_kind(events, "step")]
    assert logged == pytest.approx(counted, rel=1e-6)
    [end] = of_kind(events, "end")
    assert end["receipt"]["epsilon"] == pytest.approx(end["epsilon"], rel=1e-9)
    drawn = [
        (line["noise_multiplier"], line["steps"]) for line in end["receipt"]["done"]
    ]
    assert drawn == [(phase.noise_multiplier, phase.steps) for phase in phases]


def test_a_target_holds_for_all_parts_together(adult):
    changing = {"noise_schedule": "cosine", "noise_end": 3.0, "steps": 40} | LARGE
    plan = adult(noise_multiplier=None, target_epsilon=0.5, **changing).plan
    assert 0.4999 < plan.epsilon() <= 0.5
    assert plan.epsilons([0, 20, 40])[-1] == plan.epsilon()
    constant = adult(noise_multiplier=None, target_epsilon=0.5, steps=40, **LARGE).plan
    assert plan.noise_multiplier < constant.noise_multiplier


def test_a_target_is_found_where_samples_are_rare(adult):
    rare = {"expected_batch_size": 1, "steps": 300, "noise_multiplier": None}
    plan = adult(target_epsilon=1.0, noise_schedule="linear", **rare).plan
    assert 0 < plan.epsilon() <= 1.0


def test_a_budget_ends_a_scheduled_run_before_the_step_beyond_it(adult):
    changing = {"noise_schedule": "linear", "noise_end": 0.3, "steps": 60} | LARGE
    config = adult(noise_multiplier=2.0, **changing)
    budget = config.plan.epsilon() / 2
    stopping = adult(noise_multiplier=2.0, stop_at_epsilon=budget, **changing)
    events = list(train(stopping))
    [end] = of_kind(events, "end")
    assert end["epsilon"] <= budget < config.plan.epsilon(end["step"] + 1)
    assert end["reason"] == "stop_at_epsilon"
    assert all(data["step"] < end["step"] for data in of_kind(events, "phase"))


def test_a_scheduled_bound_costs_nothing(adult):
    changing = {"clipping_schedule": "linear", "clipping_end": 0.1}
    constant, changed = (list(train(adult(**more))) for more in ({}, changing))
    bounds = [data["diagnostics"]["max_grad_norm"] for data in of_kind(changed, "step")]
    assert bounds == pytest.approx([0.5, 0.35, 0.2, 0.05])
    ends = [of_kind(events, "end")[0] for events in (constant, changed)]
    assert ends[0]["epsilon"] == ends[1]["epsilon"] == ends[1]["receipt"]["epsilon"]
    assert ends[0]["test_loss"] != ends[1]["test_loss"]


def test_an_adaptive_bound_pays_for_its_counts_with_noise_on_the_gradient(adult):
    changing = {"clipping_schedule": "adaptive", "target_quantile": 0.9}
    config = adult(steps=30, max_grad_norm=0.01, noise_multiplier=1.0, **changing)
    events = list(train(config))
    bounds = [data["diagnostics"]["max_grad_norm"] for data in of_kind(events, "step")]
    assert bounds[-1] > 2 * bounds[0]
    [end] = of_kind(events, "end")
    assert end["epsilon"] == adult(steps=30).plan.epsilon()
    for line in end["receipt"]["done"]:
        gradient, count = line["noise_multiplier"], line["count_noise_multiplier"]
        assert gradient > 1.0
        together = (gradient**-2 + count**-2) ** -0.5
        assert together == pytest.approx(1.0)


@pytest.mark.parametrize("bound", ["adaptive", "exponential"])
def test_noise_may_rise_while_the_bound_changes(adult, bound):
    changing = {"noise_schedule": "linear", "noise_end": 10.0, "steps": 12} | LARGE
    run = TrainingExperiment(adult(clipping_schedule=bound, **changing))
    events, checkpoint = [], b""
    for event in run.events():
        events.append(event.timeless())
        if event.kind == "step" and event.data["step"] == 5:
            checkpoint = run.checkpoint()
            done = len(events)
    again = TrainingExperiment(run.config, checkpoint=checkpoint)
    assert [event.timeless() for event in again.events()] == events[done:]


def test_a_bound_that_follows_the_norms_needs_one_norm(adult):
    for other in ({"clipping_fn": "automatic"}, {"clipping_style": "layer-wise"}):
        with pytest.raises(ConfigError, match="one norm") as refusal:
            adult(clipping_schedule="adaptive", **other)
        assert refusal.value.field == "clipping_schedule"
        adult(clipping_schedule="adaptive", private=False, **other)


def test_without_privacy_no_schedule_of_noise_counts(adult):
    config = adult(private=False, noise_schedule="linear")
    assert config.plan.phases == [Phase(64 / 32_561, 0.0, 4)]
    assert [event.kind for event in train(config)].count("phase") == 1


def test_noise_beyond_its_domain_is_refused(adult):
    with pytest.raises(ConfigError, match="noise_multiplier"):
        adult(noise_schedule="linear", noise_end=10.0, noise_multiplier=1e6).plan  # noqa: B018


def test_a_configuration_of_before_is_a_run_without_schedules():
    stored = {"dataset": "adult", "model": "logistic", "noise_multiplier": 1.0}
    config = TrainingConfig.parse(stored)
    assert config.plan.noise_schedule is None
    assert config.bound_schedule is None
    assert config.learning_rate_at(200) == config.learning_rate

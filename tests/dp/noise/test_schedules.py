"""Noise and clipping bounds that change from step to step, and what they spend."""

import math

import pytest
import torch

from dpsgd_explorer.accounting import Phase, Plan
from dpsgd_explorer.accounting.registry import accountant_for
from dpsgd_explorer.accounting.schedules import (
    MAX_PHASES,
    SCHEDULES,
    Cosine,
    Exponential,
    Linear,
    Staged,
    Stairs,
)
from dpsgd_explorer.dp.ledger.phases import epsilon_of, phases_of
from dpsgd_explorer.dp.ledger.receipt import receipt_text
from dpsgd_explorer.errors import ConfigError, PrivacyError
from tests.dp.nets import UNREAD, attached, backward, data, linear, private_run

STEPS = 6
RUN = {"accounting_mode": "rdp", "max_grad_norm": 0.5}
ONE_OF_EACH = {
    "exponential": Exponential(0.9),
    "stairs": Stairs(0.5, every=2),
    "linear": Linear(0.5),
    "cosine": Cosine(2.0),
    "staged": Staged(Linear(0.5), stages=3),
}


def run(**options):
    net = linear()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    return private_run(net, optimizer, data(), STEPS, **RUN | options)


def test_the_factors_are_those_of_the_formulas():
    def factors(schedule, count=5):
        return [schedule.factor(step, 5) for step in range(count)]

    assert factors(Exponential(0.5)) == [1, 0.5, 0.25, 0.125, 0.0625]
    assert factors(Stairs(0.5, every=2)) == [1, 1, 0.5, 0.5, 0.25]
    assert factors(Linear(3.0), 7) == [1, 1.5, 2, 2.5, 3, 3, 3]
    assert factors(Cosine(0.0 + 0.5)) == pytest.approx(
        [1, 0.75 + math.sqrt(2) / 8, 0.75, 0.75 - math.sqrt(2) / 8, 0.5]
    )
    assert factors(Staged(Linear(3.0), stages=2)) == [1, 1, 1, 3, 3]
    assert factors(Staged(Linear(3.0), stages=9)) == [1, 1.5, 2, 2.5, 3]


def test_every_schedule_is_tried():
    assert ONE_OF_EACH.keys() == SCHEDULES.keys()
    for name, schedule in ONE_OF_EACH.items():
        assert schedule.as_data()["name"] == name


@pytest.mark.parametrize("schedule", ONE_OF_EACH.values(), ids=ONE_OF_EACH)
def test_scheduled_noise_is_accounted_step_by_step(schedule):
    engine = run(noise_schedule=schedule)
    sigmas = [schedule.factor(step, STEPS) for step in range(STEPS)]
    phases = [Phase(0.2, sigma, 1) for sigma in sigmas]
    expected = accountant_for("rdp").epsilons(phases, [STEPS], 1 / 80)[0]
    assert engine.get_epsilon() == pytest.approx(expected, rel=1e-9)
    done = [
        line["noise_multiplier"]
        for line in engine.receipt()["done"]
        for _ in range(line["steps"])
    ]
    assert done == pytest.approx(sigmas, rel=1e-12)


@UNREAD
@pytest.mark.parametrize("engine", ["hooks", "extending"])
def test_the_noise_that_is_drawn_follows_the_schedule(engine):
    net = torch.nn.Linear(100, 100)
    own, optimizer = attached(
        net, engine=engine, noise_multiplier=2.0, max_grad_norm=0.5, batch_size=1,
        noise_schedule=Exponential(0.5), clipping_schedule=Linear(3.0), steps=3,
    )  # fmt: skip
    for step in range(3):
        assert own.sensitivity() == pytest.approx(0.5 * (1 + step))
        (net(torch.ones(1, 100)) * 0.0).sum().backward()
        optimizer.step()
        noise = torch.cat([p.grad.flatten() for p in net.parameters()])
        expected = 2.0 * 0.5**step * 0.5 * (1 + step)
        assert noise.std().item() == pytest.approx(expected, rel=0.05)
        optimizer.zero_grad()


def test_a_scheduled_bound_clips_and_costs_nothing():
    schedule = Stairs(0.5, every=1)
    net, (x, y) = linear(), data()
    _, optimizer = attached(
        net, clipping_fn="Abadi", max_grad_norm=1e-3, clipping_schedule=schedule,
        batch_size=1, learning_rate=0.0,
    )  # fmt: skip
    for step in range(3):
        backward(net, x[:1], y[:1])
        optimizer.step()
        norm = torch.cat([p.grad.flatten() for p in net.parameters()]).norm().item()
        assert norm == pytest.approx(1e-3 * 0.5**step, rel=1e-5)
        optimizer.zero_grad()
    constant, scheduled = run(), run(clipping_schedule=schedule)
    assert scheduled.get_epsilon() == constant.get_epsilon()
    assert len(scheduled.receipt()["done"]) == STEPS
    assert "in 6 parts" in receipt_text(scheduled.receipt())


@pytest.mark.parametrize("schedule", ONE_OF_EACH.values(), ids=ONE_OF_EACH)
def test_a_target_is_met_with_the_least_scheduled_noise(schedule):
    engine = run(noise_multiplier=None, target_epsilon=2.0, noise_schedule=schedule)
    assert 2.0 * 0.995 < engine.get_epsilon() <= 2.0


def test_another_bound_than_scheduled_gives_no_epsilon():
    net = linear()
    engine, optimizer = attached(
        net, noise_multiplier=1.0, clipping_schedule=Exponential(0.9)
    )
    engine._session._clipper.rescale(1.1)
    backward(net, *data())
    optimizer.step()
    with pytest.raises(PrivacyError, match=r"noise_multiplier was|max_grad_norm was"):
        engine.get_epsilon(assume_poisson=True)


def test_a_resumed_run_goes_on_in_the_schedule():
    options = {"noise_schedule": Exponential(0.8), "clipping_schedule": Linear(0.5)}
    whole = run(**options)
    first = run(**options)
    state = first.state_dict()
    net = linear()
    second, _ = attached(
        net, sampling="poisson", sample_size=40, batch_size=8, steps=STEPS,
        noise_multiplier=1.0, seed=5, **RUN, **options,
    )  # fmt: skip
    second.load_state_dict(state)
    assert second.receipt() == whole.receipt()
    assert second.sensitivity() == whole.sensitivity() == pytest.approx(0.25)


@pytest.mark.parametrize("make", [lambda: Exponential(0.0), lambda: Linear(math.inf)])
def test_factors_out_of_range_are_refused(make):
    with pytest.raises(ConfigError, match="above 0"):
        make()


def test_what_is_no_schedule_is_refused():
    with pytest.raises(ConfigError, match="noise_schedule must be a schedule"):
        run(noise_schedule=0.9)


def test_many_factors_are_grouped_and_spend_hardly_more():
    steps = 3 * MAX_PHASES
    plan = Plan.create(
        sample_size=1000, expected_batch_size=20, steps=steps, noise_multiplier=1.0,
        delta=1e-5, accountant="rdp",
    )  # fmt: skip
    schedule = Linear(0.5)
    grouped = phases_of(plan, steps, schedule)
    assert len(grouped) <= MAX_PHASES
    assert sum(phase.steps for phase in grouped) == steps
    apart = [Phase(0.02, schedule.factor(step, steps), 1) for step in range(steps)]
    spent = accountant_for("rdp").epsilons(apart, [steps], 1e-5)[0]
    assert spent <= epsilon_of(grouped, plan) <= 1.01 * spent


def test_the_exact_accountant_follows_a_schedule():
    engines = [
        run(noise_schedule=Linear(0.5), accounting_mode=name)
        for name in ("rdp", "exact")
    ]
    loose, exact = (engine.get_epsilon() for engine in engines)
    assert 0.7 * loose < exact < loose

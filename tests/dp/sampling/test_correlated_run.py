"""A run with correlated noise: its releases, its epsilon, its resume, its refusals."""

import copy
import io
import itertools

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy.linalg import toeplitz
from torch import nn

from dpsgd_explorer import dp
from dpsgd_explorer.accounting import (
    Odometer,
    Phase,
    Plan,
    banded_strategy,
    epsilon,
    geometric_strategy,
)
from dpsgd_explorer.audit.receipts.verification import verify_receipt
from dpsgd_explorer.dp import schedules
from dpsgd_explorer.dp.distributed.ranks import Ranks
from dpsgd_explorer.dp.noise.seeded import seeded_generator
from dpsgd_explorer.errors import ConfigError, PrivacyError
from tests.dp.nets import attached, data, flat, train

BANDS, STEPS = 4, 14  # 3 rounds and two steps
STRATEGY = banded_strategy(STEPS, BANDS)
SIZES = {
    "sampling": "poisson",
    "sample_size": 40,
    "batch_size": 5,
    "steps": STEPS,
    "noise_multiplier": 1.0,
    "noise_correlation": STRATEGY,
}


def started(seed=5, learning_rate=0.1, **options):
    """Return (net, optimizer, engine, batches) of a run at its beginning."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))
    optimizer = torch.optim.SGD(net.parameters(), lr=learning_rate)
    engine, _ = attached(net, optimizer, **SIZES | {"seed": seed} | options)
    return net, optimizer, engine, engine.poisson_loader(data())


def secret(**options):
    return started(seed=None, noise="secure", **options)


def advance(run, steps):
    net, optimizer, _, loader = run
    train(net, optimizer, itertools.islice(loader.all_epochs(), steps))


def spent(*rounds, delta=1 / 80):
    """Return the epsilon of rounds of 4 steps, in one phase or more."""
    odometer = Odometer()
    for count in rounds:
        odometer.add_steps(Phase(BANDS * 5 / 40, 1.0, count))
    return odometer.epsilon(delta)


def weights(run):
    return flat(p.detach() for p in run[0].parameters())


def sums_of(**options):
    """Return the released sums [T, P] of a run whose parameters do not move."""
    run = started(learning_rate=0.0, **options)
    rows = []
    for x, y in run[3].all_epochs():
        F.cross_entropy(run[0](x), y).backward()
        run[1].step()
        rows.append(flat(p.grad.clone() for p in run[0].parameters()) * 5)
        run[1].zero_grad()
    return torch.stack(rows).double().numpy()


def test_released_sums_are_those_of_a_dense_matrix():
    bound = 0.5
    released = sums_of(max_grad_norm=bound)
    clipped = sums_of(max_grad_norm=bound, noise_multiplier=0.0)
    generator = seeded_generator(5, "noise")
    z = torch.empty(STEPS, released.shape[1])
    for row in z:
        row.normal_(0.0, STRATEGY.column_norm * bound, generator=generator)
    column = np.zeros(STEPS)
    column[:BANDS] = STRATEGY.coefficients
    matrix = toeplitz(column, np.zeros(STEPS))
    expected = clipped + np.linalg.solve(matrix, z.double().numpy())
    np.testing.assert_allclose(released, expected, atol=2e-5)


@pytest.mark.parametrize("steps", [1, 4, 5, STEPS])
def test_epsilon_is_that_of_the_rounds_begun(steps):
    run = started()
    advance(run, steps)
    rounds = -(-steps // BANDS)
    assert run[2].get_epsilon() == spent(rounds)
    assert run[2].phases() == [Phase(0.5, 1.0, rounds)]
    assert run[2].plan.epsilon(steps) == pytest.approx(spent(rounds), rel=1e-9)


def test_a_target_is_met():
    options = {"noise_multiplier": None, "target_epsilon": 2.0}
    run = started(**options)
    advance(run, STEPS)
    assert 1.99 < run[2].get_epsilon() <= 2.0
    rate, noise = 0.5, run[2].plan.noise_multiplier
    terms = {"sample_rate": rate, "steps": 4, "delta": 1 / 80}
    assert epsilon(noise_multiplier=noise * 0.99, **terms) > 2.0
    with pytest.raises(PrivacyError, match="all 14 planned"):
        next(iter(run[3]))


def test_a_plan_answers_for_rounds():
    plan = started()[2].plan
    assert plan.epsilons([3, 8, 9]) == pytest.approx([spent(1), spent(2), spent(3)])
    assert plan.steps_within(spent(2) * 1.001) == 8
    assert plan.steps_within(spent(4) * 1.001) == STEPS
    assert plan.noise_multiplier_at(STEPS - 1) == 1.0


@pytest.mark.parametrize("stop", [3, 8])
def test_a_resumed_run_ends_as_an_uninterrupted_one(stop):
    whole, first, second = started(), started(), started(seed=99)
    advance(whole, STEPS)
    advance(first, stop)
    buffer = io.BytesIO()
    torch.save([part.state_dict() for part in first[:3]], buffer)
    buffer.seek(0)
    states = torch.load(buffer, weights_only=True)
    for part, state in zip(second, states, strict=False):
        part.load_state_dict(state)
    advance(second, STEPS - stop)
    assert torch.equal(weights(second), weights(whole))
    assert second[2].receipt() == whole[2].receipt()


def test_a_secret_run_continues_with_a_fresh_strategy_at_the_planned_price():
    first, second = secret(), secret()
    advance(first, 6)
    state = first[2].state_dict()
    assert list(state["noise"]) == ["fresh"]
    second[2].load_state_dict(state)
    assert second[2].steps_done == 8  # the second round counts as a whole one
    assert second[2].get_epsilon() == spent(2)
    advance(second, 6)
    receipt = second[2].receipt()
    assert receipt["lost_steps"] == 2
    assert second[2].get_epsilon() == spent(4)
    assert verify_receipt(receipt).wrong == []
    with pytest.raises(PrivacyError, match="all 14 planned"):
        next(iter(second[3]))


def test_lost_steps_are_counted_in_whole_rounds():
    first, second = secret(), secret()
    advance(first, 3)
    state = first[2].state_dict()
    with pytest.raises(ConfigError, match="multiple of 4, the steps of a round"):
        second[2].load_state_dict(state, lost_steps=3)
    second[2].load_state_dict(state, lost_steps=4)
    assert second[2].steps_done == 8
    advance(second, 1)
    assert second[2].get_epsilon() == spent(3)


def test_a_seeded_engine_that_is_ahead_keeps_its_noise():
    run = started()
    advance(run, 2)
    state = run[2].state_dict()
    advance(run, 1)
    with pytest.raises(PrivacyError, match="not in the saved state"):
        run[2].load_state_dict(state)


def test_a_state_of_another_strategy_is_refused():
    state = started()[2].state_dict()
    other = started(noise_correlation=banded_strategy(STEPS, 3))
    with pytest.raises(ConfigError, match="saved plan"):
        other[2].load_state_dict(state)
    with pytest.raises(ConfigError, match="saved plan"):
        started(noise_correlation=None)[2].load_state_dict(state)


def test_a_later_engine_adds_its_rounds():
    first = started()
    advance(first, 5)
    first[2].detach()
    second, _ = attached(first[0], first[1], **SIZES, after=first[2])
    train(first[0], first[1], itertools.islice(second.poisson_loader(data()), 3))
    assert second.get_epsilon() == spent(2, 1)
    with pytest.raises(PrivacyError, match="without noise_correlation"):
        second.group_epsilon(2)
    white = {"noise_correlation": None, "after": second}
    second.detach()
    with pytest.raises(ConfigError, match="audit must be 0 after an engine with"):
        attached(first[0], first[1], **SIZES | white, audit=100)
    third, _ = attached(first[0], first[1], **SIZES | white)
    with pytest.raises(PrivacyError, match="without noise_correlation"):
        third.group_epsilon(2)


def test_a_batch_without_a_step_ends_the_run():
    run = started()
    advance(run, 1)
    next(iter(run[3]))
    run[2].detach()
    run[2].attach(run[1])
    with pytest.raises(PrivacyError, match="every batch of the run must make a step"):
        advance(run, 1)


def test_a_sampler_of_other_groups_makes_no_step():
    run = started()
    run[2]._state.sampler.position += 1
    with pytest.raises(PrivacyError, match="every batch of the run must make a step"):
        advance(run, 1)


def test_the_bound_and_the_noise_cannot_change():
    run = started()
    advance(run, 1)
    with pytest.raises(ConfigError, match="must not be changed with noise_correlation"):
        run[2].choose_max_grad_norm(2.0)
    object.__setattr__(run[2]._state.plan, "noise_multiplier", 2.0)
    with pytest.raises(PrivacyError, match="with one noise multiplier"):
        advance(run, 1)


def test_other_parameters_get_no_noise():
    run = started()
    advance(run, 1)
    run[2].detach()
    run[0][0].requires_grad_(False)
    optimizer = torch.optim.SGD(run[0][2].parameters(), lr=0.1)
    run[2].attach(optimizer)
    with pytest.raises(PrivacyError, match="sums of one shape"):
        advance((run[0], optimizer, *run[2:]), 1)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"noise_schedule": schedules.Linear(0.5)}, "noise_correlation"),
        ({"clipping_schedule": schedules.Linear(0.5)}, "clipping_schedule"),
        (
            {
                "clipping_schedule": dp.AdaptiveClipping(),
                "clipping_fn": "Abadi",
            },
            "clipping_schedule",
        ),
        ({"sampling": "unchecked"}, "sampling"),
        ({"sampling": "random_allocation"}, "noise_correlation"),
        ({"audit": 100}, "audit"),
        ({"sample_size": None, "user_ids": list(range(40))}, "user_ids"),
        ({"steps": STEPS + 1}, "noise_correlation"),
        ({"steps": None}, "noise_correlation"),
        ({"batch_size": 11}, "noise_correlation"),
        ({"noise_correlation": geometric_strategy(0.5, STEPS)}, "noise_correlation"),
        ({"noise_correlation": (1.0, 0.5)}, "noise_correlation"),
    ],
)
def test_what_correlated_noise_does_not_cover_is_refused(options, field):
    with pytest.raises(ConfigError) as caught:
        started(**options)
    assert caught.value.field == field


def test_several_processes_are_refused():
    ranks = Ranks()
    ranks.is_alone = False
    with pytest.raises(ConfigError, match="one process") as caught:
        started(group=ranks)
    assert caught.value.field == "group"


def test_a_plan_may_hold_the_strategy():
    sizes = {"sample_size": 40, "expected_batch_size": 5, "steps": STEPS}
    noise = {"noise_multiplier": 1.0, "noise_correlation": STRATEGY}
    plan = Plan.create(**sizes, **noise, delta=1 / 80)
    engine = dp.PrivacyEngine(nn.Linear(4, 3), plan=plan)
    assert engine.plan.noise_correlation is STRATEGY
    with pytest.raises(ConfigError, match="together with plan"):
        dp.PrivacyEngine(nn.Linear(4, 3), plan=plan, noise_correlation=STRATEGY)
    with pytest.raises(ConfigError) as caught:
        dp.PrivacyEngine(nn.Linear(4, 3), plan=plan, sampling="unchecked")
    assert caught.value.field == "sampling"


@pytest.fixture(scope="module")
def receipt():
    run = started()
    advance(run, STEPS)
    return run[2].receipt()


def test_a_receipt_states_the_strategy(receipt):
    assert receipt["told"]["noise_correlation"] == list(STRATEGY.coefficients)
    assert receipt["told"]["sampling"] == "cyclic Poisson"
    assert receipt["sampling"].startswith("Poisson from 4 groups in turn")
    assert receipt["done"][0]["noise_multiplier"] == pytest.approx(1.0)
    assert verify_receipt(receipt).wrong == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("noise_correlation", [1.0]),
        ("noise_correlation", [0.5, 0.5, 0.5, 0.5]),
        ("noise_correlation", [1.0, "a", 0.1, 0.1]),
        ("noise_correlation", [1.0] * 9),
        ("noise_correlation", []),
        ("sampling", "Poisson"),
        ("noise_multiplier", 1.1),
    ],
)
def test_a_receipt_is_recomputed(receipt, name, value):
    changed = copy.deepcopy(receipt)
    changed["told"][name] = value
    assert verify_receipt(changed).wrong


def test_diagnostics_know_the_noise_of_the_step():
    run = started()
    deviations = []
    for steps in range(3):
        advance(run, 1)
        assert run[2].steps_done == steps + 1
        entries = weights(run).numel()
        deviations.append(run[2].diagnostics.noise / entries**0.5)
    rows = np.sqrt(np.cumsum(np.square(STRATEGY.noise_weights())))[:3]
    assert deviations == pytest.approx(list(rows * STRATEGY.column_norm))


def test_parts_of_batches_make_the_same_steps():
    whole, parts = started(), started(physical_batch_size=2)
    train(whole[0], whole[1], whole[3].all_epochs())
    for x, y in parts[3].all_epochs():
        assert len(x) <= 2
        F.cross_entropy(parts[0](x), y).backward()
        parts[1].step()
        parts[1].zero_grad()
    assert parts[2].steps_done == STEPS
    assert torch.allclose(weights(whole), weights(parts), atol=1e-5)


def test_a_private_training_learns():
    torch.manual_seed(1)
    x = torch.randn(2000, 5)
    y = (x[:, 0] > x[:, 1]).long()
    model = nn.Linear(5, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    run = dp.make_private(
        model,
        optimizer,
        (x, y),
        batch_size=40,
        steps=120,
        target_epsilon=4.0,
        noise_correlation=banded_strategy(120, bands=8),
    )
    for epoch in run.epochs():
        for inputs, targets in epoch:
            F.cross_entropy(model(inputs), targets).backward()
            optimizer.step()
            optimizer.zero_grad()
    assert (model(x).argmax(1) == y).double().mean() > 0.9
    assert 3.99 < run.epsilon() <= 4.0
    assert verify_receipt(run.receipt()).wrong == []
    assert "correlated noise" in repr(run)


def test_states_of_other_runs_are_as_before():
    engine, _ = attached(nn.Linear(4, 3), **SIZES | {"noise_correlation": None})
    state = engine.state_dict()
    assert "noise_correlation" not in state["plan"]
    assert list(state["sampler"]) == ["position", "generator"]
    assert "noise_correlation" not in engine.receipt()["told"]

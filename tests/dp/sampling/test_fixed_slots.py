"""A run with fixed slots: its batches, noise, epsilon, resume, receipt and refusals."""

import copy
import io
import itertools

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy import stats
from scipy.linalg import toeplitz
from torch import nn

from dpsgd_explorer import dp
from dpsgd_explorer.accounting import (
    banded_strategy,
    fixed_slots,
    gaussian_epsilon,
    geometric_strategy,
    group_epsilon,
)
from dpsgd_explorer.audit.receipts.verification import verify_receipt
from dpsgd_explorer.dp import schedules
from dpsgd_explorer.dp.distributed.ranks import Ranks
from dpsgd_explorer.dp.noise.seeded import seeded_generator
from dpsgd_explorer.errors import ConfigError, PrivacyError
from tests.dp.laws import ALARM, of_variance
from tests.dp.nets import attached, data, flat, train

SLOTS, STEPS, DECAY = 8, 20, 0.9  # two epochs and a half
STRATEGY = geometric_strategy(DECAY, STEPS)
SIZES = {
    "sampling": "fixed_slots",
    "sample_size": 40,
    "batch_size": 5,
    "steps": STEPS,
    "noise_multiplier": 3.0,
    "noise_correlation": STRATEGY,
}


def started(seed=5, learning_rate=0.1, **options):
    """Return (net, optimizer, engine, batches) of a run at its beginning."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))
    optimizer = torch.optim.SGD(net.parameters(), lr=learning_rate)
    engine, _ = attached(net, optimizer, **SIZES | {"seed": seed} | options)
    return net, optimizer, engine, engine.fixed_slots_loader(data())


def secret(**options):
    return started(seed=None, noise="secure", **options)


def advance(run, steps):
    train(run[0], run[1], itertools.islice(run[3].all_epochs(), steps))


def spent(steps, strategy=STRATEGY):
    """Return the epsilon of the first steps, from a sum of columns."""
    column = np.zeros(STEPS)
    column[: strategy.bands] = strategy.coefficients
    matrix = toeplitz(column, np.zeros(STEPS))
    uses = matrix[:steps, :steps:SLOTS].sum(axis=1)
    sigma = 3.0 * np.linalg.norm(column) / np.linalg.norm(uses)
    return gaussian_epsilon(delta=1 / 80, noise_multiplier=sigma)


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
        deviation = 3.0 * STRATEGY.column_norm * bound
        row.normal_(0.0, deviation, generator=generator)
    matrix = toeplitz(STRATEGY.coefficients, np.zeros(STEPS))
    expected = clipped + np.linalg.solve(matrix, z.double().numpy())
    np.testing.assert_allclose(released, expected, atol=1e-4)


def test_the_noise_of_an_engine_has_the_covariance_of_the_inverse():
    """C makes it white: variance and correlations of the rows of C(y − g)."""
    steps, entries = 12, 30_000
    net = nn.Linear(entries, 1, bias=False)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.0)
    strategy = geometric_strategy(DECAY, steps)
    options = SIZES | {"steps": steps, "noise_correlation": strategy, "noise": "secure"}
    engine, _ = attached(net, optimizer, **options | {"seed": None})
    rows = []
    loader = engine.fixed_slots_loader((torch.zeros(40, entries), torch.zeros(40, 1)))
    for x, y in loader.all_epochs():
        F.mse_loss(net(x), y).backward()  # records of zeros have no gradient
        optimizer.step()
        rows.append(net.weight.grad.flatten() * 5)
        optimizer.zero_grad()
    noise = torch.stack(rows).double().numpy()
    matrix = toeplitz(strategy.coefficients, np.zeros(steps))
    white = matrix @ noise
    assert of_variance(white, 3.0 * strategy.column_norm) > ALARM
    pairs = np.corrcoef(white)[np.triu_indices(steps, 1)]
    assert stats.chi2.sf(entries * np.square(pairs).sum(), len(pairs)) > ALARM
    expected = np.linalg.inv(matrix.T @ matrix) * (3.0 * strategy.column_norm) ** 2
    assert np.cov(noise) == pytest.approx(expected, abs=0.1 * expected[0, 0])


def test_the_state_is_the_noise_of_one_step():
    run = started()
    advance(run, 10)
    [past] = run[2]._state.noise._past
    assert [len(noise) for noise in past] == [weights(run).numel()]


@pytest.mark.parametrize("steps", [1, 8, 9, STEPS])
def test_epsilon_is_that_of_one_gaussian_release(steps):
    run = started()
    advance(run, steps)
    assert run[2].get_epsilon() == pytest.approx(spent(steps), rel=1e-9)
    assert run[2].plan.epsilon(steps) == pytest.approx(spent(steps), rel=1e-9)
    [phase] = run[2].phases()
    assert (phase.sample_rate, phase.steps) == (1.0, 1)
    of_two = group_epsilon(
        sample_rate=1.0,
        noise_multiplier=phase.noise_multiplier,
        steps=1,
        delta=1 / 80,
        records=2,
    )
    assert run[2].group_epsilon(2) == pytest.approx(of_two)


@pytest.mark.parametrize("correlation", [None, geometric_strategy(0.0, STEPS)])
def test_independent_noise_costs_a_gaussian_release_for_each_epoch(correlation):
    run = started(noise_correlation=correlation)
    for epoch in range(3):
        train(run[0], run[1], run[3])
        expected = gaussian_epsilon(
            delta=1 / 80, noise_multiplier=3.0 / (epoch + 1) ** 0.5
        )
        assert run[2].get_epsilon() == pytest.approx(expected, rel=1e-9)


def test_a_target_is_met():
    run = started(noise_multiplier=None, target_epsilon=2.0)
    advance(run, STEPS)
    assert 2.0 * (1 - 1e-6) < run[2].get_epsilon() <= 2.0
    with pytest.raises(PrivacyError, match="all 20 planned"):
        next(iter(run[3]))


def test_every_epoch_has_the_same_batches_of_all_records():
    run = started()
    sampler = run[3].batch_sampler
    batches = list(sampler.all_epochs())
    assert torch.cat(batches[:SLOTS]).sort().values.tolist() == list(range(40))
    for first, second in zip(batches, batches[SLOTS:], strict=False):
        assert torch.equal(first, second)
    assert max(map(len, batches)) > 5  # slots are drawn, not dealt
    assert run[2]._state.noise_plan.divisor == 5.0


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


def test_a_secret_run_continues_with_new_slots_at_most_at_the_planned_price():
    first, second = secret(), secret()
    advance(first, 5)
    state = first[2].state_dict()
    assert list(state["noise"]) == ["fresh"]
    second[2].load_state_dict(state)
    assert second[2].steps_done == SLOTS  # the rest of the epoch is left out
    assert second[2].get_epsilon() == pytest.approx(spent(SLOTS))
    advance(second, STEPS - SLOTS)
    receipt = second[2].receipt()
    assert receipt["lost_steps"] == 3
    assert verify_receipt(receipt).wrong == []
    counted = second[2].get_epsilon()
    assert counted == pytest.approx(spent(STEPS))
    parts = [
        fixed_slots(noise_multiplier=3.0, steps=x, slots=SLOTS, strategy=STRATEGY)
        for x in (5, STEPS - SLOTS)
    ]
    both = sum(part.noise_multiplier**-2 for part in parts) ** -0.5
    assert gaussian_epsilon(delta=1 / 80, noise_multiplier=both) <= counted
    third = secret()
    with pytest.raises(ConfigError, match="multiple of 8, the steps of an epoch"):
        third[2].load_state_dict(state, lost_steps=3)
    third[2].load_state_dict(state, lost_steps=8)
    assert third[2].steps_done == 2 * SLOTS


def test_a_later_engine_adds_its_release():
    first = started()
    advance(first, 9)
    first[2].detach()
    second, _ = attached(first[0], first[1], **SIZES, after=first[2])
    train(first[0], first[1], itertools.islice(second.fixed_slots_loader(data()), 2))
    terms = {"noise_multiplier": 3.0, "slots": SLOTS, "strategy": STRATEGY}
    parts = [fixed_slots(steps=steps, **terms) for steps in (9, 2)]
    both = sum(part.noise_multiplier**-2 for part in parts) ** -0.5
    expected = gaussian_epsilon(delta=1 / 80, noise_multiplier=both)
    assert second.get_epsilon() == pytest.approx(expected)
    second.detach()
    white = {"noise_correlation": None, "sampling": "poisson", "after": second}
    with pytest.raises(ConfigError, match="audit must be 0 after an engine with"):
        attached(first[0], first[1], **SIZES | white, audit=100)


@pytest.mark.parametrize("correlation", [None, STRATEGY])
def test_a_batch_without_a_step_ends_the_run(correlation):
    run = started(noise_correlation=correlation)
    advance(run, 1)
    next(iter(run[3]))
    run[2].detach()
    run[2].attach(run[1])
    with pytest.raises(PrivacyError, match="every batch of the run must make a step"):
        advance(run, 1)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"noise_schedule": schedules.Linear(0.5)}, "noise_schedule"),
        ({"clipping_schedule": schedules.Linear(0.5)}, "clipping_schedule"),
        (
            {
                "clipping_schedule": dp.AdaptiveClipping(),
                "clipping_fn": "Abadi",
            },
            "clipping_schedule",
        ),
        ({"audit": 100}, "audit"),
        ({"sample_size": None, "user_ids": list(range(40))}, "sampling"),
    ],
)
@pytest.mark.parametrize("correlation", [None, STRATEGY])
def test_what_fixed_slots_do_not_cover_is_refused(options, field, correlation):
    with pytest.raises(ConfigError) as caught:
        started(noise_correlation=correlation, **options)
    assert caught.value.field == field


@pytest.mark.parametrize(
    "options",
    [
        *({"sampling": x} for x in ("poisson", "random_allocation", "unchecked")),
        {"steps": STEPS + 1},
        {"steps": None},
    ],
)
def test_a_strategy_needs_its_sampling_and_its_steps(options):
    with pytest.raises(ConfigError) as caught:
        started(**options)
    assert caught.value.field == "noise_correlation"


@pytest.mark.parametrize("correlation", [None, STRATEGY])
def test_several_processes_are_refused(correlation):
    ranks = Ranks()
    ranks.is_alone = False
    with pytest.raises(ConfigError, match="one process") as caught:
        started(group=ranks, noise_correlation=correlation)
    assert caught.value.field == "group"


def test_other_loaders_are_refused():
    run = started()
    for create, named in (
        (run[2].poisson_loader, "Use fixed_slots_loader"),
        (run[2].random_allocation_loader, "must be 'random_allocation'"),
    ):
        with pytest.raises(ConfigError, match=named):
            create(data())
    engine, _ = attached(nn.Linear(4, 3), sample_size=40, batch_size=5, steps=3)
    with pytest.raises(ConfigError, match="must be 'fixed_slots'"):
        engine.fixed_slots_loader(data())


@pytest.fixture(scope="module", params=["weights", "column", "independent"])
def receipt(request):
    strategies = {"weights": STRATEGY, "column": banded_strategy(STEPS, 3)}
    run = started(noise_correlation=strategies.get(request.param))
    advance(run, STEPS)
    return run[2].receipt()


def test_a_receipt_states_slots_and_strategy(receipt):
    told = receipt["told"]
    assert (told["sampling"], told["slots"]) == ("fixed slots", SLOTS)
    assert receipt["sampling"].startswith("fixed slots, by the engine's own sampler")
    assert "noise_weights" not in told or told["noise_weights"] == [1.0, -DECAY]
    assert verify_receipt(receipt).wrong == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("slots", SLOTS + 1),
        ("slots", None),
        ("noise_multiplier", 3.1),
        ("noise_weights", [1.0, -0.5]),
        ("noise_weights", [1.0, "a"]),
        ("noise_weights", [0.5]),
        ("noise_correlation", [1.0, -0.5]),
        ("noise_correlation", [1.0] * (STEPS + 1)),
    ],
)
def test_a_receipt_is_recomputed(receipt, name, value):
    changed = copy.deepcopy(receipt)
    changed["told"][name] = value
    if value is None:
        del changed["told"][name]
    assert verify_receipt(changed).wrong


def test_a_receipt_cannot_be_told_as_one_of_random_allocation():
    """Random allocation would have a smaller epsilon."""
    run = started(noise_correlation=None, steps=1)
    advance(run, 1)
    changed = run[2].receipt()
    changed["told"]["sampling"] = "random allocation"
    assert "options.sampling" in [one.path for one in verify_receipt(changed).wrong]
    changed["options"]["sampling"] = "random_allocation"
    assert "options.sampling" in [one.path for one in verify_receipt(changed).wrong]


def test_diagnostics_know_the_noise_of_the_step():
    run = started()
    for steps in range(3):
        advance(run, 1)
        noise = run[2].diagnostics.noise / weights(run).numel() ** 0.5
        growth = (1 + DECAY**2) ** 0.5 if steps else 1.0
        assert noise == pytest.approx(3.0 * STRATEGY.column_norm * growth)


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
        sampling="fixed_slots",
        noise_correlation=geometric_strategy(0.9, 120),
    )
    for epoch in run.epochs():
        for inputs, targets in epoch:
            F.cross_entropy(model(inputs), targets).backward()
            optimizer.step()
            optimizer.zero_grad()
    assert (model(x).argmax(1) == y).double().mean() > 0.9
    assert 3.999 < run.epsilon() <= 4.0
    assert verify_receipt(run.receipt()).wrong == []
    assert "fixed slots, correlated noise" in repr(run)

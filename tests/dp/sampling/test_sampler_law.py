"""Who is drawn: every record by a coin of its own at every step.

Each comparison fails by chance once in a million runs (tests/dp/laws.py); the secure
sampler has no seed, so those are real odds.
"""

import numpy as np
import pytest
import torch
from scipy import stats

from dpsgd_explorer.dp import PrivacyEngine
from dpsgd_explorer.dp.config import CHOICES
from tests.dp import laws
from tests.dp.laws import ALARM
from tests.dp.nets import data, linear

SIZE, BATCH, STEPS = 40, 8, 2500
RATE = BATCH / SIZE


def drawn(noise):
    """Return [STEPS, SIZE]: who was drawn by a public run."""
    engine = PrivacyEngine(
        linear(),
        batch_size=BATCH,
        sample_size=SIZE,
        steps=STEPS,
        noise_multiplier=1.0,
        noise=noise,
        seed=3 if noise == "seeded" else None,
    )
    table = np.zeros((STEPS, SIZE))
    for row, indices in zip(table, engine._state.sampler.all_epochs(), strict=True):
        row[indices.numpy()] = 1
    return table


def shuffled(steps):
    """Return what epochs of a shuffled data set would draw."""
    generator = np.random.default_rng(0)
    table = np.zeros((steps, SIZE))
    for start in range(0, steps, SIZE // BATCH):
        order = generator.permutation(SIZE).reshape(-1, BATCH)
        for row, batch in zip(table[start:], order, strict=False):
            row[batch] = 1
    return table


@pytest.fixture(scope="module", params=CHOICES["noise"])
def table(request):
    return drawn(request.param)


def p_values(table):
    steps = len(table)
    return {
        "inclusion": laws.of_inclusion(table.sum(0), steps, RATE),
        "batch sizes": laws.of_batch_sizes(table.sum(1), SIZE, RATE),
        "steps": laws.of_correlation(table[:-1], table[1:]),
        "records": laws.of_correlation(table[:, :-1], table[:, 1:]),
        "far records": laws.of_correlation(table[:, :20], table[:, 20:]),
    }


def test_each_record_joins_each_step_by_its_own_coin(table):
    assert min(p_values(table).values()) > ALARM


def test_pairs_are_drawn_together_with_rate_squared(table):
    both = (table[:, ::2] * table[:, 1::2]).sum()
    coins = STEPS * SIZE // 2
    assert stats.binomtest(int(both), coins, RATE**2).pvalue > ALARM


@pytest.mark.parametrize("law", ["inclusion", "batch sizes", "steps"])
def test_a_shuffler_is_rejected(law):
    assert p_values(shuffled(STEPS))[law] < ALARM


def test_batches_of_a_fixed_size_are_rejected():
    generator = np.random.default_rng(1)
    order = np.argsort(generator.random((STEPS, SIZE)))
    table = (order < BATCH).astype(float)
    assert p_values(table)["batch sizes"] < ALARM


@pytest.mark.parametrize("rate", [0.97 * RATE, 1.03 * RATE])
def test_a_rate_that_is_three_percent_off_is_rejected(rate):
    table = np.random.default_rng(2).random((40_000, SIZE)) < rate
    assert laws.of_inclusion(table.sum(0), len(table), RATE) < ALARM


def test_empty_batches_are_steps_and_get_noise():
    net = linear()
    engine = PrivacyEngine(
        net,
        batch_size=1,
        sample_size=SIZE,
        steps=30,
        noise_multiplier=1.0,
        loss_reduction="sum",
    )
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    engine.attach(optimizer)
    before = net.weight.detach().clone()
    for x, y in engine.poisson_loader(data(SIZE)).all_epochs():
        torch.nn.functional.cross_entropy(net(x), y, reduction="sum").backward()
        optimizer.step()
        optimizer.zero_grad()
        assert not torch.equal(net.weight, before)
        before = net.weight.detach().clone()
    assert engine.receipt()["done"][0]["noise_draws"] == 30
    # None of 30 batches is empty with chance (1 - (39 / 40)^40)^30 = 1e-6.
    assert engine.receipt()["not_private"]["batch_sizes"]["empty"] > 0

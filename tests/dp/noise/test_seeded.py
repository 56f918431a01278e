"""Noise: its size, its independence, and that it comes once a logical batch.

Statistics are of Gaussian samples, seeds are fixed, and the limit is 5 standard
deviations: false alarm 6e-7 a comparison, had the seed been drawn.
"""

import copy
import math

import pytest
import torch
from torch import nn

from dpsgd_explorer.dp.noise.seeded import PIECE, SeededNoise, seeded_generator
from dpsgd_explorer.dp.options import CHOICES
from tests.dp.nets import attached

SIGMA, C, BATCH = 1.7, 0.3, 64
LIMIT = 5.0


def deviations_of_variance(values, standard_deviation):
    """Return how far the mean square is off, in its own standard deviations."""
    mean_square = (values.double() / standard_deviation).square().mean().item()
    return abs(mean_square - 1.0) / math.sqrt(2.0 / values.numel())


def correlation(first, second):
    """Return the correlation in its own standard deviations."""
    paired = torch.stack([first.double(), second.double()])
    return abs(torch.corrcoef(paired)[0, 1].item()) * math.sqrt(first.numel())


def noise_of_steps(steps=1, parts=1, **options):
    """Return [steps, P]: noise on the sum where every gradient is 0."""
    net = nn.Sequential(nn.Linear(300, 200), nn.Linear(200, 200))
    options = {
        "batch_size": BATCH,
        "noise_multiplier": SIGMA,
        "max_grad_norm": C,
        **options,
    }
    engine, optimizer = attached(net, learning_rate=0.0, **options)
    rows = []
    for _ in range(steps):
        with engine.accumulating():
            for _ in range(parts - 1):
                (net(torch.randn(3, 300)).mean() * 0.0).backward()
        (net(torch.randn(3, 300)).mean() * 0.0).backward()
        optimizer.step()
        rows.append(torch.cat([p.grad.flatten() for p in net.parameters()]))
        optimizer.zero_grad()
    return torch.stack(rows) * BATCH


@pytest.mark.parametrize("parts", [1, 4])
@pytest.mark.parametrize("engine", CHOICES["engine"])
def test_the_sum_gets_noise_of_sigma_times_c_once(engine, parts):
    noise = noise_of_steps(engine=engine, parts=parts)
    assert deviations_of_variance(noise, SIGMA * C) < LIMIT
    assert abs(noise.mean().item()) < LIMIT * SIGMA * C / math.sqrt(noise.numel())


@pytest.mark.parametrize("factor", [0.97, 1.03])
def test_the_test_above_sees_three_percent(factor):
    assert deviations_of_variance(noise_of_steps() * factor, SIGMA * C) > LIMIT


def test_every_parameter_gets_its_own_share():
    net = nn.Sequential(nn.Linear(300, 200), nn.Linear(200, 200))
    sizes = [p.numel() for p in net.parameters()]
    for part in noise_of_steps()[0].split(sizes):
        assert deviations_of_variance(part, SIGMA * C) < LIMIT


def test_steps_and_layers_are_independent():
    first, second = noise_of_steps(steps=2)
    assert correlation(first, second) < LIMIT
    assert correlation(first[:40_000], first[60_200:100_200]) < LIMIT
    assert correlation(first[:-PIECE], first[PIECE:]) < LIMIT


def test_there_are_no_repeated_values():
    values = noise_of_steps()[0]
    # float32 has about 2^23 values a binade, so some pairs agree by chance:
    # fewer than P^2 / 2^23, and a reused piece would give at least PIECE / 2.
    assert len(values) - len(values.unique()) < len(values) ** 2 / 2**23 < PIECE / 2


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_low_precision_parameters_get_float32_noise(dtype):
    net = nn.Linear(300, 300).to(dtype)
    _, optimizer = attached(net, noise_multiplier=SIGMA, max_grad_norm=C)
    (net(torch.zeros(2, 300, dtype=dtype)).mean() * 0.0).backward()
    optimizer.step()
    noise = net.weight.grad * 10
    assert noise.dtype == dtype
    assert deviations_of_variance(noise, SIGMA * C) < LIMIT


def test_no_noise_multiplier_draws_nothing():
    assert noise_of_steps(noise_multiplier=0.0).abs().max() == 0.0


def test_the_global_generator_is_neither_used_nor_moved():
    torch.manual_seed(1)
    first = noise_of_steps(seed=5)
    torch.manual_seed(2)
    assert torch.equal(noise_of_steps(seed=5), first)
    assert not torch.equal(noise_of_steps(seed=6), first)


def test_the_size_of_the_noise_does_not_depend_on_the_drawn_batch():
    net = nn.Linear(3, 2)
    grads = []
    for samples in (3, 30):
        own = copy.deepcopy(net)
        _, optimizer = attached(own, noise_multiplier=SIGMA, seed=3)
        (own(torch.randn(samples, 3)).mean() * 0.0).backward()
        optimizer.step()
        grads.append(own.weight.grad)
    torch.testing.assert_close(*grads)


def test_state_brings_the_same_noise_back():
    noise = SeededNoise(3)
    noise.add_to(torch.zeros(100), 1.0)
    state = noise.state()
    values = [torch.zeros(PIECE + 5) for _ in range(2)]
    noise.add_to(values[0], 1.0)
    noise.restore(state)
    noise.add_to(values[1], 1.0)
    assert torch.equal(*values)


def test_streams_of_one_seed_differ_by_purpose():
    draws = [torch.rand(4, generator=seeded_generator(3, p)) for p in ("noise", "a")]
    assert not torch.equal(*draws)


def test_seeded_noise_says_what_it_is():
    assert "not private" in SeededNoise.note

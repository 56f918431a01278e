"""Seeded noise: its precision, its generator and its state; see test_noise_law.

Statistics are of Gaussian samples, seeds are fixed, and the limit is 5 standard
deviations: false alarm 6e-7 a comparison, had the seed been drawn.
"""

import copy
import math

import pytest
import torch
from torch import nn

from dpsgd_explorer.dp.noise.seeded import CHUNK_ENTRIES, SeededNoise, seeded_generator
from tests.dp.nets import attached
from tests.dp.noise.test_noise_law import SIGMA, C, noise_of_steps

LIMIT = 5.0


def deviations_of_variance(values, standard_deviation):
    """Return how far the mean square is off, in its own standard deviations."""
    mean_square = (values.double() / standard_deviation).square().mean().item()
    return abs(mean_square - 1.0) / math.sqrt(2.0 / values.numel())


def noise_of_step(**options):
    """Return [P]: noise on the sum where every gradient is 0."""
    return torch.from_numpy(noise_of_steps(width=200, **options)[0]).float()


def test_there_are_no_repeated_values():
    values = noise_of_step()
    # float32 has about 2^23 values a binade, so some pairs agree by chance:
    # fewer than P^2 / 2^23, and a reused chunk would give at least CHUNK_ENTRIES / 2.
    assert (
        len(values) - len(values.unique())
        < len(values) ** 2 / 2**23
        < CHUNK_ENTRIES / 2
    )


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
    assert noise_of_step(noise_multiplier=0.0).abs().max() == 0.0


def test_the_global_generator_is_neither_used_nor_moved():
    torch.manual_seed(1)
    first = noise_of_step(seed=5)
    torch.manual_seed(2)
    assert torch.equal(noise_of_step(seed=5), first)
    assert not torch.equal(noise_of_step(seed=6), first)


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
    values = [torch.zeros(CHUNK_ENTRIES + 5) for _ in range(2)]
    noise.add_to(values[0], 1.0)
    noise.restore(state)
    noise.add_to(values[1], 1.0)
    assert torch.equal(*values)


def test_streams_of_one_seed_differ_by_purpose():
    draws = [torch.rand(4, generator=seeded_generator(3, p)) for p in ("noise", "a")]
    assert not torch.equal(*draws)


def test_seeded_noise_says_what_it_is():
    assert "not private" in SeededNoise.note

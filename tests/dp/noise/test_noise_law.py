"""The noise that a public run adds is N(0, (sigma C)^2), new for each step and entry.

Each comparison fails by chance once in a million runs (tests/dp/laws.py).  Secure noise
cannot be seeded, so those are real odds; a seeded run always ends the same way.
"""

from contextlib import nullcontext

import numpy as np
import pytest
import torch
from torch import nn

from dpsgd_explorer.dp.config import CHOICES
from tests.dp import laws
from tests.dp.laws import ALARM
from tests.dp.nets import attached, flat

SIGMA, C, BATCH = 1.7, 0.3, 64
WIDTH = 224  # a step draws about 100,000 numbers


def noise_of_steps(steps=1, parts=1, samples=3, width=WIDTH, **options):
    """Return [steps, P]: noise on the sum of a run in which every gradient is 0."""
    net = nn.Sequential(nn.Linear(width, width), nn.Linear(width, width))
    options = {
        "batch_size": BATCH,
        "noise_multiplier": SIGMA,
        "max_grad_norm": C,
        **options,
    }
    engine, optimizer = attached(net, learning_rate=0.0, **options)
    rows = []
    for _ in range(steps):
        for part in range(parts):
            with engine.accumulating() if part < parts - 1 else nullcontext():
                (net(torch.randn(samples, width)).mean() * 0.0).backward()
        optimizer.step()
        rows.append(flat(p.grad for p in net.parameters()))
        optimizer.zero_grad()
    return torch.stack(rows).double().numpy() * BATCH


@pytest.fixture(scope="module", params=CHOICES["noise"])
def noise(request):
    seed = 1 if request.param == "seeded" else None
    return noise_of_steps(steps=3, noise=request.param, seed=seed)


def law_p_values(values, deviation=SIGMA * C):
    return {
        "shape": laws.of_shape(values, deviation),
        "variance": laws.of_variance(values, deviation),
        "mean": laws.of_mean(values, deviation),
        "tails": laws.of_tails(values, deviation),
    }


def test_it_is_gaussian_of_sigma_times_c(noise):
    assert min(law_p_values(noise).values()) > ALARM


@pytest.mark.parametrize("factor", [0.97, 1.03])
def test_three_percent_too_little_or_too_much_is_rejected(noise, factor):
    assert laws.of_variance(noise * factor, SIGMA * C) < ALARM
    assert laws.of_shape(noise * factor, SIGMA * C) < ALARM


def test_a_normal_law_without_tails_is_rejected(noise):
    cut = 3.9 * SIGMA * C
    assert laws.of_tails(noise.clip(-cut, cut), SIGMA * C) < ALARM


def test_every_parameter_gets_its_own_share(noise):
    start = 0
    for size in (WIDTH**2, WIDTH, WIDTH**2, WIDTH):
        part = noise[:, start : start + size]
        assert laws.of_variance(part, SIGMA * C) > ALARM
        start += size


def test_steps_layers_and_neighbours_are_independent(noise):
    first, second, third = noise
    half = WIDTH * (WIDTH + 1)
    pairs = [
        (first, second),
        (second, third),
        (first[:half], first[half:]),
        (first[:-1], first[1:]),
        (np.abs(first[:half]), np.abs(first[half:])),  # the two of a Box-Muller pair
        (first[: -(2**16)], first[2**16 :]),
    ]
    assert min(laws.of_correlation(*pair) for pair in pairs) > ALARM


def test_one_number_for_all_entries_is_rejected(noise):
    one = abs(noise[0, 0]) + C
    assert laws.of_mean(np.full_like(noise, one), SIGMA * C) < ALARM


@pytest.mark.parametrize("options", [{"parts": 4}, {"samples": 40}])
@pytest.mark.parametrize("engine", CHOICES["engine"])
@pytest.mark.parametrize("name", CHOICES["noise"])
def test_one_draw_a_logical_batch_however_it_is_made(name, engine, options):
    seed = 2 if name == "seeded" else None
    noise = noise_of_steps(noise=name, seed=seed, engine=engine, **options)
    assert laws.of_variance(noise, SIGMA * C) > ALARM


def test_momentum_is_made_of_noisy_gradients():
    net = nn.Linear(WIDTH, WIDTH)
    engine, _ = attached(net, noise_multiplier=SIGMA, max_grad_norm=C, batch_size=BATCH)
    engine.detach()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    engine.attach(optimizer)
    for _ in range(2):
        (net(torch.randn(2, WIDTH)).mean() * 0.0).backward()
        optimizer.step()
        optimizer.zero_grad()
    buffer = optimizer.state[net.weight]["momentum_buffer"].double().numpy() * BATCH
    assert laws.of_variance(buffer, SIGMA * C * (1 + 0.9**2) ** 0.5) > ALARM

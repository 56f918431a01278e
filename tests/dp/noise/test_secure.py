"""Noise from a key stream: its transform, its grid, and that nothing comes twice."""

import copy
import math
import os
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from dpsgd_explorer.dp.backends import box_muller
from dpsgd_explorer.dp.backends.native import box_muller as compiled
from dpsgd_explorer.dp.noise.aes_stream import CHUNK_BYTES, KeyStream, memory_of
from dpsgd_explorer.dp.noise.secure import GRID_RATIO, MAX_PAIRS, SecureNoise
from tests.dp import laws
from tests.dp.laws import ALARM
from tests.dp.noise.transforms import NAMES, transforms


@pytest.fixture(params=NAMES, autouse=True)
def transform(request, monkeypatch):
    """Draw normal numbers by each transform, whatever is installed."""
    by_c = transforms()["compiled"] if request.param == "compiled" else None
    monkeypatch.setattr(compiled, "installed", lambda: by_c)
    return request.param


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", [1, 2, 7, 2 * MAX_PAIRS + 3])
def test_every_entry_gets_noise_once(size, dtype):
    base = torch.linspace(-50, 50, size, dtype=dtype)
    values = base.clone()
    SecureNoise().add_to(values, 2.0)
    added = (values - base).double()
    assert values.dtype == dtype
    assert (added != 0).double().mean() > 0.99 or size < 10
    assert laws.of_variance(added, 2.0) > ALARM
    assert laws.of_mean(added, 2.0) > ALARM


@pytest.mark.parametrize("deviation", [0.3, 1.0, 1.9, 1e-6, 1e5])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_is_released_does_not_show_the_low_bits_of_the_sum(deviation, dtype):
    torch.manual_seed(0)
    values = (torch.randn(4000, dtype=dtype) * 3 + 1e-5) * deviation
    SecureNoise().add_to(values, deviation)
    steps = values.double() / (GRID_RATIO * 2.0 ** math.floor(math.log2(deviation)))
    assert torch.equal(steps, steps.round())
    assert len(steps.unique()) > 3000


def test_sums_much_larger_than_the_noise_keep_their_precision():
    values = torch.full((1000,), 1e6)
    SecureNoise().add_to(values, 1.0)
    assert laws.of_variance(values.double() - 1e6, 1.0) > ALARM


def test_a_million_numbers_have_the_law():
    values = torch.zeros(1_000_000)
    SecureNoise().add_to(values, 0.7)
    assert laws.of_shape(values, 0.7) > ALARM
    assert laws.of_variance(values, 0.7) > ALARM
    assert laws.of_tails(values, 0.7, at=4.5) > ALARM
    assert laws.of_correlation(values[:500_000], values[500_000:]) > ALARM


def drawn(noise):
    values = torch.zeros(50)
    noise.add_to(values, 1.0)
    return values


def test_no_two_sources_and_no_two_draws_agree():
    noise = SecureNoise()
    draws = [drawn(noise), drawn(noise), drawn(SecureNoise())]
    assert len(torch.cat(draws).unique()) > 140


def test_a_state_holds_nothing_and_a_resume_takes_a_fresh_key():
    noise = SecureNoise()
    state = noise.state()
    first = drawn(noise)
    noise.restore(state)
    assert state.numel() == 0
    assert not torch.equal(drawn(noise), first)
    assert noise.keys == 2


def test_keys_cannot_be_copied():
    for copied in (copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="cannot pickle"):
            copied(SecureNoise())


def test_a_forked_child_draws_other_noise():
    noise = SecureNoise()
    drawn(noise)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, drawn(noise).numpy().tobytes())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        theirs = np.frombuffer(pipe.read(), dtype=np.float32)
    assert os.waitpid(child, 0)[1] == 0
    assert not np.array_equal(theirs, drawn(noise).numpy())


@pytest.mark.parametrize("size", [0, 1, 15, CHUNK_BYTES - 1, 3 * CHUNK_BYTES + 5])
def test_a_key_stream_fills_all_that_it_is_given_and_no_more(size):
    room = torch.zeros(size + 20, dtype=torch.uint8)
    KeyStream().fill(memory_of(room[10 : size + 10]))
    assert room[:10].sum() == room[size + 10 :].sum() == 0
    ones = int(np.unpackbits(room.numpy()).sum())
    assert abs(ones - 4 * size) < 5 * math.sqrt(2 * max(size, 2))


def test_no_block_of_a_key_stream_comes_twice():
    room = torch.empty(2**20, dtype=torch.uint8)
    stream = KeyStream()
    blocks = []
    for _ in range(2):
        stream.fill(memory_of(room))
        blocks.append(room.view(torch.int64)[::2].clone())
    # 2^17 numbers of 64 bits: two agree by chance with 2^33 / 2^64 = 5e-10.
    assert len(torch.cat(blocks).unique()) == 2**17


def test_uniforms_are_uniform_with_53_bits():
    uniforms = KeyStream().uniforms(100_000).numpy()
    assert laws.stats.kstest(uniforms, "uniform").pvalue > ALARM
    assert uniforms.min() >= 0
    assert uniforms.max() < 1
    scaled = uniforms * 2.0**53
    assert np.array_equal(scaled, np.round(scaled))
    assert 0.4 < (scaled % 2).mean() < 0.6


def test_runs_in_two_threads_draw_noise_of_their_own(monkeypatch):
    """Both have computed their radii and angles before either adds them."""
    both, own = threading.Barrier(2, timeout=60), box_muller.add_products

    def add_products(*args):
        both.wait()
        own(*args)

    monkeypatch.setattr(box_muller, "add_products", add_products)

    def drawn(_):
        values = torch.zeros(1000, dtype=torch.float64)
        SecureNoise().add_to(values, 1.0)
        return values

    with ThreadPoolExecutor(2) as pool:
        one, other = pool.map(drawn, range(2))
    assert (one == other).double().mean() < 0.1

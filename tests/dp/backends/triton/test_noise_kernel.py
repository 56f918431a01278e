"""Noise drawn on a device: bits, their normal numbers, and no bit twice."""

import importlib.util
import math
import os

import numpy as np
import pytest
import torch
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

from dpsgd_explorer.dp.backends.native import box_muller as compiled
from dpsgd_explorer.dp.backends.triton.noise import DeviceNoise
from dpsgd_explorer.dp.noise.secure import GRID_RATIO, SecureNoise, grid_shift
from tests.dp import laws
from tests.dp.backends.triton.device import DEVICE, taken_for_an_accelerator
from tests.dp.c_sources import compiled_today
from tests.dp.laws import ALARM

SOURCE = "dpsgd_explorer.dp.backends.triton.noise_kernel"
PAIRS_PER_BLOCK, WORDS_PER_BLOCK = 5, 16
MANY = 4_001


@pytest.fixture(autouse=True)
def device():
    with taken_for_an_accelerator():
        yield


def words(key, call, blocks):
    """Return the words of so many blocks of the key stream, [blocks, 16], by a library.

    The nonce is the number of the call, and the counter begins at 0.
    """
    start = (0).to_bytes(4, "little") + call.to_bytes(4, "little") + bytes(8)
    stream = Cipher(algorithms.ChaCha20(key, start), None).encryptor()
    bits = stream.update(bytes(4 * WORDS_PER_BLOCK * blocks))
    return np.frombuffer(bits, np.uint32).reshape(blocks, WORDS_PER_BLOCK)


def expected(base, key, call, blocks_a_tile, scale, shift):
    """Return what the compiled transform adds to the sum of the same bits."""
    pairs = (len(base) + 1) // 2
    tiles = -(-pairs // (blocks_a_tile * PAIRS_PER_BLOCK))
    stream = words(key, call, tiles * blocks_a_tile)[:, : 3 * PAIRS_PER_BLOCK]
    triples = stream.reshape(tiles, blocks_a_tile, PAIRS_PER_BLOCK, 3)
    low, high, angle = triples.transpose(0, 2, 1, 3).reshape(-1, 3)[:pairs].T
    radii = (high.astype(np.int64) << 32) | low.astype(np.int64)
    bits = np.frombuffer(radii.tobytes() + angle.tobytes(), np.uint8)
    values = base.clone()
    compiled_today(compiled)(values, torch.from_numpy(bits.copy()), scale, shift)
    return values


def key_of(noise):
    return noise._key_on(torch.empty(0, device=DEVICE).device).cpu().numpy().tobytes()


def added(noise, base, scale=1.0, shift=0.0):
    values = base.clone().to(DEVICE)
    noise.add_normals(values, scale, shift)
    return values.cpu()


def is_the_compiled_noise(kernel, size):
    """Whether all bits agree with those of library and compiled transform.

    Added to nothing without a grid, which would hide the last bits, and to a sum.
    """
    noise, scale = DeviceNoise(kernel), math.sqrt(2) * 0.7
    torch.manual_seed(0)
    cases = [
        (torch.zeros(size), 0.0),
        (torch.randn(size) * 3, grid_shift(0.7, torch.float32)),
    ]
    drawn = [added(noise, base, scale, shift) for base, shift in cases]
    key, blocks = key_of(noise), kernel.BLOCKS
    return all(
        torch.equal(own, expected(base, key, call, blocks, scale, shift))
        for call, (own, (base, shift)) in enumerate(zip(drawn, cases, strict=True))
    )


@pytest.mark.parametrize("size", [1, 2, 7, 1279, 1280, 1281, MANY])
def test_it_is_that_of_the_compiled_transform_bit_by_bit(size):
    assert is_the_compiled_noise(importlib.import_module(SOURCE), size)


FAULTS = {
    "a rotation": ("_rotated(b ^ c, 7)", "_rotated(b ^ c, 8)"),
    "nine double rounds": ("for _ in range(10):", "for _ in range(9):"),
    "the call is left out": ("+ call.to(tl.uint32)", "+ 0 * call.to(tl.uint32)"),
    "the first state is not added": ("x4 + k0", "x4"),
    "a word is used twice": ("words[3 * j + 2]", "words[3 * j + 1]"),
    "cosines only": ("product, sine, shift", "product, cosine, shift"),
    "the grid is left out": ("+ shift) - shift", ")"),
    "the scale is left out": ("words[3 * j + 1]) * scale", "words[3 * j + 1])"),
    "a sign is lost": ("cosine, sine)) ^ sine_sign", "cosine, sine))"),
    "U near 1 is rounded": (", -least, f)", ", f, f)"),
}


@pytest.mark.long("mutation of every rule")
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_the_source_is_seen(fault, tmp_path):
    spec = importlib.util.find_spec(SOURCE)
    text = spec.loader.get_source(SOURCE)
    right, wrong = FAULTS[fault]
    assert text.count(right) == 1
    file = tmp_path / "noise_kernel.py"
    file.write_text(text.replace(right, wrong), encoding="utf-8")
    faulty = importlib.util.spec_from_file_location("faulty_noise_kernel", file)
    kernel = importlib.util.module_from_spec(faulty)
    faulty.loader.exec_module(kernel)
    assert not is_the_compiled_noise(kernel, MANY)


def test_nothing_is_written_beside_the_values():
    room = torch.zeros(MANY + 64, device=DEVICE)
    DeviceNoise().add_normals(room[32:-32], 1.0, 0.0)
    assert room[:32].count_nonzero() == room[-32:].count_nonzero() == 0
    assert room.count_nonzero() == MANY


def test_secure_noise_on_a_device_has_the_law_and_keeps_to_the_grid():
    values = torch.zeros(20_000, device=DEVICE)
    noise = SecureNoise()
    noise.add_to(values, 0.7)
    drawn = values.cpu()
    assert laws.of_shape(drawn, 0.7) > ALARM
    assert laws.of_variance(drawn, 0.7) > ALARM
    assert laws.of_correlation(drawn[:10_000], drawn[10_000:]) > ALARM
    steps = drawn.double() / (GRID_RATIO * 0.5)
    assert torch.equal(steps, steps.round())


@pytest.mark.parametrize(
    "values",
    [
        torch.zeros(2_000, device=DEVICE, dtype=torch.float64),
        torch.zeros(4_000, device=DEVICE)[::2],
    ],
    ids=["float64", "strided"],
)
def test_what_the_kernel_does_not_take_gets_noise_all_the_same(values):
    SecureNoise().add_to(values, 1.0)
    assert laws.of_variance(values.cpu().double(), 1.0) > ALARM


def test_no_two_calls_and_no_two_sources_agree():
    noise = DeviceNoise()
    zeros = torch.zeros(50)
    draws = [added(noise, zeros), added(noise, zeros), added(DeviceNoise(), zeros)]
    assert len(torch.cat(draws).unique()) > 140


def test_a_resume_takes_a_fresh_key():
    noise, zeros = SecureNoise(), torch.zeros(50)
    keys = []
    for _ in range(2):
        noise.add_to(zeros.to(DEVICE), 1.0)
        keys.append(key_of(noise._on_device))
        noise.restore(noise.state())
    assert keys[0] != keys[1]


def test_after_its_last_call_a_key_is_replaced(monkeypatch):
    monkeypatch.setattr("dpsgd_explorer.dp.backends.triton.noise.MAX_KEY_CALLS", 2)
    noise, keys = DeviceNoise(), []
    for _ in range(5):
        added(noise, torch.zeros(4))
        keys.append(key_of(noise))
    assert [keys.index(key) for key in keys] == [0, 0, 2, 2, 4]


def test_a_call_that_fails_is_not_repeated():
    noise, zeros = DeviceNoise(), torch.zeros(50, device=DEVICE)
    first = added(noise, torch.zeros(50))
    with pytest.raises(Exception, match=r".*"):
        noise.add_normals(zeros, None, 0.0)
    second = added(noise, torch.zeros(50))
    again = expected(torch.zeros(50), key_of(noise), 1, 128, 1.0, 0.0)
    assert not torch.equal(first, second)
    assert not torch.equal(second, again)


def test_a_process_that_was_forked_takes_a_key_of_its_own(monkeypatch):
    noise = DeviceNoise()
    added(noise, torch.zeros(4))
    before = key_of(noise)
    parent = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: parent + 1)
    added(noise, torch.zeros(4))
    assert key_of(noise) != before

"""Memory that is handed out again."""

import threading

import pytest
import torch
import torch.nn.functional as F
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

from dpsgd_explorer.dp import PrivacyEngine
from dpsgd_explorer.dp.backends.native import memory_pool
from dpsgd_explorer.dp.backends.native.memory_pool import MemoryPool


@pytest.fixture(autouse=True)
def _nothing_is_small(monkeypatch):
    monkeypatch.setattr(memory_pool, "MIN_NUMBERS", 1)


def test_memory_is_used_again_once_no_tensor_has_it():
    pool = MemoryPool()
    tensor = pool.empty(100, 30)
    address, row = tensor.data_ptr(), tensor[7].detach()
    del tensor
    assert pool.empty(100, 30).data_ptr() != address  # a row of it is left
    del row
    assert pool.empty(30, 100).data_ptr() == address


@settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.lists(st.tuples(st.integers(0, 50), st.booleans()), max_size=40))
def test_no_two_tensors_share_memory(requests):
    pool = MemoryPool(max_bytes=600)
    tensors = []
    for number, (length, is_kept) in enumerate(requests):
        tensor = pool.empty(length).fill_(number)
        assert (tensor.dtype, len(tensor)) == (torch.float32, length)
        tensors.append((tensor if is_kept else None, number))
    for tensor, number in tensors:
        assert tensor is None or bool((tensor == number).all())


@pytest.mark.parametrize("is_kept", [True, False])
def test_what_is_held_is_bounded(is_kept):
    pool, kept = MemoryPool(max_bytes=4096), []
    for length in range(1, 2000, 7):  # above 1,024 numbers none is the pool's
        tensor = pool.empty(length)
        assert tensor.shape == (length,)
        assert pool.held_numbers <= 1024
        if is_kept:
            kept.append(tensor)


def test_a_pool_that_is_released_holds_nothing_and_takes_nothing():
    pool = MemoryPool()
    used = pool.empty(10).fill_(1)
    pool.release()
    assert pool.held_numbers == 0
    other = pool.empty(10).fill_(2)
    assert used.tolist() == [1.0] * 10
    assert other.tolist() == [2.0] * 10


def test_an_engine_holds_a_piece_of_a_batch_and_nothing_when_detached():
    net = nn.Sequential(nn.Linear(64, 300), nn.Tanh(), nn.Linear(300, 3))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    engine = PrivacyEngine(
        net,
        batch_size=400,
        sample_size=10_000,
        noise_multiplier=1.0,
        steps=9,
        sampling="unchecked",
        clipping_mode="instantiate",
    )
    engine.attach(optimizer)
    for _ in range(2):
        scores = net(torch.randn(400, 5, 64)).mean(1)
        F.cross_entropy(scores, torch.zeros(400, dtype=torch.long)).backward()
        assert 0 < 4 * memory_pool.POOL.held_numbers <= memory_pool.POOL_BYTES
        optimizer.step()
        optimizer.zero_grad()
    engine.detach()
    assert memory_pool.POOL.held_numbers == 0


def test_what_is_small_or_empty_is_torchs_own(monkeypatch):
    monkeypatch.setattr(memory_pool, "MIN_NUMBERS", 100)
    pool = MemoryPool()
    assert pool.empty(99).shape == (99,)
    assert pool.empty(0, 7).shape == (0, 7)
    assert pool.held_numbers == 0


def test_tensors_begin_where_torchs_do():
    pool = MemoryPool()
    kept = [pool.empty(length) for length in range(1, 200, 9)]
    assert {tensor.data_ptr() % 64 for tensor in kept} == {0}


def test_batches_that_vary_hold_the_memory_of_one():
    pool = MemoryPool()
    for samples in (10, 11, 10, 12, 9, 12):
        tensors = [pool.empty(samples, size) for size in (100, 60, 700)]
        del tensors
    assert pool.held_numbers == 12 * (100 + 60 + 700)
    pieces = [pool.empty(12, size).data_ptr() for size in (100, 60, 700)]
    assert pieces == [pool.empty(9, size).data_ptr() for size in (100, 60, 700)]


def test_threads_do_not_get_each_others_memory():
    pool, wrong = MemoryPool(), []

    def work(number):
        for _ in range(300):
            tensor = pool.empty(64).fill_(number)
            if not bool((tensor == number).all()):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong

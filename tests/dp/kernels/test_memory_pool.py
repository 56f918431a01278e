"""Memory that is handed out again."""

import threading

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpsgd_explorer.dp.kernels import memory_pool
from dpsgd_explorer.dp.kernels.memory_pool import MemoryPool


@pytest.fixture(autouse=True)
def _nothing_is_small(monkeypatch):
    monkeypatch.setattr(memory_pool, "SMALL", 1)


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
    pool = MemoryPool(most_bytes=600)
    tensors = []
    for number, (length, is_kept) in enumerate(requests):
        tensor = pool.empty(length).fill_(number)
        assert (tensor.dtype, len(tensor)) == (torch.float32, length)
        tensors.append((tensor if is_kept else None, number))
    for tensor, number in tensors:
        assert tensor is None or bool((tensor == number).all())


@pytest.mark.parametrize("is_kept", [True, False])
def test_what_is_held_is_bounded(is_kept):
    pool, kept = MemoryPool(most_bytes=4096), []
    for length in range(1, 2000, 7):  # above 1,024 numbers none is the pool's
        tensor = pool.empty(length)
        assert tensor.shape == (length,)
        assert pool.held <= 1024
        if is_kept:
            kept.append(tensor)


def test_memory_that_no_tensor_uses_is_given_back():
    pool = MemoryPool()
    used, _ = pool.empty(10).fill_(1), pool.empty(20)
    del _
    pool.release()
    assert pool.held == 10
    assert used.tolist() == [1.0] * 10


def test_what_is_small_or_empty_is_torchs_own(monkeypatch):
    monkeypatch.setattr(memory_pool, "SMALL", 100)
    pool = MemoryPool()
    assert pool.empty(99).shape == (99,)
    assert pool.empty(0, 7).shape == (0, 7)
    assert pool.held == 0


def test_tensors_begin_where_torchs_do():
    pool = MemoryPool()
    kept = [pool.empty(length) for length in range(1, 200, 9)]
    assert {tensor.data_ptr() % 64 for tensor in kept} == {0}


def test_lengths_that_vary_a_little_find_the_same_memory():
    pool = MemoryPool()
    assert {pool.empty(length).data_ptr() for length in range(1000, 1024)} == {
        pool.empty(1024).data_ptr()
    }


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

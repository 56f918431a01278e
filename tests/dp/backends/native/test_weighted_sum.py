"""The compiled weighted sum against torch's."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsgd_explorer.dp.backends.native import weighted_sum as module
from dpsgd_explorer.dp.backends.native.backend import NativeBackend
from dpsgd_explorer.training.cpu.threads import threads
from tests.dp.c_sources import compiled_today, compiled_with_fault

SOURCE = "dpsgd_explorer/dp/backends/native/weighted_sum.c"


@pytest.fixture(autouse=True)
def _nothing_is_small(monkeypatch):
    monkeypatch.setattr(module, "MIN_NUMBERS", 0)
    monkeypatch.setattr(module, "MIN_PARALLEL_NUMBERS", 1)
    monkeypatch.setattr(module, "installed", lambda: compiled_today(module))


def added(samples, numbers, dtype=torch.float32):
    """Return what a sum of random rows is added to, before and after, and the sum."""
    torch.manual_seed(0)
    rows, weights = torch.randn(samples, numbers, dtype=dtype), torch.rand(samples)
    total = torch.randn(numbers, dtype=dtype)
    expected = total.double() + weights.double() @ rows.double()
    NativeBackend()._add_rows(rows, weights.to(dtype), total)
    return total.double(), expected


def is_right(samples, numbers):
    return torch.allclose(*added(samples, numbers), rtol=1e-5, atol=1e-5)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    st.integers(0, 20),
    st.sampled_from([0, 1, 15, 16, 127, 128, 129, 4095, 4096, 9000]),
    st.sampled_from([16, 8]),
    st.sampled_from([1, 3]),
)
def test_it_is_the_weighted_sum(samples, numbers, lanes, number):
    loop = compiled_today(module)
    loop = loop._replace(lanes=min(lanes, loop.lanes))
    with pytest.MonkeyPatch.context() as patch, threads(number):
        patch.setattr(module, "installed", lambda: loop)
        assert is_right(samples, numbers)


def test_threads_change_no_bit():
    sums = []
    for number in (1, 3):
        with threads(number):
            sums.append(added(7, 30_000)[0])
    assert torch.equal(*sums)


def test_other_precisions_are_left_to_torch(monkeypatch):
    monkeypatch.setattr(module.team, "run", None)
    found, expected = added(5, 70, torch.float64)
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-6)


def test_without_a_compiler_torch_sums(monkeypatch):
    monkeypatch.setattr(module, "installed", lambda: None)
    assert is_right(5, 70)


FAULTS = {
    "weights of the first sample": (
        "sum[v] += entry->weights[i]",
        "sum[v] += *entry->weights",
    ),
    "rows overlap": ("i++, row += numbers)", "i++, row += numbers - 1)"),
    "what is there is replaced": ("v * LANES) += sum[v];", "v * LANES) = sum[v];"),
    "what is left over": ("for (; k < end; k++) {", "for (; k < end - 1; k++) {"),
    "the last unit": (
        "left < job->unit ? left : job->unit",
        "left < job->unit ? 0 : job->unit",
    ),
}


@pytest.mark.long("mutation of every rule")
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_the_compiled_source_is_seen(fault, tmp_path, monkeypatch):
    loop = compiled_with_fault(tmp_path, module, SOURCE, FAULTS[fault])
    monkeypatch.setattr(module, "installed", lambda: loop)
    assert not is_right(5, 4096 + 129)

"""Freed memory: kept while an engine is attached, given back after it."""

import json
import os
import subprocess
import sys
from statistics import median

import pytest

from dpsgd_explorer.dp.backends import heap
from dpsgd_explorer.dp.backends.heap import GLIBC_SETTINGS, KEEP_FREED, KEEP_LARGE, Heap

#: A private step keeps 200 MiB in blocks of 8: the pages that each step fetches from
#: the third on, and MiB that the process holds then and after detach().
STEPS = """
import json, re, resource, sys
from pathlib import Path
import torch
from torch import nn
from dpsgd_explorer.dp import PrivacyEngine

torch.set_num_threads(1)

def held():
    return int(re.search(r"VmRSS:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])

def fetched():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

model = nn.Sequential(*[nn.Linear(16, 16) for _ in range(12)])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
engine = PrivacyEngine(
    model, batch_size=128, sample_size=1000, steps=12, noise_multiplier=1.0,
    max_grad_norm=1.0, sampling="unchecked", loss_reduction="mean",
)
engine.attach(optimizer)
x = torch.randn(128, 1024, 16)
pages = []
for number in range(12):
    before = fetched()
    model(x).square().mean((1, 2)).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    pages.append(fetched() - before)
attached = held()
engine.detach()
print(json.dumps([pages[2:], attached / 1024, held() / 1024]))
"""


def steps(**environment):
    """Return the pages that steps fetch, and MiB held before and after detach()."""
    done = subprocess.run(
        [sys.executable, "-c", STEPS],
        env=os.environ | environment,
        capture_output=True,
        check=True,
    )
    return json.loads(done.stdout)


def test_a_step_fetches_no_memory_anew_and_detach_gives_it_back():
    pages, attached, detached = steps()
    # Some steps still take a block that none before has touched, up to once each.
    assert median(pages) < 1_000, "of the 50,000 that a step frees"
    assert sum(pages) < 50_000
    assert detached < attached - 100


@pytest.mark.long("real runs")
def test_what_a_user_set_up_stays():
    pages, _, _ = steps(MALLOC_TRIM_THRESHOLD_="131072")
    assert median(pages) > 10_000


@pytest.mark.parametrize(
    ("name", "value", "is_left"),
    [
        ("MALLOC_TRIM_THRESHOLD_", "1", True),
        ("MALLOC_TOP_PAD_", "1", True),
        ("GLIBC_TUNABLES", "glibc.malloc.mmap_max=1", True),
        ("GLIBC_TUNABLES", "glibc.pthread.rseq=0", False),
        ("MALLOC_ARENA_MAX", "2", False),
    ],
)
def test_variables_that_set_up_malloc(monkeypatch, name, value, is_left):
    monkeypatch.setenv(name, value)
    heap._glibc.cache_clear()
    try:
        assert (heap._glibc() is None) == is_left
    finally:
        monkeypatch.undo()
        heap._glibc.cache_clear()


class _Library:
    """What was said to a C library."""

    def __init__(self):
        self.settings = {}

    def mallopt(self, parameter, value):
        self.settings[parameter] = value


def test_settings_end_in_any_order(monkeypatch):
    library = _Library()
    monkeypatch.setattr(heap, "_glibc", lambda: library)
    own = Heap()
    end_first, end_second, end_third = map(
        own.apply, (KEEP_FREED, KEEP_LARGE, KEEP_FREED)
    )
    assert library.settings == GLIBC_SETTINGS | KEEP_LARGE
    end_second()
    assert library.settings == GLIBC_SETTINGS | KEEP_FREED
    end_first()
    assert library.settings == GLIBC_SETTINGS | KEEP_FREED
    with own.applied(GLIBC_SETTINGS):
        assert library.settings == GLIBC_SETTINGS
    assert library.settings == GLIBC_SETTINGS | KEEP_FREED
    end_third()
    end_third()
    assert library.settings == GLIBC_SETTINGS

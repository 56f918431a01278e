"""What one training step takes: CPU time in turns, memory, on this machine.

Steps are timed in turns with the ordinary one, so that what slows the machine down
slows down both; each figure is a median of ratios to the ordinary step of its round.
"""

from __future__ import annotations

import gc
import platform
import re
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile

from dpsgd_explorer.dp.engine import PrivacyEngine

LEARNING_RATE = 0.01
CLIPPING_BOUND = 1.0
NOISE_MULTIPLIER = 1.0
SAMPLE_SIZE = 1_000_000

MOST = 100_000
"""Steps of one visit."""

VISIT_SECONDS = 0.05
"""CPU time of one visit to the ordinary step; the others make as many steps."""

PATIENCE_SECONDS = 0.5
"""CPU time beyond which a way is not stepped again within one visit."""


@dataclass(frozen=True)
class Step:
    """One training step, and what must be switched on while it is measured."""

    run: Callable[[], None]
    during: Callable[[], AbstractContextManager[None]] = nullcontext


@dataclass(frozen=True)
class Timing:
    """What a step takes.

    Attributes:
        milliseconds: CPU time, one thread, median over the rounds.
        ratio: To the ordinary step of the same round, median.
        low, high: Quartiles of that ratio.
    """

    milliseconds: float
    ratio: float
    low: float
    high: float


def time_in_turns(steps: Mapping[str, Step], seconds: float) -> dict[str, Timing]:
    """Return {way: timing}; the first way is the measure of the others.

    Args:
        steps: What to time.
        seconds: CPU time to spend, roughly.
    """
    first = next(iter(steps))
    with _only_what_is_new_collected():
        return _in_turns(steps, first, seconds)


def _in_turns(
    steps: Mapping[str, Step], first: str, seconds: float
) -> dict[str, Timing]:
    count = _count(steps[first])
    seen: dict[str, list[float]] = {way: [] for way in steps}
    end = time.process_time() + seconds
    rounds = 0
    while rounds < 5 or time.process_time() < end:
        for way, step in steps.items():
            seen[way].append(visit(step, count))
        rounds += 1
    return {way: _timing(seen[way], seen[first]) for way in steps}


@contextmanager
def _only_what_is_new_collected() -> Iterator[None]:
    """Keep what is there now out of the collections before each visit."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def visit(step: Step, count: int) -> float:
    """Return the CPU seconds of a step, over ``count`` of them or patience's end."""
    gc.collect()
    with step.during():
        start, done, taken = time.process_time(), 0, 0.0
        while done < count and taken < PATIENCE_SECONDS:
            step.run()
            done += 1
            taken = time.process_time() - start
    return taken / done


def _count(step: Step) -> int:
    """Return how many steps fill a visit; a clock may tick too seldom for a few."""
    count = 3
    while (taken := visit(step, count) * count) < VISIT_SECONDS / 4 and count < MOST:
        count *= 4
    return max(1, round(count * VISIT_SECONDS / max(taken, VISIT_SECONDS / 4)))


def _timing(own: list[float], reference: list[float]) -> Timing:
    ratios = [a / b for a, b in zip(own, reference, strict=True) if b]
    low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive")
    return Timing(statistics.median(own) * 1e3, middle, low, high)


def ordinary_step(model: nn.Module, data: tuple[Tensor, Tensor]) -> Step:
    """Return torch's own step of a classifier: forward, backward, update."""
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    return _step(model, data, optimizer)


def private_step(
    model: nn.Module,
    data: tuple[Tensor, Tensor],
    engine: str,
    clipping_mode: str = "MixOpt",
) -> tuple[PrivacyEngine, Step]:
    """Return the same under an engine, which clips each sample and adds secure noise.

    Args:
        model: Maps inputs to scores [B, classes].
        data: Inputs [B, ...] and targets [B], the same at each step.
        engine: A key of ENGINES.
        clipping_mode: A key of CLIPPING_MODES.
    """
    size = len(data[1])
    made, optimizer = attached(model, size, engine, NOISE_MULTIPLIER, clipping_mode)
    return made, _step(model, data, optimizer)


def attached(
    model: nn.Module,
    batch_size: int,
    engine: str,
    noise_multiplier: float,
    clipping_mode: str = "MixOpt",
) -> tuple[PrivacyEngine, torch.optim.Optimizer]:
    """Return an engine and the optimizer it is attached to; it shortens to 1."""
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    made = PrivacyEngine(
        model,
        batch_size=batch_size,
        sample_size=SAMPLE_SIZE,
        steps=SAMPLE_SIZE,
        noise_multiplier=noise_multiplier,
        max_grad_norm=CLIPPING_BOUND,
        clipping_fn="Abadi",
        clipping_mode=clipping_mode,
        engine=engine,
        sampling="unchecked",
    )
    made.attach(optimizer)
    return made, optimizer


def _step(
    model: nn.Module, data: tuple[Tensor, Tensor], optimizer: torch.optim.Optimizer
) -> Step:
    x, y = data

    def step() -> None:
        F.cross_entropy(model(x), y).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()

    return Step(step)


def peak_bytes(step: Callable[[], None]) -> int:
    """Return the most bytes that torch holds at once in a step, beyond those before."""
    step()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as measured:
        step()
    results: Any = measured.profiler.kineto_results
    held = peak = 0
    for event in results.events():
        if event.name() == "[memory]":
            held += event.nbytes()
            peak = max(peak, held)
    return peak


def machine() -> dict[str, Any]:
    """Return what the processor calls itself, and what torch uses of it."""
    lines = Path("/proc/cpuinfo")
    text = lines.read_text(encoding="utf-8") if lines.exists() else ""
    named = re.search(r"model name\s*:\s*(.+)", text)
    return {
        "processor": named[1].strip() if named else platform.processor(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "cores": len(re.findall(r"^processor\s*:", text, flags=re.MULTILINE)),
    }


def one_thread() -> None:
    """Compute with one thread from now on."""
    torch.set_num_threads(1)

"""Measurement of CPU time and memory, mostly of training steps.

The package, ``benchmarks`` and ``tools`` use these functions.  Steps are timed in turns
with the ordinary step, so that other load on the machine slows down both.  Each figure
is the median of the ratios to the ordinary step of the same round.
"""

from __future__ import annotations

import gc
import math
import platform
import re
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile

from dpsgd_explorer.dp import choices
from dpsgd_explorer.dp.backends import release_memory
from dpsgd_explorer.dp.backends.heap import GLIBC_SETTINGS, HEAP
from dpsgd_explorer.dp.engine import PrivacyEngine

LEARNING_RATE = 0.01
CLIPPING_BOUND = 1.0
NOISE_MULTIPLIER = 1.0
SAMPLE_SIZE = 1_000_000
"""Number of records of an engine's data set; no batches are drawn from it."""

ROUNDS = 5
"""Minimum number of repetitions of a median."""

MAX_STEPS = 100_000
"""Maximum number of steps per visit."""

VISIT_SECONDS = 0.05
"""CPU time per visit to the ordinary step; the other steps run equally often."""

PATIENCE_SECONDS = 0.5
"""CPU time of a visit after which its step is not repeated."""

Loss = Callable[[Tensor, Tensor], Tensor]
Clock = Callable[[], float]


def cpu_seconds(
    work: Callable[[], object],
    *,
    rounds: int = ROUNDS,
    calls: int = 1,
    long_s: float = math.inf,
) -> float:
    """Returns the CPU seconds per call, median over the rounds.

    Args:
        work: The code to time.
        rounds: Number of repetitions.
        calls: Number of calls per repetition.
        long_s: Seconds after which a call is not repeated.
    """
    spent: list[float] = []
    while len(spent) < rounds and max(spent, default=0.0) <= long_s:
        start = time.process_time()
        for _ in range(calls):
            work()
        spent.append((time.process_time() - start) / calls)
    return statistics.median(spent)


@dataclass(frozen=True)
class Step:
    """A training step.

    Attributes:
        run: Function that does the step.
        during: Context within which the step is measured.
    """

    run: Callable[[], None]
    during: Callable[[], AbstractContextManager[None]] = nullcontext


@dataclass(frozen=True)
class Timing:
    """Time per step.

    Attributes:
        milliseconds: Milliseconds per step, median over the rounds.
        ratio: Ratio to the first step of the same round, median over the rounds.
        low, high: Quartiles of the ratio.
    """

    milliseconds: float
    ratio: float
    low: float
    high: float


def time_in_turns(
    steps: Mapping[str, Step],
    seconds: float,
    clock: Clock | None = None,
    least_steps: int = 1,
) -> dict[str, Timing]:
    """Returns {name: timing}; ratios are to the first step.

    Args:
        steps: The steps to time, by name.
        seconds: Approximate duration of the measurement.
        clock: Clock in seconds; if None, the CPU time of this process.
        least_steps: Minimum number of steps of a visit; see ``visit``.
    """
    first, clock = next(iter(steps)), clock or time.process_time
    spent: dict[str, list[float]] = {name: [] for name in steps}
    with _collect_only_new_objects():
        count = max(least_steps, _steps_per_visit(steps[first], clock))
        end = clock() + seconds
        while len(spent[first]) < ROUNDS or clock() < end:
            for name, step in steps.items():
                spent[name].append(visit(step, count, clock, least_steps))
    return {name: _timing(times, spent[first]) for name, times in spent.items()}


def relative_costs(
    steps: Mapping[str, Step], seconds: float
) -> dict[str, tuple[float, float]]:
    """Returns {name: (time, peak memory)}, as ratios to the first step.

    Args:
        steps: The steps to measure, by name.
        seconds: Approximate CPU time of the timing.
    """
    peaks = {name: peak_bytes(step.run) for name, step in steps.items()}
    timings = time_in_turns(steps, seconds)
    reference = peaks[next(iter(steps))]
    return {name: (timings[name].ratio, peaks[name] / reference) for name in steps}


@contextmanager
def _collect_only_new_objects() -> Iterator[None]:
    """Excludes existing objects from the garbage collection before each visit."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def visit(step: Step, count: int, clock: Clock, least: int = 1) -> float:
    """Returns the seconds per step, over ``count`` steps.

    Args:
        step: The step.
        count: Number of steps, unless they take longer than PATIENCE_SECONDS.
        clock: Clock in seconds.
        least: Minimum number of steps.  If above 1, another step runs first and is not
            timed, because another contender's steps may have freed the step's memory.
    """
    gc.collect()
    with step.during():
        if least > 1:
            step.run()
        start, done, taken = clock(), 0, 0.0
        while done < least or (done < count and taken < PATIENCE_SECONDS):
            step.run()
            done += 1
            taken = clock() - start
    return taken / done


def _steps_per_visit(step: Step, clock: Clock) -> int:
    """Returns the number of steps that take VISIT_SECONDS.

    The clock may be too coarse for a few steps, so more steps are tried until it is
    not.
    """
    count = 3
    while (
        taken := visit(step, count, clock) * count
    ) < VISIT_SECONDS / 4 and count < MAX_STEPS:
        count *= 4
    return max(1, round(count * VISIT_SECONDS / max(taken, VISIT_SECONDS / 4)))


def _timing(times: list[float], reference: list[float]) -> Timing:
    ratios = [a / b for a, b in zip(times, reference, strict=True) if b]
    low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive")
    return Timing(statistics.median(times) * 1e3, middle, low, high)


def ordinary_step(model: nn.Module, data: tuple[Tensor, Tensor]) -> Step:
    """Returns a classifier's step without privacy: forward, backward, update.

    During the step, malloc has torch's settings, even if an engine in this process has
    changed them.
    """
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    return replace(
        sgd_step(model, data, optimizer), during=partial(HEAP.applied, GLIBC_SETTINGS)
    )


def private_step(
    model: nn.Module,
    data: tuple[Tensor, Tensor],
    engine: str,
    clipping_mode: str = "MixOpt",
) -> tuple[PrivacyEngine, Step]:
    """Returns an engine and its step, which clips each sample and adds secure noise.

    Args:
        model: Classifier with scores [B, classes].
        data: Inputs [B, ...] and targets [B] of each step.
        engine: A key of ENGINES.
        clipping_mode: A key of CLIPPING_MODES.
    """
    attached_engine, optimizer = attached(
        model,
        len(data[1]),
        engine,
        NOISE_MULTIPLIER,
        clipping_mode,
    )
    return attached_engine, sgd_step(model, data, optimizer)


def attached(
    model: nn.Module,
    batch_size: int,
    engine: str,
    noise_multiplier: float,
    clipping_mode: str = "MixOpt",
    max_grad_norm: float = CLIPPING_BOUND,
) -> tuple[PrivacyEngine, torch.optim.Optimizer]:
    """Returns an engine and the optimizer to which it is attached."""
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    privacy_engine = PrivacyEngine(
        model,
        batch_size=batch_size,
        sample_size=SAMPLE_SIZE,
        steps=SAMPLE_SIZE,
        noise_multiplier=noise_multiplier,
        max_grad_norm=max_grad_norm,
        clipping_fn="Abadi",
        clipping_mode=cast(choices.ClippingModeName, clipping_mode),
        engine=cast(choices.Engine, engine),
        sampling="unchecked",
    )
    privacy_engine.attach(optimizer)
    return privacy_engine, optimizer


def sgd_step(
    model: nn.Module,
    data: tuple[Tensor, Tensor],
    optimizer: torch.optim.Optimizer,
    loss: Loss = F.cross_entropy,
) -> Step:
    """Returns the step of an optimizer on fixed inputs and targets."""
    x, y = data

    def step() -> None:
        loss(model(x), y).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()

    return Step(step)


def peak_bytes(step: Callable[[], None]) -> int:
    """Returns the peak of the bytes that torch allocates during a step.

    Memory that the engine keeps from step to step is freed first, so it counts too.
    """
    step()
    release_memory()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as measured:
        step()
    results: Any = measured.profiler.kineto_results
    allocated = peak = 0
    for event in results.events():
        if event.name() == "[memory]":
            allocated += event.nbytes()
            peak = max(peak, allocated)
    return peak


def machine() -> dict[str, Any]:
    """Returns the processor's name, torch's instruction set and the core count."""
    file = Path("/proc/cpuinfo")
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    named = re.search(r"model name\s*:\s*(.+)", text)
    return {
        "processor": named[1].strip() if named else platform.processor(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "cores": len(re.findall(r"^processor\s*:", text, flags=re.MULTILINE)),
    }


def one_thread() -> None:
    """Limits torch to one thread from now on."""
    torch.set_num_threads(1)

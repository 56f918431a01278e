"""``python -m benchmarks accelerator``: private steps on an accelerator.

Each method is measured in a process with the ordinary step alone, in turns.  The
device's own clock measures from before the first part of a step until its last
operation has ended.  The rows come in order of importance, and the results are written
after each.  ``--device cpu`` rehearses everything with small models and writes nothing.
"""

from __future__ import annotations

import gc
import json
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from benchmarks import record
from benchmarks.accelerator.cases import CASES, REHEARSED
from benchmarks.accelerator.tables import table
from benchmarks.accelerator.ways import FEATURES, OURS, PARTS, PEERS, WAYS, setting_on
from benchmarks.architectures.cases import Architecture
from benchmarks.architectures.ways import Part
from benchmarks.own_process import result_of
from dpsgd_explorer.dp.noise.secure import SecureNoise

MODULE = "benchmarks.accelerator.measure"
FEATURE_MODEL = "gpt2"
ROUNDS, FEWEST_ROUNDS, ROUND_SECONDS, WARM_UP = 12, 3, 6.0, 3
"""Rounds of a comparison, fewer if they take longer than these seconds."""

ROW_SECONDS = 100.0
"""Longest time of a row's process."""

MINUTES = 8.0
"""Time after which no further row begins."""

NUMBERS, REHEARSED_NUMBERS = 2**27, 2**20
"""Noise values per draw, about the number of GPT-2's parameters."""

LARGEST_FACTOR, REHEARSED_FACTOR = 64, 2
"""Largest tried batch, as a multiple of the case's samples."""

Row = dict[str, Any]


def main(device: str = "cuda", minutes: float = MINUTES, *, peers: bool) -> None:
    """Measure, and write the results after each row."""
    is_rehearsal = device == "cpu"
    if not is_rehearsal and not torch.cuda.is_available():
        print("There is no GPU here: the stored results stay as they are.")
        print("Rehearse on the CPU with: python -m benchmarks accelerator --device cpu")
        return
    end = time.monotonic() + 60 * minutes
    document: Row = {"memory": "of model and step", "rows": [], "largest": []}
    # Looked up in a process of its own: this one must not hold memory of the device.
    document |= result_of(MODULE, "device", device)
    for field, arguments in _tasks(peers):
        seconds = min(ROW_SECONDS, end - time.monotonic())
        if seconds <= 0:
            print("not reached:", field, *arguments)
            continue
        try:
            found = result_of(MODULE, field, *arguments, device, timeout_s=seconds)
        except RuntimeError as error:
            found = _failed(field, arguments, str(error))
        print(field, *arguments, json.dumps(found), flush=True)
        if isinstance(document.get(field), list):
            document[field] += found
        else:
            document[field] = found
        if not is_rehearsal:
            record.write("accelerator", document)
    if is_rehearsal:
        print(table({**record.origin(), "date": "rehearsal", **document}))


def _tasks(peers: bool) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield (field of the results, arguments of the process), important ones first."""
    ways = {**OURS, **(PEERS if peers else {})}
    yield "noise", ()
    for name in CASES:
        for way in ways:
            yield "rows", (name, way)
    for way in FEATURES:
        yield "rows", (FEATURE_MODEL, way)
    for name in CASES:
        for way in ("ordinary", *ways):
            yield "largest", (name, way)


def _failed(field: str, arguments: tuple[str, ...], error: str) -> Any:
    """Return the result of a task whose process failed."""
    if not arguments:
        return {"skipped": error}
    return [{"model": arguments[0], "way": arguments[1], "skipped": error}]


def described_device(device: str) -> Row:
    """Return the device's name, and the threads of a process."""
    is_gpu = device != "cpu"
    return {
        "device": torch.cuda.get_device_name(device) if is_gpu else "CPU",
        "threads": torch.get_num_threads(),
    }


def rows(name: str, way: str, device: str) -> list[Row]:
    """Return the rows of a model and a method: one part a step, and several.

    A feature is measured with one part: with a ``GradScaler`` and without the engine's
    loader, each part is a batch.

    Raises:
        RuntimeError: a step failed.
    """
    case, setting = _cases(device)[name], setting_on(device, name)
    chosen = WAYS[way]
    lengths = (1,) if way in FEATURES else (1, PARTS)
    part, gib = _started(partial(chosen.make, case, setting), lengths, device)
    reference = partial(chosen.reference, case, setting)
    ordinary, ordinary_gib = _started(reference, lengths, device)
    found = []
    for parts in lengths:
        step, base = partial(_step, part, parts), partial(_step, ordinary, parts)
        spent, spent_base = _in_turns(step, base, device)
        pairs = zip(spent, spent_base, strict=True)
        ratios = [own / other for own, other in pairs]
        low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive")
        row = {
            "model": name,
            "way": way,
            "samples": case.samples,
            "parts": parts,
            "ordinary_ms": statistics.median(spent_base),
            "ms": statistics.median(spent),
            "ratio": middle,
            "low": low,
            "high": high,
            "ordinary_gib": ordinary_gib,
            "gib": gib,
            "queued_ms": 1e3 * _queued(step, device),
            "waits": _waits(step, device),
        }
        found.append(row)
    return found


def largest(name: str, way: str, device: str) -> list[Row]:
    """Return the largest batch that fits, to a sixteenth."""
    case, setting = _cases(device)[name], setting_on(device, name)
    make = WAYS[way].make if way in WAYS else WAYS["hooks"].reference
    factor = REHEARSED_FACTOR if device == "cpu" else LARGEST_FACTOR
    limit = factor * case.samples
    fits, fails = 0, limit + 1
    while fails - fits > max(1, fits // 16):
        size = case.samples if fits == 0 else 2 * fits
        size = min(size, (fits + fails) // 2) if fails <= limit else min(size, limit)
        if _fits(partial(make, replace(case, samples=size), setting), device):
            fits = size
        else:
            fails = size
        if fits == limit:
            break
    return [{"model": name, "way": way, "batch": fits, "is_limit": fits == limit}]


def noise(device: str) -> dict[str, float]:
    """Return nanoseconds per number of secure noise and of torch's normal numbers."""
    count = REHEARSED_NUMBERS if device == "cpu" else NUMBERS
    total, numbers = (torch.zeros(count, device=device) for _ in range(2))
    source = SecureNoise()
    runs: dict[str, Callable[[], object]] = {
        "secure": lambda: source.add_to(total, 1.0),
        "normal": numbers.normal_,
        "normal_added": lambda: total.add_(numbers.normal_()),
    }
    spent = {
        name: statistics.median(_milliseconds(run, device) for _ in range(ROUNDS))
        for name, run in runs.items()
    }
    return {name: 1e6 * own / count for name, own in spent.items()}


def _cases(device: str) -> dict[str, Architecture]:
    return REHEARSED if device == "cpu" else CASES


def _started(
    make: Callable[[], Part], lengths: tuple[int, ...], device: str
) -> tuple[Part, float]:
    """Return the parts of a method, and the peak memory of its model and step in GiB.

    The first steps are not measured: they compile, choose and allocate.
    """
    before = torch.cuda.memory_allocated() if device != "cpu" else 0
    part = make()
    for parts in (*lengths, 1):
        if device != "cpu":
            torch.cuda.reset_peak_memory_stats()
        _step(part, parts)
    if device == "cpu":
        return part, 0.0
    torch.cuda.synchronize()
    return part, (torch.cuda.max_memory_allocated() - before) / 2**30


def _step(part: Part, parts: int) -> None:
    for index in range(parts):
        part(index == parts - 1)


def _in_turns(
    step: Callable[[], None], base: Callable[[], None], device: str
) -> tuple[list[float], list[float]]:
    """Return the milliseconds of each round's steps, without the first rounds."""
    spent: tuple[list[float], list[float]] = ([], [])
    end = time.monotonic() + (0 if device == "cpu" else ROUND_SECONDS)
    for done in range(WARM_UP + ROUNDS):
        for run, times in zip((step, base), spent, strict=True):
            times.append(_milliseconds(run, device))
        if done + 1 >= WARM_UP + FEWEST_ROUNDS and time.monotonic() > end:
            break
    return spent[0][WARM_UP:], spent[1][WARM_UP:]


def _milliseconds(run: Callable[[], object], device: str) -> float:
    if device == "cpu":
        begun = time.perf_counter()
        run()
        return 1e3 * (time.perf_counter() - begun)
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    torch.cuda.synchronize()
    begin.record()
    run()
    end.record()
    torch.cuda.synchronize()
    return float(begin.elapsed_time(end))


def _queued(step: Callable[[], None], device: str) -> float:
    """Return the seconds until Python has queued the whole step."""
    if device != "cpu":
        torch.cuda.synchronize()
    begin = time.perf_counter()
    step()
    seconds = time.perf_counter() - begin
    if device != "cpu":
        torch.cuda.synchronize()
    return seconds


def _waits(step: Callable[[], None], device: str) -> int:
    """Return how often a step waits for the device, as reported by torch."""
    if device == "cpu":
        return 0
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            step()
        finally:
            torch.cuda.set_sync_debug_mode("default")
    return sum("called a synchronizing" in str(warning.message) for warning in seen)


def _fits(make: Callable[[], Part], device: str) -> bool:
    """Return True if two steps fit in memory."""
    try:
        part = make()
        for _ in range(2):
            part(True)
        if device != "cpu":
            torch.cuda.synchronize()
    except RuntimeError as error:  # libraries of the device raise it for memory too
        if "out of memory" in str(error) or "ALLOC_FAILED" in str(error):
            return False
        raise
    finally:
        part = None  # type: ignore[assignment]
        gc.collect()
        if device != "cpu":
            torch.cuda.empty_cache()
    return True


TASKS: dict[str, Callable[..., Any]] = {
    "device": described_device,
    "noise": noise,
    "rows": rows,
    "largest": largest,
}


def _child(field: str, *arguments: str) -> None:
    """Print the result of a task as JSON; the reason goes to the standard error."""
    warnings.simplefilter("ignore")
    print(json.dumps(TASKS[field](*arguments)))


if __name__ == "__main__":
    _child(*sys.argv[1:])

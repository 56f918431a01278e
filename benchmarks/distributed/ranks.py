"""Step time of several processes that train one model, compared with DDP.

Strong scaling: W processes share a batch of BATCH names, each on one thread.  DDP and
private steps alternate.  Then the peak memory per rank: of a single process, and of
ranks with a sharded model (FSDP2).  With more processes than cores, processes wait for
each other.
"""

from __future__ import annotations

import multiprocessing
import os
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from benchmarks import record
from benchmarks.memory import high_water, reset_high_water
from dpsgd_explorer.dp import PrivacyEngine
from dpsgd_explorer.dp.distributed.ranks import Ranks

#: The example's model, imported as a reader of the docs runs it.
EXAMPLE = import_module("examples.distributed.transformer_fsdp")
SIZES = (1, 2, 4)
BATCH, LENGTH = 64, 10
ROUNDS, WARM = 15, 2
TIMED = {"width": 256, "layers": 4, "heads": 8}
STORED = {"width": 512, "layers": 6, "heads": 8}
#: Minimum ratio of the private speed-up to DDP's speed-up, at two processes.
LEAST_SHARE = 0.95

Job = Callable[[int, int], dict[str, float]]
Step = Callable[[], None]


def main() -> None:
    """Measure, print, and write the results."""
    times = [row for size in SIZES for row in _timed_rows(size)]
    _add_scaling(times)
    memory = [_memory_row(size) for size in SIZES[:2]]
    for row in times + memory:
        print("  ".join(f"{name} {value}" for name, value in row.items()))
    cores = len(os.sched_getaffinity(0))
    found = {"batch": BATCH, "cores_used": cores, "times": times, "memory": memory}
    print(record.write("distributed", found))


def _timed_rows(size: int) -> list[dict[str, Any]]:
    """Return a row for DDP and one for private steps, each of the slowest rank."""
    ranks = _run(time_steps, size)
    rows: list[dict[str, Any]] = [
        {
            "processes": size,
            "way": way,
            "wall_ms": round(max(rank[f"{way}_wall"] for rank in ranks), 1),
            "cpu_ms": round(max(rank[f"{way}_cpu"] for rank in ranks), 1),
        }
        for way in ("DDP", "private")
    ]
    rows[1]["noise_ms"] = round(max(rank["noise"] for rank in ranks), 2)
    return rows


def _add_scaling(rows: list[dict[str, Any]]) -> None:
    """Add the speed-up over one process, and its ratio to the speed-up of DDP."""
    first = {row["way"]: row["wall_ms"] for row in rows if row["processes"] == 1}
    for row in rows:
        row["speedup"] = round(first[row["way"]] / row["wall_ms"], 3)
    of_ddp = {row["processes"]: row["speedup"] for row in rows if row["way"] == "DDP"}
    for row in rows:
        row["share"] = round(row["speedup"] / of_ddp[row["processes"]], 3)


def _memory_row(size: int) -> dict[str, Any]:
    ranks = _run(measure_memory, size)
    names = ("stored_mib", "first_mib", "steps_mib")
    return {"processes": size} | {
        name: round(max(rank[name] for rank in ranks), 1) for name in names
    }


def time_steps(rank: int, size: int) -> dict[str, float]:
    """Return this rank's median times per DDP and private step, in ms."""
    torch.manual_seed(0)
    ordinary = DistributedDataParallel(EXAMPLE.Transformer(**TIMED))
    model = EXAMPLE.Transformer(**TIMED)
    spent = [0.0]
    engine, private = _private_step(model, rank, size)
    _measure_noise(engine, spent)
    optimizer = torch.optim.SGD(ordinary.parameters(), lr=0.1)
    steps = {"DDP": _ordinary_step(ordinary, optimizer, rank, size), "private": private}
    times: dict[str, list[tuple[float, float]]] = {way: [] for way in steps}
    noise = []
    for _ in range(WARM + ROUNDS):
        spent[0] = 0.0
        for way, step in steps.items():
            dist.barrier()
            wall, cpu = time.perf_counter(), time.process_time()
            step()
            dist.barrier()
            own = time.perf_counter() - wall, time.process_time() - cpu
            times[way].append(own)
        noise.append(spent[0])
    found = {"noise": 1e3 * statistics.median(noise[WARM:])}
    for way, own_times in times.items():
        walls, cpus = zip(*own_times[WARM:], strict=True)
        found[f"{way}_wall"] = 1e3 * statistics.median(walls)
        found[f"{way}_cpu"] = 1e3 * statistics.median(cpus)
    return found


def measure_memory(rank: int, size: int) -> dict[str, float]:
    """Returns this rank's peak memory in MiB above the memory after the imports.

    ``stored_mib`` of the model and the sum; ``first_mib`` of the first step, with the
    safety check; ``steps_mib`` of the steps after it.
    """
    torch.manual_seed(0)
    _private_step(EXAMPLE.Transformer(16, 1, 2), rank, size)[
        1
    ]()  # loads the modules that torch imports lazily
    before = reset_high_water()
    torch.manual_seed(0)
    model = EXAMPLE.Transformer(**STORED)
    if size > 1:
        EXAMPLE.shard(model)
    _, step = _private_step(model, rank, size)
    stored = reset_high_water()
    step()
    first = high_water()
    reset_high_water()
    for _ in range(2):
        step()
    return {
        "stored_mib": stored - before,
        "first_mib": first - before,
        "steps_mib": high_water() - before,
    }


def _private_step(model: nn.Module, rank: int, size: int) -> tuple[PrivacyEngine, Step]:
    engine = PrivacyEngine(
        model,
        sample_size=100 * BATCH,
        batch_size=BATCH,
        noise_multiplier=1.0,
        sampling="unchecked",
        group=Ranks.of(dist.group.WORLD),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    engine.attach(optimizer)
    return engine, _ordinary_step(model, optimizer, rank, size)


def _ordinary_step(
    model: nn.Module, optimizer: torch.optim.Optimizer, rank: int, size: int
) -> Step:
    generator = torch.Generator().manual_seed(1)
    letters = torch.randint(0, 27, (BATCH, LENGTH + 1), generator=generator)
    own = letters[rank::size]

    def step() -> None:
        EXAMPLE.loss_of(model(own[:, :-1]), own[:, 1:]).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def _measure_noise(engine: PrivacyEngine, spent: list[float]) -> None:
    """Add the CPU seconds of each call of the engine's noise to ``spent[0]``."""
    source = engine._state.noise
    add_to = source.add_to

    def timed(
        values: torch.Tensor, standard_deviation: float, divisor: float = 1.0
    ) -> torch.Tensor | float:
        start = time.process_time()
        square = add_to(values, standard_deviation, divisor)
        spent[0] += time.process_time() - start
        return square

    source.add_to = timed  # type: ignore[method-assign]


def _run(job: Job, size: int) -> list[dict[str, float]]:
    """Returns the results of a job, which runs in ``size`` new processes."""
    spawn = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        pipes, processes = [], []
        for rank in range(size):
            ours, theirs = spawn.Pipe(duplex=False)
            arguments = job, rank, size, str(Path(folder) / "store"), theirs
            processes.append(spawn.Process(target=_serve, args=arguments))
            processes[-1].start()
            theirs.close()
            pipes.append(ours)
        found = [pipe.recv() for pipe in pipes]
        for process in processes:
            process.join()
    return found


def _serve(job: Job, rank: int, size: int, store: str, pipe: Connection) -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    method = f"file://{store}"
    dist.init_process_group("gloo", init_method=method, rank=rank, world_size=size)
    pipe.send(job(rank, size))
    dist.barrier()
    dist.destroy_process_group()

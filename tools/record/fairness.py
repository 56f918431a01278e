"""Measure the cost of privacy for a rare class, for the chapter on fairness.

    python -m tools.record.fairness [--cache FOLDER]

Trains the trainer's default model on MNIST, and on MNIST with most records of one class
removed; without privacy, with clipping only, and at two ε.  Each is trained at several
learning rates with three seeds.  Writes
dpsgd_explorer/web/recorded/fairness/mnist.json: accuracy of each class on the whole
test set, and the clipped share of the gradients of the rare class and of the others.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dpsgd_explorer.accounting import Plan
from dpsgd_explorer.dp import PoissonSampler, PrivacyEngine
from dpsgd_explorer.dp.noise.seeded import seeded_generator
from dpsgd_explorer.training import inputs, models
from dpsgd_explorer.training.cpu.threads import threads
from tools.record.files import versions, write

RARE, CLASSES = 8, 10
KEPT = 0.05  # share of the rare class's records that are used, the first ones
SEEDS = (7, 8, 9)
BATCH, STEPS, DELTA = 4096, 300, 1e-5
BOUND, MOMENTUM = 0.1, 0.9
PRIVATE_RATE = 8.0  # the trainer's default
PLAIN_RATE = 0.1  # unclipped gradients are about eighty times as large
FACTORS = {"rare": (0.5, 1.0, 2.0, 4.0), "whole": (1.0, 2.0)}  # of these rates
LAST = 20  # number of final steps over which norms are averaged
LEVELS: dict[str, float | None] = {  # noise multiplier 0, or a target ε
    "ordinary": None,
    "clipped only": 0.0,
    "ε = 3": 3.0,
    "ε = 1": 1.0,
}
Run = dict[str, Any]


def main() -> int:
    """Train, measure, and write the file."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cache", type=Path, help="folder for computed features")
    cache = parser.parse_args().cache
    stored = {
        "dataset": "mnist",
        "model": "scattering_linear",
        "rare_class": RARE,
        "batch_size": BATCH,
        "steps": STEPS,
        "delta": DELTA,
        "max_grad_norm": BOUND,
        "momentum": MOMENTUM,
        "learning_rates": {"private": PRIVATE_RATE, "ordinary": PLAIN_RATE},
        "seeds": list(SEEDS),
        **versions(),
        "data": _both(cache),
    }
    write("fairness/mnist", stored, indent=1)
    return 0


def _both(cache: Path | None) -> Run:
    """Return the runs on both data sets, each data set in its own process."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(len(FACTORS), context) as processes:
        found = processes.map(_records, FACTORS, [cache] * len(FACTORS))
        return dict(zip(FACTORS, found, strict=True))


def _records(name: str, cache: Path | None) -> Run:
    """Return every run on one data set, and the number of records per class."""
    with threads(1):
        data = inputs.load("mnist", "scattering_linear", cache)
        rows = used_rows(data.train_targets, KEPT if name == "rare" else 1.0)
        counts = torch.bincount(data.train_targets[rows], minlength=CLASSES).tolist()
        runs: Run = {level: {} for level in LEVELS}
        for level, target in LEVELS.items():
            for factor in FACTORS[name]:
                made = [_run(data, rows, target, seed, factor) for seed in SEEDS]
                runs[level][f"{factor:g}"] = made
                told = [(run["accuracy"], run["by_class"][RARE]) for run in made]
                print(name, level, factor, told, flush=True)
    return {"records": counts, "runs": runs}


def used_rows(targets: Tensor, share: float) -> Tensor:
    """Return the indices of the training records, with a share of the rare class."""
    rare = (targets == RARE).nonzero().squeeze(1)
    stays = torch.ones(len(targets), dtype=torch.bool)
    stays[rare[round(share * len(rare)) :]] = False
    return stays.nonzero().squeeze(1)


def _run(
    data: inputs.Inputs,
    rows: Tensor,
    target: float | None,
    seed: int,
    factor: float,
) -> Run:
    """Train once and return accuracies, spent ε and clipped shares."""
    model, run = train(data, rows, target, seed, factor)
    return run | _tested(model, data)


def train(
    data: inputs.Inputs,
    rows: Tensor,
    target: float | None,
    seed: int,
    factor: float,
) -> tuple[nn.Module, Run]:
    """Train once and return the model, with its spent ε and clipped shares.

    Args:
        data: The data set.
        rows: Indices of the training records.
        target: One of ``LEVELS``: None is ordinary training, 0 clips without noise.
        seed: Seed of the first parameters, the batches and the noise.
        factor: Learning rate, as a multiple of the usual one.
    """
    first = seeded_generator(seed, "initialisation").initial_seed()
    model = models.build("scattering_linear", "mnist", first)
    if target is None:
        batches = PoissonSampler(_plan(rows, 0.0), _coins(seed))
        _learn_plainly(model, data, rows, batches.all_epochs(), factor * PLAIN_RATE)
        return model, {"epsilon": None, "clipped": None}
    engine = PrivacyEngine(
        model,
        plan=_plan(rows, target),
        max_grad_norm=BOUND,
        clipping_fn="Abadi",
        noise="seeded",
        seed=seed,
    )
    clipped = _learn_privately(model, data, rows, engine, factor * PRIVATE_RATE)
    spent = engine.get_epsilon() if target else None
    return model, {"epsilon": spent, "clipped": clipped}


def _plan(rows: Tensor, target: float) -> Plan:
    """Returns the plan for a target ε; for 0, a plan that clips without noise."""
    return Plan.create(
        sample_size=len(rows),
        expected_batch_size=BATCH,
        steps=STEPS,
        target_epsilon=target or None,
        noise_multiplier=None if target else 0.0,
        delta=DELTA,
        accountant="exact",
    )


def _coins(seed: int) -> torch.Generator:
    return seeded_generator(seed, "sampling")


def _learn_plainly(
    model: nn.Module,
    data: inputs.Inputs,
    rows: Tensor,
    batches: Iterator[Tensor],
    rate: float,
) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=MOMENTUM)
    for drawn in batches:
        chosen = rows[drawn]
        outputs = model(data.train[chosen])
        loss = F.cross_entropy(outputs, data.train_targets[chosen], reduction="sum")
        (loss / BATCH).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()


def _learn_privately(
    model: nn.Module,
    data: inputs.Inputs,
    rows: Tensor,
    engine: PrivacyEngine,
    rate: float,
) -> dict[str, float]:
    """Train; return the clipped share of the rare class and of the others."""
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=MOMENTUM)
    engine.attach(optimizer)
    norms, labels = [], []
    for step, (chosen,) in enumerate(
        engine.poisson_loader((rows,)).all_epochs(), start=1
    ):
        targets = data.train_targets[chosen]
        loss = F.cross_entropy(model(data.train[chosen]), targets)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()
        if step > STEPS - LAST:
            norms.append(engine.diagnostics.norms)
            labels.append(targets)
    longer, rare = torch.cat(norms) > BOUND, torch.cat(labels) == RARE
    return {
        "rare": float(longer[rare].float().mean()),
        "others": float(longer[~rare].float().mean()),
    }


@torch.no_grad()
def _tested(model: nn.Module, data: inputs.Inputs) -> Run:
    """Return the accuracy on all test records and on each class."""
    right = model(data.test).argmax(dim=1) == data.test_targets
    by_class = [
        float(right[data.test_targets == label].float().mean())
        for label in range(CLASSES)
    ]
    return {"accuracy": float(right.float().mean()), "by_class": by_class}


if __name__ == "__main__":
    sys.exit(main())

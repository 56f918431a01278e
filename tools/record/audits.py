"""Record audits of correct runs, for docs/how-to/audit-a-run.md.

    python -m tools.record.audits [part ...]

Parts: strength, alarms, runs, cost; all of them by default.  Writes
dpsgd_explorer/web/recorded/choices/audits.json; other parts of the file are preserved.
``tools.record.audited_bugs`` adds audits of broken runs, and ``python -m
tools.write_auditing_page`` creates tables of both.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.models import CASES
from dpsgd_explorer.accounting import Plan
from dpsgd_explorer.accounting.auditing.audit import AuditResult
from dpsgd_explorer.dp import PrivacyEngine
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.training import inputs, models
from dpsgd_explorer.training.inputs import Rows
from dpsgd_explorer.training.timing import Step, machine, one_thread, time_in_turns
from tools.record.files import FOLDER, versions, write

NAME = "choices/audits"
DELTA, DIGITS = 1e-5, 5
LEARNING_RATE = 0.1
RECORDS = 1000
#: Number of steps by sampling rate.
LENGTHS = {1.0: 50, 0.1: 200, 0.02: 500}
#: Pairs of promised ε and number of canaries.
STRENGTHS = ((1.0, 10_000), (4.0, 10_000), (8.0, 10_000), (1.0, 50_000))
SEEDS = 20
ALARM_RATE, ALARM_STEPS, ALARM_EPSILON, ALARM_CANARIES = 0.1, 20, 4.0, 2000
ALARM_RUNS, FIRST_ALARM_SEED = 200, 1000
CANARIES = 10_000
COST_CANARIES, COST_SECONDS = 2000, 40.0
CNN_PICTURES, CNN_BATCH, CNN_STEPS = 300, 30, 60
ENGINES = ("hooks", "extending", "microbatch")

Data = tuple[Tensor | Rows, Tensor]


def main(arguments: list[str] | None = None) -> int:
    """Record the named parts."""
    parser = argparse.ArgumentParser(prog="python -m tools.record.audits")
    parser.add_argument("parts", nargs="*", default=[], choices=[*PARTS, []])
    one_thread()
    for part in parser.parse_args(arguments).parts or PARTS:
        store(part, PARTS[part]())
    return 0


def store(part: str, found: object) -> None:
    """Write one part of the file and preserve the others."""
    path = FOLDER / f"{NAME}.json"
    stored = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    computer = machine()["processor"]
    write(NAME, stored | {part: found, "machine": computer, **versions()})


def strength() -> list[dict[str, Any]]:
    """Return the ε that each method proves for honest runs, by rate and promise."""
    found = []
    for rate, steps in LENGTHS.items():
        for epsilon, canaries in STRENGTHS:
            plan = small_plan(rate, steps, epsilon)
            audits = [small_audit(plan, canaries, seed) for seed in range(SEEDS)]
            proven = [bounds(audit) for audit, _ in audits]
            row = {
                "sample_rate": rate,
                "steps": steps,
                "promised": epsilon,
                "canaries": canaries,
                "proven": {name: [one[name] for one in proven] for name in proven[0]},
                "cpu_seconds": round(max(seconds for _, seconds in audits), 2),
            }
            print(row, flush=True)
            found.append(row)
    return found


def alarms() -> dict[str, Any]:
    """Return the ε that the audits of many honest runs prove."""
    seeds = range(FIRST_ALARM_SEED, FIRST_ALARM_SEED + ALARM_RUNS)
    plan = small_plan(ALARM_RATE, ALARM_STEPS, ALARM_EPSILON)
    audits = [small_audit(plan, ALARM_CANARIES, seed)[0] for seed in seeds]
    return {
        "sample_rate": ALARM_RATE,
        "steps": ALARM_STEPS,
        "canaries": ALARM_CANARIES,
        "confidence": audits[0].confidence,
        "promised": audits[0].epsilon_promised,
        "proven": [round(audit.epsilon_lower, DIGITS) for audit in audits],
    }


def small_plan(rate: float, steps: int, epsilon: float) -> Plan:
    """Return the plan of a run with few records."""
    return Plan.create(
        sample_size=RECORDS,
        expected_batch_size=round(rate * RECORDS),
        steps=steps,
        target_epsilon=epsilon,
        delta=DELTA,
    )


def small_audit(plan: Plan, canaries: int, seed: int) -> tuple[AuditResult, float]:
    """Return the audit of a run of a tiny model, and the audit's CPU seconds."""
    data = torch.zeros(RECORDS, 1), torch.zeros(RECORDS, 1)
    engine = trained(
        nn.Linear(1, 1),
        data,
        F.mse_loss,
        plan=plan,
        noise="seeded",
        seed=seed,
        audit=canaries,
    )
    start = time.process_time()
    audit = engine.audit()
    return audit, time.process_time() - start


def bounds(audit: AuditResult) -> dict[str, float]:
    """Return {method: lower bound}; the deciding method comes first."""
    every = {audit.method: audit.epsilon_lower, **audit.others}
    return {name: round(bound, DIGITS) for name, bound in every.items()}


def trained(
    model: nn.Module,
    data: Data,
    loss: Callable[[Tensor, Tensor], Tensor] = F.cross_entropy,
    **options: Any,
) -> PrivacyEngine:
    """Return the engine of a finished run.

    Args:
        model: Model, which is trained in place.
        data: Inputs (N, ...) and targets (N,).
        loss: Mean loss of outputs and targets.
        options: Options of the engine.
    """
    engine, step = attached(model, data, loss, **options)
    for _ in range(engine.plan.steps):
        step()
    return engine


def attached(
    model: nn.Module,
    data: Data,
    loss: Callable[[Tensor, Tensor], Tensor] = F.cross_entropy,
    **options: Any,
) -> tuple[PrivacyEngine, Callable[[], None]]:
    """Return an engine and a function that takes its next step, on a drawn batch."""
    engine = PrivacyEngine(model, **options)
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    engine.attach(optimizer)
    records = torch.arange(len(data[1]))
    batches = engine.poisson_loader((records,)).all_epochs()

    def step() -> None:
        (drawn,) = next(batches)
        loss(model(data[0][drawn]), data[1][drawn]).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()

    return engine, step


def runs() -> list[dict[str, Any]]:
    """Return audits of the site's default run, and of a CNN with each engine."""
    runs: list[Callable[[int], dict[str, Any]]] = [
        default_run,
        *(partial(cnn_run, engine) for engine in ENGINES),
    ]
    found = []
    for run in runs:
        audits = [run(seed) for seed in range(SEEDS)]
        proven = [audit.pop("proven") for audit in audits]
        row = audits[0] | {
            "proven": {name: [one[name] for one in proven] for name in proven[0]}
        }
        print(row, flush=True)
        found.append(row)
    return found


def default_run(seed: int) -> dict[str, Any]:
    """Return the audit of a run with the trainer's default settings."""
    config = TrainingConfig.parse({"seed": seed})
    data = inputs.load(config.dataset, config.model, None)
    engine = trained(
        models.build(config.model, config.dataset, config.seed),
        (data.train, data.train_targets),
        plan=config.plan,
        max_grad_norm=config.max_grad_norm,
        clipping_fn=config.clipping_fn,
        engine=config.engine,
        noise="seeded",
        seed=config.seed,
        audit=CANARIES,
    )
    return {"model": config.model, "data": config.dataset, **audited(engine)}


def cnn_run(engine: str, seed: int) -> dict[str, Any]:
    """Return the audit of a CNN on random pictures, with secure noise."""
    case = CASES["cnn"]
    generator = torch.Generator().manual_seed(seed)
    pictures = torch.randn(CNN_PICTURES, *case.sample_shape, generator=generator)
    classes = torch.arange(CNN_PICTURES) % case.classes
    found = trained(
        case.model(),
        (pictures, classes),
        batch_size=CNN_BATCH,
        sample_size=CNN_PICTURES,
        target_epsilon=4.0,
        target_delta=DELTA,
        steps=CNN_STEPS,
        engine=engine,
        audit=CANARIES,
    )
    return {"model": case.name, "data": "pictures of noise", **audited(found)}


def audited(engine: PrivacyEngine) -> dict[str, Any]:
    """Return a run's settings and its audit, as JSON values."""
    audit = engine.audit()
    return {
        "engine": engine.options.engine,
        "noise": engine.options.noise,
        "sample_rate": round(engine.plan.sample_rate, DIGITS),
        "steps": audit.steps,
        "canaries": audit.canaries,
        "promised": audit.epsilon_promised,
        "proven": bounds(audit),
    }


def cost() -> dict[str, Any]:
    """Return the CPU time of a CNN's private step with canaries over that without."""
    case = CASES["cnn"]
    data = case.data()
    size = len(data[1])
    settings: dict[str, Any] = {
        "batch_size": size - 1,  # nearly all records, so that batches have equal sizes
        "sample_size": size,
        "target_delta": DELTA,
        "noise_multiplier": 1.0,
        "steps": 10**6,
    }
    steps = {
        name: Step(attached(case.model(), data, audit=canaries, **settings)[1])
        for name, canaries in (("without", 0), ("with", COST_CANARIES))
    }
    timing = time_in_turns(steps, COST_SECONDS)
    return {
        "model": case.name,
        "batch_size": size - 1,
        "canaries": COST_CANARIES,
        "milliseconds": round(timing["without"].milliseconds, DIGITS),
        "ratio": round(timing["with"].ratio, DIGITS),
        "quartiles": [
            round(x, DIGITS) for x in (timing["with"].low, timing["with"].high)
        ],
    }


PARTS: dict[str, Callable[[], object]] = {
    "cost": cost,
    "strength": strength,
    "alarms": alarms,
    "runs": runs,
}


if __name__ == "__main__":
    sys.exit(main())

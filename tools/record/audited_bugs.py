"""Record audits of runs with a planted bug, for docs/how-to/audit-a-run.md.

    python -m tools.record.audited_bugs

Each bug of ``tests/dp/mutations/dp_sgd.py`` is planted in a new process before a run
starts.  If the engine rejects the run, the run is repeated with the checks before the
first pass switched off.
"""

from __future__ import annotations

import multiprocessing
import sys
from multiprocessing.pool import Pool
from typing import Any

import torch
from torch import Tensor, nn

from dpsgd_explorer.dp.checks.check import SafetyCheck
from dpsgd_explorer.dp.checks.real_batch_check import RealSizeCheck
from dpsgd_explorer.training.timing import one_thread
from tests.dp.mutations.dp_sgd import BUGS
from tests.dp.mutations.planting import Bug
from tools.record.audits import DELTA, attached, bounds, store

RECORDS, FEATURES = 200, 4
SETTINGS: dict[str, Any] = {
    "batch_size": 20,
    "sample_size": RECORDS,
    "target_epsilon": 4.0,
    "target_delta": DELTA,
    "steps": 30,
    "clipping_fn": "Abadi",
    "audit": 10_000,
}
NO_BUG = Bug("no bug", (), ())


def main() -> int:
    """Audit a run with each bug, and write the file."""
    one_thread()
    bugs = [NO_BUG, *BUGS.values()]
    with multiprocessing.get_context("fork").Pool(1, maxtasksperchild=1) as child:
        found = [_audited(child, index) for index in range(len(bugs))]
    store("bugs", {"settings": SETTINGS, "found": found})
    return 0


def _audited(child: Pool, index: int) -> dict[str, Any]:
    """Return the outcome of a run with a bug, without checks if they reject it.

    Args:
        child: Runs each call in a new process.
        index: Index of the bug; 0 plants no bug.
    """
    outcome: dict[str, Any] = child.apply(outcome_of, (index, True))
    if outcome["steps"] < SETTINGS["steps"]:
        unchecked = child.apply(outcome_of, (index, False))
        outcome = unchecked | {"refusal": outcome["refusal"]}
    print(outcome, flush=True)
    return outcome


def outcome_of(index: int, checked: bool) -> dict[str, Any]:
    """Return the outcome of a run with a bug.

    The outcome is the audit of the done steps, and the engine's message if it rejected
    the training or the receipt.

    Args:
        index: Index of the bug.
        checked: If True, the module is checked before its first pass.
    """
    bug = [NO_BUG, *BUGS.values()][index]
    outcome = {"bug": bug.name, "tests": list(bug.tests), "checked": checked}
    bug.plant()
    if not checked:
        SafetyCheck.run = _nothing  # type: ignore[assignment, method-assign]
        RealSizeCheck.run = _nothing  # type: ignore[assignment, method-assign]
    engine, refusal = None, ""
    try:
        engine, step = attached(_model(), _data(), **SETTINGS)
        for _ in range(engine.plan.steps):
            step()
        engine.receipt()
    except Exception as error:
        refusal = f"{type(error).__name__}: {error}"
    outcome |= {"refusal": refusal, "steps": 0}
    if engine is None or not engine.steps_done:
        return outcome
    found = engine.audit()
    return outcome | {
        "steps": found.steps,
        "promised": found.epsilon_promised,
        "proven": bounds(found),
    }


def _nothing(check: object) -> None:
    """Replace a check; do nothing."""


def _model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(FEATURES, 4), nn.Tanh(), nn.Linear(4, 2))


def _data() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(RECORDS, FEATURES, generator=generator)
    return x, (x[:, 0] > 0).long()


if __name__ == "__main__":
    sys.exit(main())

"""The receipt of a run: the accountant's input next to the values that were used.

The engine measures the values where it uses them: the noise that it adds to the sum,
the bound that the clipper applies, the samples that the sampler draws.  Each request
for an epsilon compares them with the accountant's input.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from dpsgd_explorer.accounting import Plan, round_up
from dpsgd_explorer.accounting.sampling_schemes import (
    FIXED_SLOTS,
    POISSON,
    RANDOM_ALLOCATION,
)
from dpsgd_explorer.dp.ledger.ledger import Ledger
from dpsgd_explorer.dp.noise.base import NoisePlan

#: Version of the receipt's layout; ``audit.receipts`` verifies this version.
VERSION = 1
#: Words for each sampling, and for Poisson sampling with correlated noise.
LAWS = {
    POISSON: "Poisson",
    RANDOM_ALLOCATION: "random allocation",
    FIXED_SLOTS: "fixed slots",
}
CYCLIC = "cyclic Poisson"
#: Number of decimals of ε in the text; ε is rounded up.
EPSILON_DIGITS = 4
#: Values of ``proof`` in the receipt, with and without a forward pass.
PROOF = "samples checked for independence on random batches before the first pass"
NO_PROOF = "no forward pass was run"


def accountant_input(
    plan: Plan, noise: NoisePlan, steps: int, *, open_ended: bool
) -> dict[str, Any]:
    """Returns the values that the accountant received, as JSON values.

    Args:
        plan: Sizes, noise multiplier, delta and accountant.
        noise: Noise, clipping bound and divisor of each step.
        steps: Number of steps done.
        open_ended: If True, the run has no planned number of steps.
    """
    law, strategy = LAWS[plan.sampling], plan.noise_correlation
    more: dict[str, Any] = {} if plan.slots is None else {"slots": plan.slots}
    if strategy is not None and plan.sampling == POISSON:
        law = CYCLIC
    if strategy is not None and strategy.inverse is not None:
        more["noise_weights"] = list(strategy.inverse)
    elif strategy is not None:
        more["noise_correlation"] = list(strategy.coefficients)
    return {
        "sample_size": plan.sample_size,
        "expected_batch_size": plan.expected_batch_size,
        "sample_rate": plan.sample_rate,
        "noise_multiplier": plan.noise_multiplier,
        "max_grad_norm": noise.sensitivity,
        "divisor": noise.divisor,
        "steps": steps,
        "planned_steps": None if open_ended else plan.steps,
        "delta": plan.delta,
        "accountant": plan.deciding_accountant,
        "sampling": law,
        **more,
        "neighboring_relation": "add_or_remove_one",
    }


def receipt(
    accountant_input: Mapping[str, Any],
    ledger: Ledger,
    *,
    options: Mapping[str, Any],
    seed: int | None,
    noise_note: str,
    sampling_note: str,
    loss_note: str,
    epsilon: float | None,
    epsilons: Mapping[str, float] | None = None,
    chosen_bounds: Sequence[tuple[int, float]] = (),
    audit: Mapping[str, Any] | None = None,
    world_size: int = 1,
    warnings: Sequence[str] = (),
) -> dict[str, Any]:
    """Returns the receipt of a run, as JSON values.

    The caller has compared the accountant's input with the ledger.

    Args:
        accountant_input: The values that the accountant received; ``told`` in the
            receipt.
        ledger: Record of the steps that were done; ``done`` in the receipt.
        options: Options of the engine.
        seed: Seed of the noise; None with secure noise.
        noise_note: Description of the noise source.
        sampling_note: Description of the sampling.
        loss_note: Result of the check of the loss.
        epsilon: Epsilon; None or infinite if there is no guarantee (null in the
            receipt).
        epsilons: {accountant: epsilon} if the run uses all accountants; only finite
            values enter the receipt.
        chosen_bounds: (step, factor of the clipping bound from this step on).
        audit: Result of the audit with its inputs; None without canaries.
        world_size: Number of processes that trained together.
        warnings: Sentences on events that may make epsilon too small; the receipt has
            the key only if there are any.
    """
    return {
        "version": VERSION,
        "told": dict(accountant_input),
        "done": ledger.lines(),
        "lost_steps": ledger.lost_steps,
        "fresh_resumes": ledger.fresh_resumes,
        "options": dict(options),
        "chosen_bounds": [[step, factor] for step, factor in chosen_bounds],
        "proof": PROOF if ledger.batch_sizes.samples else NO_PROOF,
        "sampling": sampling_note,
        "loss": loss_note,
        "noise": noise_note,
        "seed": seed,
        "world_size": world_size,
        "epsilon": _finite(epsilon),
        "epsilons": epsilons
        and {name: x for name, x in epsilons.items() if math.isfinite(x)},
        "audit": audit,
        "not_private": {"batch_sizes": asdict(ledger.batch_sizes)},
        **({"warnings": list(warnings)} if warnings else {}),
    }


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def receipt_text(receipt: Mapping[str, Any]) -> str:
    """Returns a receipt as text: the planned values, the actual values, and epsilon.

    The column "told" shows the values that the accountant received, and the column
    "done" the values that the engine measured.

    Args:
        receipt: The result of ``PrivacyEngine.receipt`` or ``Run.receipt``, or that
            result read back from JSON.

    Returns:
        Lines to print, without a line break at the end.

    Example:
        >>> import torch
        >>> from torch import nn
        >>> from dpsgd_explorer import dp
        >>> model = nn.Linear(3, 1)
        >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        >>> run = dp.make_private(
        ...     model,
        ...     optimizer,
        ...     (torch.randn(100, 3), torch.randn(100, 1)),
        ...     batch_size=10,
        ...     steps=2,
        ...     noise_multiplier=1.0,
        ... )
        >>> for x, y in run.loader:
        ...     nn.functional.mse_loss(model(x), y).backward()
        ...     optimizer.step()
        ...     optimizer.zero_grad()
        >>> lines = dp.receipt_text(run.receipt()).splitlines()
        >>> for line in lines[:7]:
        ...     print(line)
                          told  done
        sample_rate       0.1   0.1
        noise_multiplier  1     1
        max_grad_norm     1     1
        divisor           10    10
        steps             2     2
        noise draws       2     2
    """
    told = receipt["told"]
    rows = [("", "told", "done")]
    for name in ("sample_rate", "noise_multiplier", "max_grad_norm", "divisor"):
        values = dict.fromkeys(f"{line[name]:.6g}" for line in receipt["done"])
        rows.append((name, f"{told[name]:.6g}", _listed(list(values))))
    for label, name in (("steps", "steps"), ("noise draws", "noise_draws")):
        done = sum(line[name] for line in receipt["done"])
        expected = told["steps"] if told["noise_multiplier"] or name == "steps" else 0
        rows.append((label, str(expected), str(done)))
    width = [max(len(row[i]) for row in rows) for i in range(3)]
    lines = ["  ".join(map(str.ljust, row, width)).rstrip() for row in rows]
    if told["planned_steps"] is not None:
        lines.append(f"plan: {told['steps']} of {told['planned_steps']} planned steps")
    if receipt["options"].get("unit") == "user":
        most = receipt["options"].get("records_per_user", "all")
        lines.append(f"unit: user ({told['sample_size']} users), {most} records each")
    epsilon = receipt["epsilon"]
    epsilon = "none" if epsilon is None else round_up(epsilon, EPSILON_DIGITS)
    is_default = told["delta"] == 1 / (2 * told["sample_size"])
    epsilons = (receipt["epsilons"] or {}).items()
    others = ", ".join(
        f"{name} {round_up(value, EPSILON_DIGITS)}" for name, value in epsilons
    )
    return "\n".join(
        [
            *lines,
            f"sampling: {receipt['sampling']}",
            f"loss: {receipt['loss']}",
            f"noise: {receipt['noise']}",
            f"epsilon: {epsilon} at delta = {told['delta']:.6g}"
            f"{' (the default, 1/(2N))' * is_default}, "
            f"{told['neighboring_relation']}, accountant {told['accountant']}",
            *([f"by accountant: {others}"] if others else []),
            *(f"warning: {line}" for line in receipt.get("warnings", ())),
            *([_audit_text(receipt["audit"])] if receipt["audit"] else []),
        ]
    )


def _audit_text(audit: Mapping[str, Any]) -> str:
    proven = math.floor(1000 * audit["epsilon_lower"]) / 1000
    left_out = ", ".join(f"{x['steps']} steps {x['reason']}" for x in audit["unscored"])
    return (
        f"audit: {audit['canaries']} canaries prove epsilon >= {proven:g} for the "
        f"audited steps, at {audit['confidence']:.0%} confidence"
        + (f"; not scored: {left_out}" if left_out else "")
    )


def _listed(values: list[str]) -> str:
    """Returns up to three values as a list; of more, the first and the last."""
    if len(values) <= 3:
        return ", ".join(values)
    return f"{values[0]} to {values[-1]} in {len(values)} parts"

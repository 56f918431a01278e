"""The layout of a receipt of this version: the names, and the kind of each value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpsgd_explorer.errors import ReceiptError

#: Version of the layout that is checked.
VERSION = 1

WHOLE, NUMBER, TEXT = "a whole number", "a number", "text"
LIST, OBJECT, NULL = "a list", "an object", "null"
OPTIONAL = "left out"

Layout = Mapping[str, tuple[str, ...]]

RECEIPT: Layout = {
    "version": (WHOLE,),
    "told": (OBJECT,),
    "done": (LIST,),
    "lost_steps": (WHOLE,),
    "fresh_resumes": (WHOLE,),
    "options": (OBJECT,),
    "chosen_bounds": (LIST,),
    "proof": (TEXT,),
    "sampling": (TEXT,),
    "loss": (TEXT,),
    "noise": (TEXT,),
    "seed": (WHOLE, NULL, OPTIONAL),
    "epsilon": (NUMBER, NULL),
    "epsilons": (OBJECT, NULL),
    "audit": (OBJECT, NULL),
    "not_private": (OBJECT, OPTIONAL),
    "world_size": (WHOLE,),
    "earlier": (LIST,),
    "warnings": (LIST, OPTIONAL),
    "before": (LIST, OPTIONAL),
    "filter": (OBJECT, OPTIONAL),
}
TOLD: Layout = {
    "sample_size": (WHOLE,),
    "expected_batch_size": (WHOLE,),
    "sample_rate": (NUMBER,),
    "noise_multiplier": (NUMBER,),
    "max_grad_norm": (NUMBER,),
    "divisor": (NUMBER,),
    "steps": (WHOLE,),
    "planned_steps": (WHOLE, NULL),
    "delta": (NUMBER,),
    "accountant": (TEXT,),
    "sampling": (TEXT,),
    "neighboring_relation": (TEXT,),
}
DONE: Layout = {
    "sample_rate": (NUMBER,),
    "noise_multiplier": (NUMBER,),
    "noise_draws": (WHOLE,),
    "noise_numbers": (WHOLE,),
    "parameters": (WHOLE,),
    "max_grad_norm": (NUMBER,),
    "divisor": (NUMBER,),
    "steps": (WHOLE,),
    "count_noise_multiplier": (NUMBER, OPTIONAL),
}
PHASE: Layout = {
    "sample_rate": (NUMBER,),
    "noise_multiplier": (NUMBER,),
    "steps": (WHOLE,),
}
BATCH_SIZES: Layout = {
    "batches": (WHOLE,),
    "samples": (WHOLE,),
    "smallest": (WHOLE, NULL),
    "largest": (WHOLE, NULL),
    "empty": (WHOLE,),
}
BEFORE: Layout = {"told": (OBJECT,), "done": (LIST,), "chosen_bounds": (LIST,)}
FILTER: Layout = {
    "status": (TEXT,),
    "epsilon": (NUMBER,),
    "delta": (NUMBER,),
    "order": (NUMBER,),
}
AUDIT: Layout = {
    "epsilon_lower": (NUMBER,),
    "epsilon_promised": (NUMBER,),
    "delta": (NUMBER,),
    "confidence": (NUMBER,),
    "canaries": (WHOLE,),
    "steps": (WHOLE,),
    "method": (TEXT,),
    "others": (OBJECT,),
    "neighboring_relation": (TEXT,),
    "phases": (LIST,),
    "scores": (TEXT,),
    "joined": (TEXT,),
    "unscored": (LIST, OPTIONAL),
    "plans": (LIST, OPTIONAL),
}
UNSCORED: Layout = {"steps": (WHOLE,), "reason": (TEXT,)}
SEARCH: Layout = {"selection": (OBJECT,), "trial": (OBJECT, NULL)}
SELECTION: Layout = {
    "law": (TEXT,),
    "mean_trials": (NUMBER,),
    "trainings": (WHOLE,),
    "epsilon": (NUMBER,),
    "delta": (NUMBER,),
    "status": (TEXT,),
    "chosen_by": (TEXT,),
}


def check_receipt(receipt: Mapping[str, Any]) -> None:
    """Check the names and kinds of a receipt's values, whatever they are.

    Raises:
        ReceiptError: names the first value at fault.
    """
    _check_version(receipt)
    _check("", receipt, RECEIPT)
    _check("told", receipt["told"], TOLD)
    _check_each("done", receipt["done"], DONE)
    _check_each("earlier", receipt["earlier"], PHASE)
    for i, plan in enumerate(receipt.get("before", [])):
        _check(f"before[{i}]", plan, BEFORE)
        _check(f"before[{i}].told", plan["told"], TOLD)
        _check_each(f"before[{i}].done", plan["done"], DONE)
    for i, warning in enumerate(receipt.get("warnings", [])):
        _check_kind(f"warnings[{i}]", warning, (TEXT,))
    if "filter" in receipt:
        _check("filter", receipt["filter"], FILTER)
    if "not_private" in receipt:
        _check("not_private", receipt["not_private"], {"batch_sizes": (OBJECT,)})
        sizes = receipt["not_private"]["batch_sizes"]
        _check("not_private.batch_sizes", sizes, BATCH_SIZES)
    for name, value in (receipt["epsilons"] or {}).items():
        _check_kind(f"epsilons.{name}", value, (NUMBER,))
    if receipt["audit"] is not None:
        check_audit(receipt["audit"])


def check_audit(audit: Mapping[str, Any]) -> None:
    """Check the part of the canaries, as ``check_receipt``."""
    _check("audit", audit, AUDIT)
    _check_each("audit.phases", audit["phases"], PHASE)
    for i, steps in enumerate(audit.get("plans", [])):
        _check_kind(f"audit.plans[{i}]", steps, (WHOLE,))
    _check_each("audit.unscored", audit.get("unscored", []), UNSCORED)
    for name, value in audit["others"].items():
        _check_kind(f"audit.others.{name}", value, (NUMBER,))


def check_search(receipt: Mapping[str, Any]) -> None:
    """Check the receipt of a search, without the receipt of its best trial."""
    _check("", receipt, SEARCH)
    _check("selection", receipt["selection"], SELECTION)


def _check_version(receipt: Mapping[str, Any]) -> None:
    if "version" not in receipt:
        raise ReceiptError("version", "is missing, so the file is not a receipt.")
    version = receipt["version"]
    if version != VERSION:
        raise ReceiptError(
            "version",
            f"must be {VERSION}, the version that this program checks, got "
            f"{version!r}.",
        )


def _check_each(path: str, values: list[Any], layout: Layout) -> None:
    for i, value in enumerate(values):
        _check(f"{path}[{i}]", value, layout)


def _check(path: str, value: object, layout: Layout) -> None:
    _check_kind(path or "receipt", value, (OBJECT,))
    assert isinstance(value, Mapping)
    prefix = f"{path}." if path else ""
    for name in value:
        if name not in layout:
            raise ReceiptError(
                f"{prefix}{name}", "is not part of a receipt of this version."
            )
    for name, kinds in layout.items():
        if name not in value:
            if OPTIONAL not in kinds:
                raise ReceiptError(f"{prefix}{name}", "is missing.")
            continue
        _check_kind(f"{prefix}{name}", value[name], kinds)


def _check_kind(path: str, value: object, kinds: tuple[str, ...]) -> None:
    wanted = [kind for kind in kinds if kind != OPTIONAL]
    kind = _kind(value)
    if kind not in wanted and not (kind == WHOLE and NUMBER in wanted):
        raise ReceiptError(path, f"must be {' or '.join(wanted)}, got {kind}.")
    if isinstance(value, int | float) and value < 0:
        raise ReceiptError(path, f"must be 0 or more, got {value}.")


def _kind(value: object) -> str:
    if isinstance(value, bool):
        return "true or false"
    kinds = {
        int: WHOLE,
        float: NUMBER,
        str: TEXT,
        list: LIST,
        dict: OBJECT,
        type(None): NULL,
    }
    return kinds[type(value)]

"""The layout of a receipt of this version: all names, and the kinds of their values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dpsgd_explorer.errors import ReceiptError

#: Version of the layout that is checked.
VERSION = 1

WHOLE, NUMBER, TEXT = "a whole number", "a number", "text"
LIST, OBJECT, NULL = "a list", "an object", "null"
OPTIONAL = "left out"
#: Word for the type of each JSON value.
WORDS = {
    bool: "true or false",
    int: WHOLE,
    float: NUMBER,
    str: TEXT,
    list: LIST,
    dict: OBJECT,
    type(None): NULL,
}
#: Only name in the layout of an object that may have any names.
ANY_NAME = "*"

#: A kind is one of the words above, the layout of an object, or a list with the kinds
#: of an item.  A layout has the possible kinds of the value of each name.
Kind = str | Mapping[str, Any] | list[Any]
Layout = Mapping[str, tuple[Kind, ...]]

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
    "slots": (WHOLE, OPTIONAL),
    "noise_correlation": (LIST, OPTIONAL),
    "noise_weights": (LIST, OPTIONAL),
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
    "slots": (WHOLE, OPTIONAL),
}
BATCH_SIZES: Layout = {
    "batches": (WHOLE,),
    "samples": (WHOLE,),
    "smallest": (WHOLE, NULL),
    "largest": (WHOLE, NULL),
    "empty": (WHOLE,),
}
BEFORE: Layout = {
    "told": (TOLD,),
    "done": ([DONE],),
    "chosen_bounds": (LIST,),
}
FILTER: Layout = {
    "status": (TEXT,),
    "epsilon": (NUMBER,),
    "delta": (NUMBER,),
    "order": (NUMBER,),
}
UNSCORED: Layout = {"steps": (WHOLE,), "reason": (TEXT,)}
AUDIT: Layout = {
    "epsilon_lower": (NUMBER,),
    "epsilon_promised": (NUMBER,),
    "delta": (NUMBER,),
    "confidence": (NUMBER,),
    "canaries": (WHOLE,),
    "steps": (WHOLE,),
    "method": (TEXT,),
    "others": ({ANY_NAME: (NUMBER,)},),
    "neighboring_relation": (TEXT,),
    "phases": ([PHASE],),
    "scores": (TEXT,),
    "joined": (TEXT,),
    "unscored": ([UNSCORED], OPTIONAL),
    "plans": ([WHOLE], OPTIONAL),
}
RECEIPT: Layout = {
    "version": (WHOLE,),
    "told": (TOLD,),
    "done": ([DONE],),
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
    "epsilons": ({ANY_NAME: (NUMBER,)}, NULL),
    "audit": (AUDIT, NULL),
    "not_private": ({"batch_sizes": (BATCH_SIZES,)}, OPTIONAL),
    "world_size": (WHOLE,),
    "earlier": ([PHASE],),
    "warnings": ([TEXT], OPTIONAL),
    "before": ([BEFORE], OPTIONAL),
    "filter": (FILTER, OPTIONAL),
}
SELECTION: Layout = {
    "law": (TEXT,),
    "mean_trials": (NUMBER,),
    "trainings": (WHOLE,),
    "epsilon": (NUMBER,),
    "delta": (NUMBER,),
    "status": (TEXT,),
    "chosen_by": (TEXT,),
}
SEARCH: Layout = {"selection": (SELECTION,), "trial": (OBJECT, NULL)}
MECHANISM: Layout = {
    "released": (TEXT,),
    "noise_multiplier": (NUMBER,),
    "times": (WHOLE,),
}
RELEASE: Layout = {
    "method": (TEXT,),
    "epsilon_alone": (NUMBER,),
    "mechanisms": ([MECHANISM],),
}
REGRESSION: Layout = {
    "version": (WHOLE,),
    "releases": ([RELEASE],),
    "target_epsilon": (NUMBER,),
    "epsilon": (NUMBER,),
    "delta": (NUMBER,),
    "neighboring_relation": (TEXT,),
    "x_bound": (NUMBER,),
    "y_bound": (NUMBER,),
    "seed": (WHOLE,),
}


def check_receipt(receipt: Mapping[str, Any]) -> None:
    """Checks the names and kinds of a receipt's values, not the values.

    Raises:
        ReceiptError: names the first wrong value.
    """
    _check_version(receipt)
    _check("", receipt, (RECEIPT,))


def check_regression(receipt: Mapping[str, Any]) -> None:
    """Checks the receipt of a regression by several methods.

    Raises:
        ReceiptError: names the first wrong value.
    """
    _check_version(receipt)
    _check("", receipt, (REGRESSION,))


def check_search(receipt: Mapping[str, Any]) -> None:
    """Checks the receipt of a search, without the receipt of its best trial."""
    _check("", receipt, (SEARCH,))


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


def _check(path: str, value: object, kinds: Sequence[Kind]) -> None:
    allowed = [_word(kind) for kind in kinds if kind != OPTIONAL]
    word = _word_of(value)
    if word not in allowed and not (word == WHOLE and NUMBER in allowed):
        raise ReceiptError(
            path or "receipt", f"must be {' or '.join(allowed)}, got {word}."
        )
    if isinstance(value, int | float) and value < 0:
        raise ReceiptError(path, f"must be 0 or more, got {value}.")
    for kind in kinds:
        if isinstance(kind, list) and isinstance(value, list):
            for i, item in enumerate(value):
                _check(f"{path}[{i}]", item, kind)
        if isinstance(kind, Mapping) and isinstance(value, Mapping):
            _check_object(f"{path}." if path else "", value, kind)


def _check_object(prefix: str, value: Mapping[str, Any], layout: Layout) -> None:
    if ANY_NAME in layout:
        layout = dict.fromkeys(value, layout[ANY_NAME])
    for name in value:
        if name not in layout:
            raise ReceiptError(
                f"{prefix}{name}", "is not part of a receipt of this version."
            )
    for name, kinds in layout.items():
        if name in value:
            _check(f"{prefix}{name}", value[name], kinds)
        elif OPTIONAL not in kinds:
            raise ReceiptError(f"{prefix}{name}", "is missing.")


def _word(kind: Kind) -> str:
    return kind if isinstance(kind, str) else _word_of(kind)


def _word_of(value: object) -> str:
    return WORDS[type(value)]

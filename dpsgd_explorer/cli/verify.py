"""``dpsgd verify``: recomputes the figures of a receipt, offline."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpsgd_explorer.accounting import round_up
from dpsgd_explorer.errors import ConfigError, ReceiptError
from dpsgd_explorer.signatures import check_signature, signature_of
from dpsgd_explorer.validation import file_text

if TYPE_CHECKING:
    from dpsgd_explorer.audit.receipts.findings import Figure, Findings

WRONG = 1
READABLE = (
    "FILE must be a receipt (JSON), an export of a run (JSON) or weights that dpsgd "
    "train wrote (.safetensors)."
)
COLUMNS = ("figure", "stated", "recomputed", "fits")
EPSILON_DIGITS = 4
LONGEST = 34  # characters of a value
#: Maximum number of ledger lines that are printed if all figures are right.
MAX_LEDGER_LINES = 3


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    parser.add_argument(
        "receipt",
        metavar="FILE",
        help="receipt (JSON), export of a run (JSON) or file of weights (safetensors)",
    )
    parser.add_argument(
        "--key",
        metavar="FILE",
        help="public keys (PEM) of the site, which must have signed the receipt",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def carry_out(options: argparse.Namespace) -> int:
    """Prints each stated and recomputed figure; returns 0 if all figures agree."""
    from dpsgd_explorer.audit.receipts import file
    from dpsgd_explorer.audit.receipts.verification import limits, verify_receipt

    path = Path(options.receipt)
    try:
        receipt = file.read_receipt(path)
        findings = verify_receipt(receipt)
        origin = _origin(receipt, options.key)
    except ReceiptError as error:
        print(
            f"verify: {path.name} is not a valid receipt: {error} {READABLE}",
            file=sys.stderr,
        )
        return WRONG
    except OSError as error:
        raise ConfigError(
            "FILE", f"FILE must be a file that can be read: {path}: {error.strerror}."
        ) from None
    write = _as_json if options.json else _as_text
    print(write(findings, origin, limits(receipt)))
    if findings.wrong:
        places = ", ".join(figure.path for figure in findings.wrong)
        print(f"verify: figures that do not fit: {places}", file=sys.stderr)
    return WRONG if findings.wrong else 0


def _origin(receipt: Mapping[str, Any], key: str | None) -> dict[str, Any] | None:
    """Returns key and run of the signature, and whether it was checked."""
    if key is None:
        signature = signature_of(receipt)
    else:
        signature = check_signature(receipt, "--key", file_text("--key", key))
    if signature is None:
        return None
    return {
        "key": signature["key"],
        "run": signature["run"],
        "is_checked": key is not None,
    }


def _as_json(
    findings: Findings, origin: dict[str, Any] | None, limits: Sequence[str]
) -> str:
    answer = {
        "fits": not findings.wrong,
        "figures": [asdict(figure) for figure in findings.figures],
        "not_checked": findings.unchecked,
        "signature": origin,
        "limits": list(limits),
    }
    return json.dumps(answer, indent=1, ensure_ascii=False, allow_nan=False)


def _as_text(
    findings: Findings, origin: dict[str, Any] | None, limits: Sequence[str]
) -> str:
    rows = [COLUMNS, *(_row(figure) for figure in _shown(findings.figures))]
    widths = [max(len(row[i]) for row in rows) for i in range(len(COLUMNS))]
    table = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    fitting = len(findings.figures) - len(findings.wrong)
    return "\n".join(
        [
            *table,
            f"{fitting} of {len(findings.figures)} figures fit.",
            *_guarantee(findings.figures),
            *_signature(origin),
            "",
            "Not checked, because no other figure determines it:",
            *(f"  {place}: {why}" for place, why in findings.unchecked.items()),
            *limits,
        ]
    )


def _guarantee(figures: Sequence[Figure]) -> list[str]:
    """Returns a line with the stated ε and δ; [] if either is missing."""
    stated = {figure.path: figure.stated for figure in figures}
    epsilon = stated.get("epsilon")
    delta = stated.get("told.delta", stated.get("delta"))
    if epsilon is None or delta is None:
        return []
    return [f"Stated: ε = {round_up(epsilon, EPSILON_DIGITS)} at δ = {delta:g}."]


def _signature(origin: Mapping[str, Any] | None) -> list[str]:
    """Returns a line about the signature; [] without one."""
    if origin is None:
        return []
    if origin["is_checked"]:
        return [f"Signed with the key {origin['key']} for run {origin['run']}."]
    return [
        f"Signature by {origin['key']}: not checked. Pass the site's public keys, "
        "--key FILE."
    ]


def _shown(figures: Sequence[Figure]) -> list[Figure]:
    """Returns the figures; of a long ledger, its first lines and wrong figures."""
    first = tuple(f"done[{i}]" for i in range(MAX_LEDGER_LINES))

    def is_shown(figure: Figure) -> bool:
        of_later_line = "done[" in figure.path and not any(
            place in figure.path for place in first
        )
        return not (figure.fits and of_later_line)

    return [figure for figure in figures if is_shown(figure)]


def _row(figure: Figure) -> tuple[str, ...]:
    fits = "yes" if figure.fits else "NO"
    return figure.path, _short(figure.stated), _short(figure.recomputed), fits


def _short(value: Any) -> str:
    text = f"{value:.10g}" if isinstance(value, float) else str(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"

"""Receipts in files: as strict JSON, in a run's export or in a file of weights."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dpsgd_explorer.errors import ReceiptError

MIB = 2**20
#: Largest size of a file in bytes: a receipt with a million canaries takes 6 MiB.
MAX_BYTES = 64 * MIB
#: Largest whole number: no seed and no count is larger.
MAX_WHOLE = 2**64
#: Bytes at the start of a safetensors file that contain the length of its header.
LENGTH_BYTES = 8


def read_receipt(path: Path) -> dict[str, Any]:
    """Returns the receipt in a file, as JSON values.

    Only the text is read here; ``verify_receipt`` checks the names and the figures.

    Args:
        path: File of at most 64 MiB of JSON: a receipt, or the export of a run, which
            has a receipt in its last event.  If the name ends in ``.safetensors``, the
            file has weights, and the receipt is in its header.

    Raises:
        ReceiptError: The file does not contain a complete receipt, or is not strict
            JSON: duplicate names, NaN and infinity are errors.
        OSError: The file cannot be read.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> def read(text):
        ...     with tempfile.TemporaryDirectory() as folder:
        ...         path = Path(folder) / "receipt.json"
        ...         path.write_text(text)
        ...         return read_receipt(path)
        >>> read('{"version": 1, "epsilon": 0.9}')
        {'version': 1, 'epsilon': 0.9}
        >>> read('{"version": 1, "epsilon": NaN}')
        Traceback (most recent call last):
        ...
        dpsgd_explorer.errors.ReceiptError: file: must contain finite numbers, got NaN.
    """
    with path.open("rb") as file:
        start = file.read(LENGTH_BYTES)
        header = int.from_bytes(start, "little")
        if path.suffix == ".safetensors":
            return receipt_of_weights(file.read(min(header, MAX_BYTES + 1)), header)
        return receipt_of_json(start + file.read(MAX_BYTES + 1 - len(start)))


def receipt_of_weights(header: bytes, length: int) -> dict[str, Any]:
    """Returns the receipt in the header of a safetensors file.

    Args:
        header: Header of the file.
        length: Number of bytes that the header must have.

    Raises:
        ReceiptError: as ``read_receipt``.
    """
    if len(header) != length:
        raise ReceiptError(
            "file", f"the header must have {length} bytes; the file is cut short."
        )
    about = _object("header", _parsed(header)).get("__metadata__")
    text = _object("header.__metadata__", about).get("receipt")
    if not isinstance(text, str):
        raise ReceiptError("header", "the header does not contain a receipt.")
    return _receipt(_parsed(text.encode()))


def receipt_of_json(data: bytes) -> dict[str, Any]:
    """Returns the receipt in a JSON text: the whole text, or a part of a run's export.

    Raises:
        ReceiptError: as ``read_receipt``.
    """
    whole = _parsed(data)
    if isinstance(whole, dict) and isinstance(whole.get("events"), list):
        ends = [e for e in whole["events"] if isinstance(e, dict) and _is_end(e)]
        if not ends:
            raise ReceiptError(
                "events",
                "the export does not contain a receipt, because its run has not "
                "ended. Export the run again when it has ended.",
            )
        whole = ends[-1]["data"].get("receipt")
    return _receipt(whole)


def _is_end(event: Mapping[str, Any]) -> bool:
    return event.get("kind") == "end" and isinstance(event.get("data"), dict)


def _receipt(value: object) -> dict[str, Any]:
    if value is None:
        raise ReceiptError(
            "receipt", "is null: the run was not private, so it has no receipt."
        )
    return _object("receipt", value)


def _object(name: str, value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ReceiptError(name, f"must be an object, got {_short(value)}.")
    return value


def _parsed(data: bytes) -> Any:
    """Returns the value of a JSON text without duplicate names, NaN and infinity."""
    if len(data) > MAX_BYTES:
        raise ReceiptError("file", f"may have at most {MAX_BYTES // MIB} MiB.")
    if not data.strip():
        raise ReceiptError("file", "is empty.")
    try:
        return json.loads(
            data.decode("utf-8"),
            object_pairs_hook=_without_duplicates,
            parse_constant=_finite,
            parse_float=_finite,
            parse_int=_whole,
        )
    except json.JSONDecodeError as error:
        raise ReceiptError(
            "file", f"is not JSON, or is cut short: line {error.lineno}: {error.msg}."
        ) from None
    except UnicodeDecodeError:
        raise ReceiptError("file", "is not JSON: it is not UTF-8 text.") from None
    except RecursionError:
        raise ReceiptError("file", "is nested too deeply.") from None


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in pairs:
        if name in values:
            raise ReceiptError(name, "appears twice.")
        values[name] = value
    return values


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ReceiptError("file", f"must contain finite numbers, got {text[:20]}.")
    return number


def _whole(text: str) -> int:
    if len(text) > len(str(MAX_WHOLE)) or abs(int(text)) > MAX_WHOLE:
        raise ReceiptError("file", f"must contain smaller numbers, got {text[:20]}…")
    return int(text)


def _short(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:40]}…"

"""A trained model as files: weights, their receipt, and the state of a training."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dpsgd_explorer import extras
from dpsgd_explorer.atomic_file import write_whole


def save_weights(
    path: Path,
    weights: Mapping[str, Tensor],
    receipt: Mapping[str, Any] | None,
    about: Mapping[str, str],
) -> Path:
    """Write weights and receipt; return the path of the receipt.

    Args:
        path: Ends in ".safetensors"; the receipt has ".receipt.json" instead.
        weights: {name: tensor}, as in ``state_dict``.
        receipt: From the engine; null in the file if the run was not private.
        about: Texts for the header of the weights.
    """
    write_whole(path, weights_file(weights, receipt, about))
    receipt_path = path.with_suffix(".receipt.json")
    text = json.dumps(receipt, allow_nan=False, indent=2)
    write_whole(receipt_path, f"{text}\n".encode())
    return receipt_path


def weights_file(
    weights: Mapping[str, Tensor],
    receipt: Mapping[str, Any] | None,
    about: Mapping[str, str],
) -> bytes:
    """Return weights as a safetensors file whose header holds the receipt as JSON.

    Arguments are those of ``save_weights``.

    Raises:
        MissingPackageError: safetensors is not installed.
    """
    extras.require("Writing weights", "safetensors")
    from safetensors.torch import save

    contiguous = {name: tensor.contiguous() for name, tensor in weights.items()}
    header = dict(about) | {"receipt": json.dumps(receipt, allow_nan=False)}
    return save(contiguous, header)


def packed(state: Mapping[str, Any]) -> bytes:
    """Return a checkpoint that ``torch.load(..., weights_only=True)`` reads."""
    buffer = io.BytesIO()
    torch.save(state, buffer)
    return buffer.getvalue()


def unpacked(checkpoint: bytes) -> dict[str, Any]:
    """Return the state that ``packed`` wrote; it runs no code of the file."""
    state: dict[str, Any] = torch.load(io.BytesIO(checkpoint), weights_only=True)
    return state

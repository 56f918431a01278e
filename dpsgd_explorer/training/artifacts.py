"""The files of a trained model: weights with their receipt, and checkpoints."""

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
    """Writes weights and receipt.

    Args:
        path: Path of the weights, ending in ".safetensors".  The path of the receipt
            ends in ".receipt.json" instead.
        weights: {name: tensor}, as in ``state_dict``.
        receipt: Receipt of the run; None (null in the file) if it was not private.
        about: {name: text} for the header of the weights.

    Returns:
        Path of the receipt.
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
    """Returns weights as a safetensors file; its header contains the receipt as JSON.

    For the arguments see ``save_weights``.

    Raises:
        MissingPackageError: safetensors is not installed.
    """
    extras.require("Writing weights", "safetensors")
    from safetensors.torch import save

    contiguous = {name: tensor.contiguous() for name, tensor in weights.items()}
    header = dict(about) | {"receipt": json.dumps(receipt, allow_nan=False)}
    return save(contiguous, header)


def packed(state: Mapping[str, Any]) -> bytes:
    """Returns a checkpoint that ``torch.load(..., weights_only=True)`` can read."""
    buffer = io.BytesIO()
    torch.save(state, buffer)
    return buffer.getvalue()


def unpacked(checkpoint: bytes) -> dict[str, Any]:
    """Returns the state of a result of ``packed``; no code in the checkpoint runs.

    All tensors are on the CPU, from which a run on any device copies them.
    """
    state: dict[str, Any] = torch.load(
        io.BytesIO(checkpoint), map_location="cpu", weights_only=True
    )
    return state

"""How well a model predicts records that it did not learn from."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

BATCH = 500  # records predicted at a time: these fit in cache


@torch.no_grad()
def evaluate(model: nn.Module, inputs: Tensor, targets: Tensor) -> tuple[float, float]:
    """Return the share of right predictions and the mean cross-entropy.

    Shapes: inputs [N, ...], targets [N].
    """
    right, loss = 0, 0.0
    batches = zip(inputs.split(BATCH), targets.split(BATCH), strict=True)  # type: ignore[no-untyped-call]
    for batch, labels in batches:
        logits = model(batch)
        right += int((logits.argmax(dim=1) == labels).sum())
        loss += float(F.cross_entropy(logits, labels, reduction="sum"))
    return right / len(targets), loss / len(targets)

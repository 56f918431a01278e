"""The loss of a batch whose records have one label, or a label at each position."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from dpsgd_explorer.dp import per_sample_mean
from dpsgd_explorer.training.datasets.sentences import IGNORED


def batch_loss(scores: Tensor, targets: Tensor, divisor: float) -> tuple[Tensor, float]:
    """Returns the loss of a step, and the sum of the records' losses.

    Args:
        scores: Tensor (B, classes), or (B, classes, T) for texts.
        targets: Tensor (B,), or (B, T) with IGNORED behind the end of a text.
        divisor: Divisor of the sum of the records' losses.
    """
    if targets.dim() == 1:
        total = F.cross_entropy(scores, targets, reduction="sum")
        return total / divisor, total.item()
    mean, size = mean_of_texts(scores, targets), len(targets)
    # The safety check accepts a mean, and no factor that changes with the batch.
    is_mean = size in (0, divisor)
    return mean if is_mean else mean * (size / divisor), size * mean.item()


def mean_of_texts(scores: Tensor, targets: Tensor) -> Tensor:
    """Returns the mean over texts of each text's mean loss; see ``batch_loss``."""
    losses = F.cross_entropy(scores, targets, reduction="none", ignore_index=IGNORED)
    return per_sample_mean(losses, targets != IGNORED)

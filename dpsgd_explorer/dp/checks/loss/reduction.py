"""A reduction of token losses that keeps the samples of a batch apart."""

from __future__ import annotations

import torch
from torch import Tensor

from dpsgd_explorer.dp.checks.loss.marks import mark_mean
from dpsgd_explorer.errors import ConfigError


def per_sample_mean(losses: Tensor, mask: Tensor | None = None) -> Tensor:
    """Return the mean over samples of each sample's mean over its own tokens.

    sum_i (sum_t mask_it losses_it / sum_t mask_it) / B.  A mean over all tokens of the
    batch divides by the tokens of the other samples too, so no clipping bounds the
    influence of one sample on it; this one divides by B and by the sample's own count.
    A sample without tokens adds 0.

    Args:
        losses: [B] or [B, T, ...], as a loss with ``reduction="none"`` returns them.
        mask: Tokens that count, in the shape of the losses: bool, or weights >= 0.

    Raises:
        ConfigError: the shapes differ, or there is no dimension of samples.
    """
    if losses.dim() == 0:
        raise ConfigError(
            "losses",
            "losses must have one row for each sample, [B] or [B, T], got a single "
            'number. Compute them with reduction="none".',
        )
    if mask is not None and mask.shape != losses.shape:
        raise ConfigError(
            "mask",
            f"mask must have the shape of the losses, {list(losses.shape)}, got "
            f"{list(mask.shape)}.",
        )
    loss = _mean(losses, mask)
    mark_mean(loss, losses)
    return loss


def _mean(losses: Tensor, mask: Tensor | None) -> Tensor:
    weights = torch.ones_like(losses) if mask is None else mask.detach().to(losses)
    weights = weights.flatten(1) if losses.dim() > 1 else weights[:, None]
    total = weights.sum(1, keepdim=True)
    share = weights / torch.where(total > 0, total, 1) / max(len(losses), 1)
    # Not a product alone: 0 times a masked loss that is not finite would be NaN.
    counted = torch.where(share > 0, losses.reshape(share.shape), 0)
    return (counted * share).sum()

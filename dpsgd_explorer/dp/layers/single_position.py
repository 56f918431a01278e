"""Norms of gradients that are one outer product per sample, for many layers at once.

A linear layer on inputs without positions has g x^T as the gradient of its weight and g
as that of its bias: ||g x^T||^2 + ||g||^2.  Small layers cost more in calls than in
arithmetic, so the lengths of all of them are multiplied together.

Source: Goodfellow (2015), arXiv:1510.01799.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from dpsgd_explorer.dp.backends.native import single_position as compiled
from dpsgd_explorer.dp.backends.native.single_position import ROUNDINGS, SinglePosition
from dpsgd_explorer.dp.layers.round_off import AROUND, gamma, lengths_of

_OF_SQUARES = 1 + gamma(2 * ROUNDINGS + AROUND, torch.float32)


def squared_norms(
    calls: Sequence[SinglePosition], scale: float = 1.0
) -> Sequence[Tensor]:
    """Return ||s g x^T||^2 + ||s g||^2 of every call, L times [B], never too short.

    Args:
        calls: L calls of one kind.
        scale: s.
    """
    if all(map(compiled.serves, calls)):
        return compiled.squared_norms(calls, _OF_SQUARES * scale**2)
    count = len(calls)
    lengths = lengths_of([call[0] for call in calls] + [call[1] for call in calls])
    of_bias = lengths[count:]
    of_weight = lengths[:count].mul_(of_bias)
    # The bias adds a 1 to x: hypot cannot overflow.
    norms = torch.hypot(of_weight, of_bias, out=of_weight).square_()
    return (norms if scale == 1.0 else norms.mul_(scale**2)).unbind(0)

"""What a step says about the batch it drew: outside the guarantee, not private."""

from __future__ import annotations

import torch
from torch import Tensor

BINS = 40
DECADES = 2  # the histogram reaches from C / 100 to 100 C


def norm_edges(max_grad_norm: float) -> list[float]:
    """Return the edges of the bins for gradient norms, evenly spaced in the logarithm.

    They depend on C only, so that the histogram's axis stands still; C is the middle.
    """
    half = BINS // 2
    return [
        max_grad_norm * 10 ** (DECADES * (i - half) / half) for i in range(BINS + 1)
    ]


def norm_counts(norms: Tensor, edges: list[float]) -> list[int]:
    """Return how many norms lie in each bin; [B] and [n + 1] -> [n].

    A bin holds its upper edge but not its lower one, as a norm of C is not clipped.
    The outer bins also hold what lies beyond; a norm that is not finite is in none.
    """
    inner = torch.tensor(edges[1:-1], dtype=torch.float64)
    places = torch.bucketize(norms[norms.isfinite()].double(), inner)
    counts: list[int] = torch.bincount(places, minlength=len(edges) - 1).tolist()
    return counts

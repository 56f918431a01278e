"""Rounding bounds of sums, and vector norms that rounding never makes too small.

A computed sum of n products is wrong by at most gamma_n = n u / (1 - n u) times the sum
of the products' magnitudes, for any order of addition; u is half the spacing of numbers
at 1.  Therefore the computed norm of n entries is at least 1 - gamma_n / 2 times the
exact norm.  Entries are added in blocks, and blocks of blocks, to keep n small.

Products below the smallest normal number (1e-38 in float32) may count as 0, and so may
their sums.  A sum of n products loses at most 2 n times that number.
``underflow_bound`` returns this bound with an additional factor for sums of sums.  Its
root is added to a norm.

Source: N. J. Higham (2002), Accuracy and Stability of Numerical Algorithms, 2nd ed.,
sections 3.1 (inner products, gamma_n) and 4.2 (blocks).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import sqrt

import torch
from torch import Tensor

from dpsgd_explorer.dp.backends.precision import accumulation_dtype

#: Entries of a norm that are added in one block.
BLOCK_ENTRIES = 1024
#: Roundings counted for the operations before and after a sum: scales, roots, factors.
EXTRA_ROUNDINGS = 6


def gamma(terms: int, dtype: torch.dtype) -> float:
    """Returns n u / (1 - n u) for n roundings."""
    nu = terms * torch.finfo(dtype).eps / 2
    return nu / (1 - nu)


def underflow_bound(products: int, dtype: torch.dtype) -> float:
    """Returns the largest loss by underflow of a sum of sums of n products."""
    return 4 * products * torch.finfo(dtype).tiny


def vector_norms(values: Tensor) -> Tensor:
    """Returns norms over the last dimension, [..., P] -> [...], never too small."""
    norms, terms = _norms_and_terms(values)
    norms.mul_(1 + gamma(terms, norms.dtype) / 2)
    return norms.add_(sqrt(underflow_bound(values.shape[-1], norms.dtype)))


def row_norms(values: Sequence[Tensor]) -> Tensor:
    """Returns the norms, never too small, of the rows of n matrices: [n, B].

    Args:
        values: [B, P_1], ..., [B, P_n].
    """
    norms_and_terms = [_norms_and_terms(rows) for rows in values]
    norms = torch.stack([norms for norms, _ in norms_and_terms])
    terms = tuple([terms for _, terms in norms_and_terms])
    sizes = tuple([rows.shape[-1] for rows in values])
    factors, summands = _corrections(terms, sizes, norms.dtype, norms.device)
    return norms.mul_(factors).add_(summands)


@lru_cache(maxsize=64)
def _corrections(
    terms: tuple[int, ...],
    sizes: tuple[int, ...],
    dtype: torch.dtype,
    device: torch.device,
) -> tuple[Tensor, Tensor]:
    """Returns the factors and summands that make n norms upper bounds, [n, 1] each.

    Args:
        terms: Roundings of each norm.
        sizes: Entries of each vector.
        dtype: Dtype of the norms.
        device: Device of the norms.
    """
    factors = [1 + gamma(count, dtype) / 2 for count in terms]
    summands = [sqrt(underflow_bound(size, dtype)) for size in sizes]
    both = torch.tensor([factors, summands], dtype=dtype, device=device)
    return both[0].unsqueeze(1), both[1].unsqueeze(1)


def _norms_and_terms(values: Tensor) -> tuple[Tensor, int]:
    """Returns computed norms over the last dimension, and their number of roundings."""
    terms = 0
    while values.shape[-1] > BLOCK_ENTRIES:
        terms += BLOCK_ENTRIES + EXTRA_ROUNDINGS
        whole = values.shape[-1] // BLOCK_ENTRIES * BLOCK_ENTRIES
        blocks = values[..., :whole].unflatten(-1, (-1, BLOCK_ENTRIES))  # type: ignore[no-untyped-call]
        norms_of_blocks = _norms(blocks)
        rest = values[..., whole:]
        if rest.shape[-1]:
            last = _norms(rest).unsqueeze(-1)
            norms_of_blocks = torch.cat([norms_of_blocks, last], -1)
        values = norms_of_blocks
    terms += values.shape[-1] + EXTRA_ROUNDINGS
    return _norms(values), terms


def _norms(values: Tensor) -> Tensor:
    """Returns computed norms over the last dimension, in float32 at least."""
    dtype = accumulation_dtype(values.dtype)
    norms: Tensor = torch.linalg.vector_norm(values, dim=-1, dtype=dtype)
    return norms

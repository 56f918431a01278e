"""Rounding bounds of sums, and vector norms that rounding never makes too short.

A computed sum of n products is wrong by at most gamma_n = n u / (1 - n u) times the sum
of the products' magnitudes, in any order of addition, with u half the spacing of
numbers at 1.  So a computed norm of n entries is short by a factor of 1 - gamma_n / 2
at most.  Entries are added in blocks, and blocks of blocks, so that n stays small.

Products below the least normal number (1e-38) may count as 0, and so may their sums: of
n products at most 2 n times that number is missing.  ``underflow_bound`` returns that
bound with a factor for blocks of sums; its root is added to a norm.

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

#: Entries per block of a sum in a norm.
LENGTH_BLOCK = 1024
#: Operations before and after a sum: scales, roots, factors.
AROUND = 6


def gamma(terms: int, dtype: torch.dtype) -> float:
    """Return n u / (1 - n u) for n roundings."""
    nu = terms * torch.finfo(dtype).eps / 2
    return nu / (1 - nu)


def underflow_bound(products: int, dtype: torch.dtype) -> float:
    """Return the most that underflow takes off a sum of sums of n products."""
    return 4 * products * torch.finfo(dtype).tiny


def lengths(values: Tensor) -> Tensor:
    """Return norms over the last dimension, [..., P] -> [...], never too short."""
    norms, terms = _norms_and_terms(values)
    norms.mul_(1 + gamma(terms, norms.dtype) / 2)
    return norms.add_(sqrt(underflow_bound(values.shape[-1], norms.dtype)))


def lengths_of(values: Sequence[Tensor]) -> Tensor:
    """Return norms over the last dimensions of [B, P_1], [B, P_2], ...: [n, B]."""
    measured = [_norms_and_terms(each) for each in values]
    norms = torch.stack([each for each, _ in measured])
    terms = tuple([each for _, each in measured])
    sizes = tuple([each.shape[-1] for each in values])
    factors, added = _lengthening(terms, sizes, norms.dtype, norms.device)
    return norms.mul_(factors).add_(added)


@lru_cache(maxsize=64)
def _lengthening(
    terms: tuple[int, ...],
    sizes: tuple[int, ...],
    dtype: torch.dtype,
    device: torch.device,
) -> tuple[Tensor, Tensor]:
    """Return what computed norms are multiplied by, and what is added, [n, 1] each.

    Args:
        terms: Roundings of each norm.
        sizes: Entries of each vector.
        dtype: That of the norms.
        device: That of the norms.
    """
    factors = [1 + gamma(each, dtype) / 2 for each in terms]
    added = [sqrt(underflow_bound(size, dtype)) for size in sizes]
    both = torch.tensor([factors, added], dtype=dtype, device=device)
    return both[0].unsqueeze(1), both[1].unsqueeze(1)


def _norms_and_terms(values: Tensor) -> tuple[Tensor, int]:
    """Return norms over the last dimension as computed, and their roundings."""
    terms = 0
    while values.shape[-1] > LENGTH_BLOCK:
        terms += LENGTH_BLOCK + AROUND
        whole = values.shape[-1] // LENGTH_BLOCK * LENGTH_BLOCK
        blocks = values[..., :whole].unflatten(-1, (-1, LENGTH_BLOCK))  # type: ignore[no-untyped-call]
        norms_of_blocks = _norms(blocks)
        rest = values[..., whole:]
        if rest.shape[-1]:
            last = _norms(rest).unsqueeze(-1)
            norms_of_blocks = torch.cat([norms_of_blocks, last], -1)
        values = norms_of_blocks
    terms += values.shape[-1] + AROUND
    return _norms(values), terms


def _norms(values: Tensor) -> Tensor:
    """Return norms over the last dimension, in float32 at least."""
    dtype = accumulation_dtype(values.dtype)
    norms: Tensor = torch.linalg.vector_norm(values, dim=-1, dtype=dtype)
    return norms

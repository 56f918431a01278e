"""Gradients as sums of outer products, and the inner products between two of them.

A weight with several calls has as its gradient the sum over its calls, and the norm of
a sum is not the sum of the norms.  With a call's gradient sum_t l_t r_t^T, the cross
term of two calls u and v needs no gradient:
<sum_s l_s r_s^T, sum_t l'_t r'_t^T> = sum_st (l_s.l'_t)(r_s.r'_t).

Source: derived here; with u = v it is the ghost norm of Li et al. (2022),
arXiv:2110.05679, section 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from dpsgd_explorer.dp.backends.rounding import vector_norms
from dpsgd_explorer.dp.layers.round_off import (
    Gram,
    Inner,
    Lengths,
    gram,
    inner_products,
    upper_squares,
)


@dataclass(frozen=True)
class OuterProduct:
    """The gradients sum_t left_t right_t^T of B samples, [p, d] each.

    Attributes:
        left: [B, T, p]; or ids [B, T] in place of one-hot rows.
        right: [B, T, d].
        start: Row of the parameter that the first column of ``left`` belongs to.
    """

    left: Tensor
    right: Tensor
    start: int = 0

    @property
    def positions(self) -> int:
        """Number of positions, T."""
        return self.right.shape[1]

    def rows_added_to(self, gradients: Tensor) -> Tensor:
        """Returns the sum with other gradients of the parameter, in new memory.

        Only the rows whose ids are in ``left`` change.

        Args:
            gradients: [B, V, d].
        """
        batch, rows, width = gradients.shape
        samples = torch.arange(batch, device=self.left.device)
        index = (samples.unsqueeze(1) * rows + self.left).flatten()
        before = gradients.reshape(batch * rows, width)
        added = self.right.flatten(0, 1).to(before.dtype)
        return before.index_add(0, index, added).view(gradients.shape)


def squared_norms_of_sum(uses: Sequence[OuterProduct]) -> Tensor:
    """Returns the squared norms [B] of the sum of one parameter's calls.

    As in ``gram_norms``, they are never below the squared norm of the sample's
    contribution to the sum.
    """
    lengths_of = [_lengths(use) for use in uses]
    value = error = uses[0].right.new_zeros(len(uses[0].right))
    for i, use in enumerate(uses):
        for j, other in enumerate(uses[: i + 1]):
            grams = gram(use.right, other.right), _left_gram(use, other)
            products = inner_products(
                *grams, lengths_of[i], lengths_of[j], doubled=j < i
            )
            value, error = value + products.value, error + products.error
    largest = torch.stack(
        [factor_lengths.of_products() for factor_lengths in lengths_of]
    ).sum(0)
    positions = sum(use.positions for use in uses)
    return upper_squares(Inner(value, error), largest, positions + len(uses))


def _left_gram(a: OuterProduct, b: OuterProduct) -> Gram:
    """Returns l_s.l'_t for all positions s of ``a`` and t of ``b``, [B, S, T]."""
    if a.left.dim() == 2 and b.left.dim() == 2:
        same = torch.eq(a.left.unsqueeze(2), b.left.unsqueeze(1))
        return Gram(same.to(a.right.dtype), 0, 0)
    if b.left.dim() == 2:
        return Gram(_picked(b.left, a).transpose(1, 2), 0, 0)
    if a.left.dim() == 2:
        return Gram(_picked(a.left, b), 0, 0)
    start = max(a.start, b.start)
    stop = min(a.start + a.left.shape[2], b.start + b.left.shape[2])
    left = a.left[..., start - a.start : max(start, stop) - a.start]
    right = b.left[..., start - b.start : max(start, stop) - b.start]
    return gram(left, right)


def _picked(ids: Tensor, other: OuterProduct) -> Tensor:
    """Returns l'_t[id_s], [B, S, T]; 0 if ``other`` has no row id_s."""
    rows = other.left.shape[2]
    index = ids - other.start
    inside = (index >= 0) & (index < rows)
    index = index.clamp(0, rows - 1).unsqueeze(2).expand(-1, -1, other.positions)
    picked: Tensor = other.left.transpose(1, 2).gather(1, index)
    return picked * inside.unsqueeze(2)


def _lengths(use: OuterProduct) -> Lengths:
    right = vector_norms(use.right)
    if use.left.dim() == 2:
        return Lengths(right, torch.ones_like(right))
    return Lengths(right, vector_norms(use.left))

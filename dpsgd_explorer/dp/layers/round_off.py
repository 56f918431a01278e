"""Ghost norms that rounding never makes too short, by error bounds.

``backends.rounding`` defines gamma_n, the relative error of a sum of n products, and
the norms of vectors.  The bounds here depend on shapes alone, except for the magnitudes
in the bounds themselves.

*Ghost norms.*  N^2 = ||sum_t g_t x_t^T||^2 = sum_st K_st R_st with K_st = x_s.x_t and
R_st = g_s.g_t.  The terms may cancel, but their errors do not:

    |error| <= gamma sum_st |x_s| |x_t| |R_st| + gamma' sum_st |g_s| |g_t| |K_st|

where gamma covers the additions in an entry of K and the additions over s and t, and
gamma' covers the additions in an entry of R.  The bound is added to the computed norm.
For few positions the two sums of the bound cost too much.  L^2 replaces both, which is
an upper bound of each, with L = sum_t |x_t| |g_t|.

*The sum.*  A gradient that is not instantiated is added to the clipped sum position by
position, which may increase its norm by at most gamma_T L.  This term is added to the
norm.  An instantiated gradient is added directly, so its norm is the norm of the
contribution.

*Underflow.*  Products below the least normal number may count as 0.  Therefore an
entry of K is wrong by at most e = ``underflow_bound(d)`` and an entry of R by at most
e' = ``underflow_bound(p)``, so that sum_st K_st R_st is wrong by at most
e' (sum_t |x_t|)^2 + e (sum_t |g_t|)^2 and the underflow of the T^2 products.

Source: derived here, from N. J. Higham (2002), Accuracy and Stability of Numerical
Algorithms, 2nd ed., section 3.1 (inner products, gamma_n).
"""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

import torch
from torch import Tensor

from dpsgd_explorer.dp.backends.rounding import EXTRA_ROUNDINGS, gamma, underflow_bound

#: Entries per block of a sum in a Gram matrix.
GRAM_BLOCK_ENTRIES = 256
#: Maximum relative lengthening of an ordinary sample's norm by the error bounds.
MAX_INFLATION = 1e-4
#: Factor of the bounds that covers second-order terms: products gamma_n gamma_m, and
#: rounding in the bounds themselves.
SECOND_ORDER_FACTOR = 1.02


def sum_over_positions(values: Tensor) -> Tensor:
    """Sums [B, p, ...] to [B, p], for a norm and for the sum alike."""
    return values if values.dim() == 2 else values.flatten(2).sum(2)


class Gram(NamedTuple):
    """Inner products of the positions of every sample.

    Attributes:
        values: [B, S, T].
        terms: Number of roundings of each entry.
        products: Number of products in each entry; 0 if underflow cannot occur.
    """

    values: Tensor
    terms: int
    products: int

    def plus(self, other: Gram) -> Gram:
        """Returns the products of the joined vectors."""
        values = self.values + other.values
        products = self.products + other.products
        return Gram(values, max(self.terms, other.terms) + 1, products)

    def plus_one(self) -> Gram:
        """Returns the products of vectors with another entry of 1, a bias; in place."""
        return Gram(self.values.add_(1.0), self.terms + 1, self.products)

    @property
    def underflow(self) -> float:
        """Upper bound of the underflow in an entry."""
        return underflow_bound(self.products, self.values.dtype)

    def position_norms(self) -> Tensor:
        """Returns the norm of each position's vector, [B, T]; S = T is required."""
        return self.squared_position_norms().sqrt().add_(sqrt(self.underflow))

    def squared_position_norms(self) -> Tensor:
        """Returns the squared norm of each position's vector, [B, T], if S = T."""
        return self.values.diagonal(dim1=-2, dim2=-1)


def gram(values: Tensor, other: Tensor | None = None) -> Gram:
    """Returns the products of [B, S, d] with [B, T, d], or with itself, in blocks."""
    others = values if other is None else other
    if values.shape[2] <= GRAM_BLOCK_ENTRIES:
        size = values.shape[2]
        return Gram(torch.bmm(values, others.transpose(1, 2)), size, size)
    total: Tensor = values.new_zeros(())
    parts = [torch.split(side, GRAM_BLOCK_ENTRIES, 2) for side in (values, others)]
    for left, right in zip(*parts, strict=True):
        total = torch.bmm(left, right.transpose(1, 2)).add_(total)
    size = values.shape[2]
    return Gram(total, GRAM_BLOCK_ENTRIES + size // GRAM_BLOCK_ENTRIES + 1, size)


class Lengths(NamedTuple):
    """Norms of the two factors of each position's outer product, [B, T] each."""

    inputs: Tensor
    outputs: Tensor

    def of_products(self) -> Tensor:
        """Returns sum_t ||x_t|| ||g_t||, [B]."""
        return (self.inputs * self.outputs).sum(-1)


class Inner(NamedTuple):
    """Inner products of gradients, and the bound on their rounding error, [B]."""

    value: Tensor
    error: Tensor


def inner_products(
    inputs: Gram,
    outputs: Gram,
    first: Lengths,
    second: Lengths,
    *,
    doubled: bool = False,
) -> Inner:
    """Returns sum_st K_st R_st of two calls; doubled for a pair of different calls.

    Args:
        inputs: Gram matrix of the inputs, K.
        outputs: Gram matrix of the backprops, R.
        first: Norms of the first call's vectors.
        second: Norms of the second call's vectors.
        doubled: If True, value and error are multiplied by 2.
    """
    k, r = inputs.values, outputs.values
    value = (k * r).sum(-1).sum(-1)
    additions = sum(k.shape[1:]) + EXTRA_ROUNDINGS
    of_inputs = gamma(inputs.terms, k.dtype) + gamma(additions, k.dtype)
    of_outputs = gamma(outputs.terms, k.dtype)
    error = of_inputs * _quadratic(first.inputs, r, second.inputs)
    error += of_outputs * _quadratic(first.outputs, k, second.outputs)
    error += _underflow(inputs, outputs, first, second)
    return Inner(value.mul_(2), error.mul_(2)) if doubled else Inner(value, error)


def gram_norms(inputs: Gram, outputs: Gram) -> Tensor:
    """Returns ||sum_t g_t x_t^T||^2, [B], of the Gram matrices of x and of g.

    They are never below the squared norm of the sample's contribution to the sum.
    """
    positions = inputs.values.shape[1]
    factor_lengths = Lengths(inputs.position_norms(), outputs.position_norms())
    if _is_short(positions, inputs.terms + outputs.terms):
        squares = inputs.squared_position_norms() * outputs.squared_position_norms()
        largest = squares.sqrt_().sum(-1)
        value = (inputs.values * outputs.values).sum((-2, -1))
        terms = inputs.terms + outputs.terms + positions**2 + EXTRA_ROUNDINGS
        error = largest.square().mul_(gamma(terms, value.dtype))
        error += _underflow(inputs, outputs, factor_lengths, factor_lengths)
        return upper_squares(Inner(value, error), largest, positions)
    products = inner_products(inputs, outputs, factor_lengths, factor_lengths)
    return upper_squares(products, factor_lengths.of_products(), positions)


def _underflow(inputs: Gram, outputs: Gram, first: Lengths, second: Lengths) -> Tensor:
    """Returns upper bounds of the underflow in sum_st K_st R_st of two calls, [B].

    The underflow in the bound of the clipped sum is smaller.
    """
    of_inputs = first.inputs.sum(-1).mul_(outputs.underflow) * second.inputs.sum(-1)
    of_outputs = first.outputs.sum(-1).mul_(inputs.underflow) * second.outputs.sum(-1)
    pairs = inputs.values.shape[1] * inputs.values.shape[2]
    of_pairs = (
        underflow_bound(pairs, inputs.values.dtype)
        + pairs * inputs.underflow * outputs.underflow
    )
    return of_inputs.add_(of_outputs).add_(of_pairs)


def upper_squares(squares: Inner, largest: Tensor, positions: int) -> Tensor:
    """Returns upper bounds of squared norms, with all rounding errors, [B].

    Args:
        squares: Squared norms of the gradients.
        largest: L, [B].
        positions: T, the number of terms per sample in the clipped sum.
    """
    norms = (
        squares.error.mul(SECOND_ORDER_FACTOR)
        .add_(squares.value)
        .clamp_(min=0.0)
        .sqrt_()
    )
    of_sum = SECOND_ORDER_FACTOR * gamma(positions + EXTRA_ROUNDINGS, norms.dtype)
    return norms.add_(largest, alpha=of_sum).square_()


def upper_norms(norms: Tensor, added: Tensor, positions: int) -> Tensor:
    """Returns upper bounds of norms of sums over positions, with all rounding errors.

    Both these norms and the clipped sum add vectors over the positions, hence the 2.

    Args:
        norms: Computed norms of the sums.
        added: Sums of the vectors' norms.
        positions: Largest number of terms.
    """
    alpha = 2 * SECOND_ORDER_FACTOR * gamma(positions + EXTRA_ROUNDINGS, norms.dtype)
    return norms.add(added, alpha=alpha)


def inflation(positions: int, inputs: int, outputs: int) -> float:
    """Returns the relative lengthening of a ghost norm by float32's error bounds.

    The estimate assumes independent normal entries, for which |K_st| is about
    0.8 sqrt(d) for s != t, and norms are about sqrt(d).
    """
    if positions == 1:
        return 0.0
    unit, t = torch.finfo(torch.float32).eps / 2, positions
    terms = _gram_terms(inputs), _gram_terms(outputs)
    if _is_short(t, sum(terms)):
        return unit * (t * (sum(terms) + t * t) / 2 + t * sqrt(t))
    of_inputs = (terms[0] + 2 * t) * (1 + 0.8 * t / sqrt(outputs))
    of_outputs = terms[1] * (1 + 0.8 * t / sqrt(inputs))
    return unit * ((of_inputs + of_outputs) / 2 + t * sqrt(t))


def _is_short(positions: int, terms: int) -> bool:
    """Returns True if the bound by L^2 is below MAX_INFLATION.

    For ordinary samples L^2 is T N^2.
    """
    unit = torch.finfo(torch.float32).eps / 2
    return unit * positions * (terms + positions**2) < MAX_INFLATION


def _gram_terms(entries: int) -> int:
    return min(entries, GRAM_BLOCK_ENTRIES) + entries // GRAM_BLOCK_ENTRIES


def _quadratic(left: Tensor, matrix: Tensor, right: Tensor) -> Tensor:
    """Returns sum_st left_s |matrix_st| right_t, [B]."""
    weighted = torch.bmm(matrix.abs(), right.unsqueeze(2)).squeeze(2)
    return weighted.mul_(left).sum(-1)

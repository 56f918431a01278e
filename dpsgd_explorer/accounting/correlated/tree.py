"""Tree aggregation, the noise of DP-FTRL: noisy sums of steps in a binary tree.

Leaf t is the gradient of step t.  A node is the sum of the gradients of 2ˡ steps below
it, plus a normal of its own.  The tree has the nodes that are complete within T steps.
Each node is a row of the strategy matrix C, with a 1 for each of its steps, and the
released sums of gradients are linear functions of Cg + z.

The strategy is the classical baseline of correlated noise.  The engine does not train
with it.

Source: Kairouz et al. (2021), arXiv:2103.00039 (DP-FTRL); Honaker (2015), *Efficient
Use of Differentially Private Binary Trees* (the estimators); Denisov et al. (2022),
arXiv:2202.08312 (the full estimator in a run).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dpsgd_explorer.accounting.core import validation
from dpsgd_explorer.accounting.core.phase import MAX_SLOTS
from dpsgd_explorer.accounting.correlated.strategy import Floats, Strategy

ESTIMATORS = ("plain", "online", "full")


@dataclass(frozen=True)
class TreeStrategy(Strategy):
    """One binary tree over all steps of a run, without restarts.

    A sum of gradients is estimated from the noisy nodes:

    - ``"plain"``: the sum of at most one node for each size, as in DP-FTRL.
    - ``"online"``: the same nodes, each combined with all nodes below it: Honaker's
      estimate from below.
    - ``"full"``: least squares over all nodes, later ones too: the pseudo-inverse of C.
      Its noise is that of L⁻¹z, where L is lower triangular with LᵀL = CᵀC and has the
      sensitivity of C.  So a run can add it step by step.

    >>> TreeStrategy(4, "plain").prefix_errors(sensitivity=1).round(3).tolist()
    [1.0, 1.0, 1.414, 1.0]
    >>> tree = TreeStrategy(300)
    >>> round(tree.rmse() / TreeStrategy(300, "plain").rmse(), 3)
    0.535

    A run with fixed slots costs one Gaussian mechanism.  Its σ is the noise of a node
    over the clipping bound and ``fixed_slots_sensitivity``.

    Attributes:
        steps: Number of steps T.
        estimator: ``"plain"``, ``"online"`` or ``"full"``.
    """

    steps: int
    estimator: str = "full"

    def __post_init__(self) -> None:
        """Checks the attributes.

        Raises:
            AccountingError: an attribute is outside its domain.
        """
        object.__setattr__(self, "steps", validation.steps(self.steps, least=1))
        validation.one_of("estimator", self.estimator, ESTIMATORS)

    @property
    def column_norm(self) -> float:
        """Norm of the largest column: the sensitivity to one use of a record.

        The first step is in a node of each size: its norm is √⌈log₂(T + 1)⌉.
        """
        return float(np.sqrt(self.steps.bit_length()))

    def fixed_slots_sensitivity(self, slots: int) -> float:
        """Returns the exact sensitivity to a record used in every ``slots``-th step.

        It is the largest norm of the sum of its columns, over all slots.  The first
        slot is not always the worst one.

        >>> tree = TreeStrategy(8)
        >>> tree.fixed_slots_sensitivity(slots=8)  # √4: one use, in four nodes
        2.0
        >>> tree.fixed_slots_sensitivity(slots=1)  # √(8·1² + 4·2² + 2·4² + 8²)
        10.954451150103322

        Args:
            slots: Number of steps b between two uses of a record.

        Raises:
            AccountingError: slots is not an integer in its domain.
        """
        period = validation.whole("slots", slots, 1, MAX_SLOTS)
        slot = np.arange(min(period, self.steps))
        squares = np.zeros(len(slot), dtype=np.int64)
        for size in self._sizes():
            complete = self.steps // size
            if size <= period:  # no node has two uses
                squares += (complete * size - slot + period - 1) // period
                continue
            ends = np.arange(complete + 1)[:, None] * size
            uses = np.diff((ends - slot + period - 1) // period, axis=0)
            squares += (uses**2).sum(axis=0)
        return float(np.sqrt(squares.max()))

    def _variances(self, weights: Floats) -> Floats:
        variances = {"plain": self._plain, "online": self._online, "full": self._full}
        return variances[self.estimator](weights)

    def _sizes(self) -> Iterator[int]:
        """Yields the numbers of steps below a node, from leaves to the root."""
        return (1 << level for level in range(self.steps.bit_length()))

    def _plain(self, weights: Floats) -> Floats:
        variances = np.zeros(self.steps)
        for size in self._sizes():
            variances += _summed(_used(weights, size) ** 2, 2 * size)
        return variances

    def _online(self, weights: Floats) -> Floats:
        """Returns variances (T,) with the best estimate of each node from below.

        The best estimate of a node over m steps has the variance m / (2m − 1).  Its
        covariance with the estimate of a node over k of these steps is k / (2m − 1),
        because the vector of ones is an eigenvector of the normal equations.
        """
        variances = np.zeros(self.steps)
        below: list[tuple[int, Floats]] = []  # smaller nodes, summed over their starts
        for size in self._sizes():
            used = _used(weights, size)
            estimated = size * used
            for smaller, summed in below:
                estimated += 2 * smaller * (summed - _delayed(summed, size))
            variances += _summed(used * estimated / (2 * size - 1), 2 * size)
            below.append((size, _summed(used, 2 * size)))
        return variances

    def _full(self, weights: Floats) -> Floats:
        """Returns variances (T,) of least squares, in the Haar basis.

        CᵀC is diagonal in this basis: the difference of the halves of a node over m
        steps has the eigenvalue m − 1, and the sum of a root over m steps has 2m − 1.
        """
        variances = np.zeros(self.steps)
        sums = np.cumsum(weights)
        for size in self._sizes():
            whole = sums - _delayed(sums, size)
            start = self.steps // (2 * size) * (2 * size)
            if self.steps & size:  # a root: no node is above it
                variances += _delayed(whole**2 / (size * (2 * size - 1)), start)
            if size > 1:
                first_half = sums - _delayed(sums, size // 2)
                halves = whole - 2 * _delayed(first_half, size // 2)
                square = halves**2 / (size * (size - 1))
                start = self.steps // size * size
                variances += _summed(square, size) - _delayed(square, start)
        return variances


def _used(weights: Floats, size: int) -> Floats:
    """Returns the weights (T,) of a node's noise in sums, from its first step on.

    Sums of whole prefixes use the node once it is complete, until a larger one is.
    """
    until = _delayed(weights, 2 * size - 1)
    return np.asarray(_delayed(weights, size - 1) - until)


def _delayed(values: Floats, steps: int) -> Floats:
    """Returns values (T,) moved to later steps."""
    moved = np.zeros(len(values))
    moved[steps:] = values[: max(len(values) - steps, 0)]
    return moved


def _summed(values: Floats, period: int) -> Floats:
    """Returns the sum (T,) of values that begin at each multiple of period."""
    count = -(-len(values) // period)
    padded = np.zeros(count * period)
    padded[: len(values)] = values
    return padded.reshape(count, period).cumsum(axis=0).ravel()[: len(values)]

"""The error of released sums under any strategy of correlated noise."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from dpsgd_explorer.accounting.core import validation

Floats = np.ndarray


class Strategy(ABC):
    """A strategy matrix C of correlated noise for a number of steps."""

    steps: int

    @property
    @abstractmethod
    def column_norm(self) -> float:
        """Norm of the largest column: the sensitivity to one use of a record."""

    @abstractmethod
    def fixed_slots_sensitivity(self, slots: int) -> float:
        """Returns the sensitivity to a record used in every ``slots``-th step."""

    @abstractmethod
    def _variances(self, weights: Floats) -> Floats:
        """Returns the variance (T,) of each released sum, with sensitivity 1."""

    def prefix_errors(
        self, workload: Floats | None = None, sensitivity: float | None = None
    ) -> Floats:
        """Returns the standard deviation (T,) of each released sum.

        The noise multiplier and the clipping bound are 1.

        Args:
            workload: Weights (T,) of a gradient in later sums, from the latest step
                to the earliest; all 1 if None.  See ``momentum_workload``.
            sensitivity: Sensitivity s of C, greater than 0; ``column_norm`` if None.

        Raises:
            AccountingError: workload is not one finite weight for each step, or
                sensitivity is no number greater than 0.
        """
        size = self.column_norm
        if sensitivity is not None:
            size = validation.finite("sensitivity", sensitivity)
            if size <= 0:
                validation.refuse("sensitivity", "greater than 0", sensitivity)
        variances = self._variances(checked_workload(workload, self.steps))
        return np.asarray(size * np.sqrt(variances))

    def rmse(
        self, workload: Floats | None = None, sensitivity: float | None = None
    ) -> float:
        """Returns the root of the mean of the squared ``prefix_errors``."""
        errors = self.prefix_errors(workload, sensitivity)
        return float(np.sqrt(np.mean(errors**2)))


def checked_workload(workload: object, steps: int) -> Floats:
    """Returns the weights (T,) of a workload, all 1 if it is None.

    Raises:
        AccountingError: it is not one finite weight for each step.
    """
    if workload is None:
        return np.ones(steps)
    weights = validation.numbers("workload", workload)
    if weights.shape != (steps,) or not np.isfinite(weights).all():
        validation.refuse("workload", f"{steps} finite weights", workload)
    return weights

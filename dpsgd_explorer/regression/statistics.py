"""The sufficient statistics of least squares, and errors that follow from them.

With theta* the least-squares solution, n MSE(theta) = n MSE(theta*) +
(theta - theta*)' X'X (theta - theta*): one small product for any number of thetas, and
no difference of large numbers that would lose digits.

None of this is private: the private methods are compared with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpsgd_explorer.regression.checks import Array


@dataclass(frozen=True, eq=False)
class Statistics:
    """X'X, X'y and other statistics of a table for least squares.

    Shapes: xtx [d, d], xty [d], theta [d].

    Attributes:
        n: Number of rows.
        xtx: X'X.
        xty: X'y.
        theta: The least-squares solution, of least norm if there are several.
        rank: Rank of X; below d there are several solutions.
        mse: Mean squared error of theta.
        trivial_mse: Mean squared error of predicting the mean label.
    """

    n: int
    xtx: Array
    xty: Array
    theta: Array
    rank: int
    mse: float
    trivial_mse: float

    @classmethod
    def of(cls, x: Array, y: Array) -> Statistics:
        """Returns the statistics of a table.

        Shapes: x [n, d], y [n].
        """
        xtx, xty = x.T @ x, x.T @ y
        theta, _, rank, _ = np.linalg.lstsq(xtx, xty, rcond=None)
        return cls(
            n=len(x),
            xtx=xtx,
            xty=xty,
            theta=np.asarray(theta, dtype=np.float64),
            rank=int(rank),
            mse=float(np.mean((y - x @ theta) ** 2)),
            trivial_mse=float(np.var(y)),
        )

    @property
    def dim(self) -> int:
        """Number of columns, d."""
        return len(self.xty)

    @cached_property
    def eigenvalues(self) -> Array:
        """Eigenvalues of X'X, ascending, [d]."""
        return np.asarray(np.linalg.eigvalsh(self.xtx), dtype=np.float64)

    @property
    def lambda_min(self) -> float:
        """Least eigenvalue of X'X, never below 0."""
        return max(0.0, float(self.eigenvalues[0]))

    @property
    def lambda_max(self) -> float:
        """Largest eigenvalue of X'X."""
        return float(self.eigenvalues[-1])

    def mse_of(self, theta: Array) -> Array:
        """Returns the mean squared error of each theta; infinite where it diverged.

        Shapes: theta [..., d] -> [...].
        """
        away = theta - self.theta
        with np.errstate(over="ignore", invalid="ignore"):
            excess = ((away @ self.xtx) * away).sum(axis=-1) / self.n
        return np.where(np.isfinite(excess), self.mse + excess, np.inf)

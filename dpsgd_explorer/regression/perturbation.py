"""Least squares from noisy statistics: SSP, and AdaSSP with a ridge that adapts.

Both release X'X + E and X'y + e with Gaussian noise and solve

    theta = (X'X + E + lambda I)^-1 (X'y + e).

SSP has a fixed ridge lambda.  AdaSSP sets lambda to about the size of the noise of X'X.
Two variants spend the budget (epsilon, delta) in different shares.  With s the noise
std of X'X:

| variant    | noise of X'X       | released          | ridge                      |
|------------|--------------------|-------------------|----------------------------|
| "notebook" | s in each entry    | X'X, X'y; AdaSSP: | max(0, c sqrt(d) s - low), |
|            |                    | l_min too, at s3  | low = max(0, l_min - c s3) |
| "tight"    | s on the diagonal, | X'X, X'y          | c sqrt(d) s / sqrt(2)      |
|            | s / sqrt(2) off it |                   |                            |

An entry off the diagonal appears twice in the Frobenius norm, so s / sqrt(2) is enough
there.  The least eigenvalue is useful only where it exceeds its noise; "tight" spends
its budget on the other two.  c = 1.96 is a choice, not a confidence bound.

Source: Wang (2018), arXiv:1803.02596, on SSP and AdaSSP; noise of a symmetric matrix
after Dwork, Talwar, Thakurta and Zhang (2014), "Analyze Gauss".
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dpsgd_explorer.errors import DivergedError
from dpsgd_explorer.regression import checks
from dpsgd_explorer.regression.bounds import Bounds
from dpsgd_explorer.regression.budget import Budget, Part, split
from dpsgd_explorer.regression.checks import Array
from dpsgd_explorer.regression.statistics import Statistics
from dpsgd_explorer.validation import one_of

METHODS = ("ssp", "adassp")
#: Noise multiplier of each released quantity, relative to the others.
RATIOS = {"xtx": 2.0, "xty": 3.0, "lambda_min": 5.0}
#: Default of c.
RIDGE_FACTOR = 1.96
LABELS = {"xtx": "XᵀX", "xty": "Xᵀy", "lambda_min": "λ_min"}


@dataclass(frozen=True, kw_only=True)
class Perturbation:
    """Settings of a method, without data and random generator.

    Attributes:
        method: "ssp" or "adassp".
        bounds: Public bounds of the records.
        variant: "tight" or "notebook": equal privacy, see the module's table.
        ridge: lambda of SSP, in the units of X'X, at least 0.
        ridge_factor: c of AdaSSP, at least 0.

    Raises:
        ConfigError: an argument is outside its domain.
    """

    method: str
    bounds: Bounds
    variant: str = "tight"
    ridge: float = 0.0
    ridge_factor: float = RIDGE_FACTOR

    def __post_init__(self) -> None:
        one_of("method", self.method, METHODS)
        one_of("variant", self.variant, checks.VARIANTS)
        for name in ("ridge", "ridge_factor"):
            value = checks.at_least_zero(name, getattr(self, name))
            object.__setattr__(self, name, value)

    @property
    def releases_lambda_min(self) -> bool:
        """If True, the least eigenvalue is released too."""
        return self.method == "adassp" and self.variant == "notebook"

    def budget(self, epsilon: float, delta: float) -> Budget:
        """Returns the budget, split over the releases.

        Raises:
            AccountingError: epsilon or delta is outside its domain.
        """
        sensitivities = {
            "xtx": self.bounds.xtx_sensitivity,
            "xty": self.bounds.xty_sensitivity,
            "lambda_min": self.bounds.lambda_min_sensitivity,
        }
        if not self.releases_lambda_min:
            del sensitivities["lambda_min"]
        parts = [Part(name, s, RATIOS[name]) for name, s in sensitivities.items()]
        return split(epsilon, delta, parts)

    def release(
        self, statistics: Statistics, budget: Budget, rng: Any, repetitions: int = 1
    ) -> Array:
        """Returns independent releases; each of them spends the budget.

        Shapes: -> [R, d].

        Args:
            statistics: Statistics of records within the bounds.
            budget: From ``budget``.
            rng: Generator with ``standard_normal(shape)``; draws are in the order of
                the releases.
            repetitions: Number R of releases.

        Raises:
            DivergedError: a noisy matrix cannot be inverted.
        """
        d, stds = statistics.dim, budget.noise_stds
        draws = rng.standard_normal((repetitions, d * d + d + self.releases_lambda_min))
        square = draws[:, : d * d].reshape(-1, d, d)  # [R, d, d]
        noisy_xtx = statistics.xtx + stds["xtx"] * self._symmetric(square)
        noisy_xty = statistics.xty + stds["xty"] * draws[:, d * d : d * d + d]
        ridge = self._ridge(statistics, stds, draws[:, -1])  # [R]
        noisy_xtx += ridge[:, None, None] * np.eye(d)
        try:
            return np.linalg.solve(noisy_xtx, noisy_xty[:, :, None])[:, :, 0]
        except np.linalg.LinAlgError:
            raise DivergedError(
                "the noisy X'X must have an inverse, but it has none in one "
                "repetition. Set a ridge above 0, or release again, which costs ε "
                "again."
            ) from None

    def _symmetric(self, square: Array) -> Array:
        """Returns symmetric noise, std 1 on the diagonal."""
        if self.variant == "tight":  # std sqrt(1/2) off the diagonal
            return (square + square.swapaxes(1, 2)) / 2
        return np.triu(square) + np.triu(square, k=1).swapaxes(1, 2)

    def _ridge(
        self, statistics: Statistics, stds: dict[str, float], draw: Array
    ) -> Array:
        """Returns the ridge per release, [R]."""
        if self.method == "ssp":
            return np.full(len(draw), self.ridge)
        ridge = self.ridge_factor * math.sqrt(statistics.dim) * stds["xtx"]
        if not self.releases_lambda_min:
            return np.full(len(draw), ridge / math.sqrt(2))
        noise = stds["lambda_min"]
        low = statistics.lambda_min + noise * (draw - self.ridge_factor)
        return np.maximum(0.0, ridge - np.maximum(0.0, low))


@dataclass(frozen=True, eq=False)
class Release:
    """Released coefficients and their ε.

    Attributes:
        theta: Coefficients ``(d,)``.  With R repetitions, ``(R, d)``; each row alone
            spends epsilon.
        noise_multipliers: Noise standard deviation over sensitivity, by released
            statistic.
        epsilon: Exact ε.
        delta: δ at which ε holds.
        neighboring_relation: "add_or_remove_one" or "replace_one".
        budget: ε and noise of each released statistic.
    """

    theta: Array
    noise_multipliers: dict[str, float]
    epsilon: float
    delta: float
    neighboring_relation: str
    budget: Budget = field(repr=False)


def ssp(
    X: Any,
    y: Any,
    *,
    epsilon: float,
    delta: float,
    y_bound: float,
    x_bound: float = 1.0,
    rng: Any = None,
    variant: str = "tight",
    ridge: float = 0.0,
    neighboring_relation: str = "add_or_remove_one",
    repetitions: int | None = None,
) -> Release:
    """Releases coefficients by sufficient-statistics perturbation (SSP).

    X'X and X'y get Gaussian noise, and the coefficients solve the noisy equations.

    Source: Wang (2018), arXiv:1803.02596.

    Args:
        X: Rows ``(n, d)`` of L2 norm at most ``x_bound``.
        y: Labels ``(n,)`` of size at most ``y_bound``.
        epsilon: Budget ε, greater than 0.
        delta: δ, above 0 and below 1/n.
        y_bound: Largest absolute label, in the unit of the labels.  Public: do not
            measure it on the data.
        x_bound: Largest norm of a row, in the unit of the rows; public too.
        rng: A numpy Generator; None takes one seeded by the operating system.  Anyone
            who knows its state can subtract the noise: keep the state secret.
        variant: "tight" or "notebook": equal ε, and less noise off the diagonal of X'X
            with "tight".
        ridge: Number added to the diagonal of X'X, in the units of X'X; public.
        neighboring_relation: "add_or_remove_one" or "replace_one".
        repetitions: Number R of independent releases, for experiments; together they
            spend more than epsilon.

    Raises:
        ConfigError: An argument is outside its domain; a row beyond its bound is named.
        AccountingError: epsilon or delta is outside its domain.
        DivergedError: The noisy X'X has no inverse.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> X = rng.uniform(-0.5, 0.5, size=(1000, 3))
        >>> y = X @ [0.5, -0.2, 0.1]
        >>> release = ssp(X, y, epsilon=5.0, delta=1e-6, y_bound=1.0, rng=rng)
        >>> release.theta.shape, release.epsilon <= 5.0
        ((3,), True)
        >>> {name: round(x, 3) for name, x in release.noise_multipliers.items()}
        {'xtx': 1.178, 'xty': 1.767}
    """
    bounds = Bounds(x_bound, y_bound, neighboring_relation)
    method = Perturbation(method="ssp", bounds=bounds, variant=variant, ridge=ridge)
    return _release(method, (X, y), (epsilon, delta), rng, repetitions)


def adassp(
    X: Any,
    y: Any,
    *,
    epsilon: float,
    delta: float,
    y_bound: float,
    x_bound: float = 1.0,
    rng: Any = None,
    variant: str = "tight",
    ridge_factor: float = RIDGE_FACTOR,
    neighboring_relation: str = "add_or_remove_one",
    repetitions: int | None = None,
) -> Release:
    """Releases coefficients by SSP with a ridge that adapts to the noise (AdaSSP).

    The ridge is about as large as the noise of X'X, so the solution stays stable on
    small data or at a small ε.

    Source: Wang (2018), arXiv:1803.02596.

    Args:
        X: Rows ``(n, d)`` of L2 norm at most ``x_bound``.
        y: Labels ``(n,)`` of size at most ``y_bound``.
        epsilon: Budget ε, greater than 0.
        delta: δ, above 0 and below 1/n.
        y_bound: Largest absolute label; public, as in ``ssp``.
        x_bound: Largest norm of a row; public, as in ``ssp``.
        rng: A numpy Generator, as in ``ssp``.
        variant: "tight" or "notebook"; "notebook" also releases the least eigenvalue of
            X'X and lowers the ridge by it.
        ridge_factor: Number c, at least 0, that scales the ridge; without a unit.
        neighboring_relation: "add_or_remove_one" or "replace_one".
        repetitions: Number R of independent releases, for experiments; together they
            spend more than epsilon.

    Raises:
        ConfigError: An argument is outside its domain; a row beyond its bound is named.
        AccountingError: epsilon or delta is outside its domain.
        DivergedError: The noisy X'X has no inverse.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> X = rng.uniform(-0.5, 0.5, size=(1000, 3))
        >>> y = X @ [0.5, -0.2, 0.1]
        >>> release = adassp(X, y, epsilon=5.0, delta=1e-6, y_bound=1.0, rng=rng)
        >>> release.theta.shape, release.epsilon <= 5.0
        ((3,), True)
    """
    bounds = Bounds(x_bound, y_bound, neighboring_relation)
    method = Perturbation(
        method="adassp", bounds=bounds, variant=variant, ridge_factor=ridge_factor
    )
    return _release(method, (X, y), (epsilon, delta), rng, repetitions)


def _release(
    method: Perturbation,
    data: tuple[Any, Any],
    price: tuple[float, float],
    rng: Any,
    repetitions: int | None,
) -> Release:
    x, y = checks.table(*data)
    method.bounds.check(x, y)
    budget = method.budget(price[0], checks.delta(price[1], len(x)))
    count = checks.repetitions(repetitions)
    rng = checks.generator(rng)
    theta = method.release(Statistics.of(x, y), budget, rng, count)
    return Release(
        theta=theta[0] if repetitions is None else theta,
        noise_multipliers=budget.noise_multipliers,
        epsilon=budget.epsilon,
        delta=budget.delta,
        neighboring_relation=method.bounds.neighboring_relation,
        budget=budget,
    )

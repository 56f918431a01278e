"""Least squares by noisy gradient descent: DP-SGD with every record in every step.

The objective is f(theta) = 1/2 sum (y - x'theta)^2 and one step is

    theta <- theta - eta (X'X theta - X'y + s GS(theta) z),   z ~ N(0, I_d),

GS(theta) = B (B ‖theta‖ + Y) being the sensitivity of this gradient (see ``bounds``).
It depends on theta, which is released.  So each step is one Gaussian with noise
multiplier s for every theta, and T steps are exactly one Gaussian with s / sqrt(T).

The learning rate is public, from the data, or released first (see ``rates``).
``spending`` computes ε, and the noise or steps for a target.

Source: Song, Chaudhuri and Sarwate (2013).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpsgd_explorer.regression import checks
from dpsgd_explorer.regression.bounds import Bounds
from dpsgd_explorer.regression.checks import Array
from dpsgd_explorer.regression.rates import RELEASED, released_rates, resolve_rate
from dpsgd_explorer.regression.spending import MAX_STEPS, rate_noise, schedule, spent
from dpsgd_explorer.regression.statistics import Statistics

#: Approximate number of saved points of a path.
DEFAULT_POINTS = 100
#: Largest number of steps, and of noise values, that are drawn in one block.
MAX_BLOCK_STEPS = 4096
MAX_BLOCK_VALUES = 1 << 19


@dataclass(frozen=True, eq=False)
class Path:
    """The points of a descent and the ε spent up to each of them.

    Shapes: d features, P saved points, R repetitions.

    Attributes:
        theta: Coefficients after the last step, ``(d,)``.  With repetitions,
            ``(R, d)``; each row alone spends epsilon.
        noise_multiplier: Noise multiplier of each step.
        learning_rate: Learning rate as a number; ``(R,)`` if each repetition released
            one.
        steps: Number of steps at each saved point, P numbers.
        epsilons: Exact ε at each saved point, P numbers.
        mse: Mean squared error at each saved point, ``(P,)`` or ``(P, R)``.  It is
            computed from the data and not private; infinite after divergence.
        delta: δ at which ε holds.
        neighboring_relation: "add_or_remove_one" or "replace_one".
        rate_is_private: If False, the learning rate was computed from the data.
        rate_noise_multiplier: Noise multiplier of the released largest eigenvalue; None
            without such a release.
    """

    theta: Array
    noise_multiplier: float
    learning_rate: float | Array
    steps: tuple[int, ...]
    epsilons: tuple[float, ...]
    mse: Array
    delta: float
    neighboring_relation: str
    rate_is_private: bool
    rate_noise_multiplier: float | None = None

    def __repr__(self) -> str:
        repetitions = f"{len(self.theta)} repetitions, " if self.theta.ndim > 1 else ""
        return (
            f"Path({repetitions}{self.steps[-1]} steps, epsilon={self.epsilon}, "
            f"delta={self.delta}, {self.neighboring_relation}, "
            f"{len(self.steps)} saved points)"
        )

    @property
    def epsilon(self) -> float:
        """ε of all steps, and of the learning rate if it was released."""
        return self.epsilons[-1]

    @property
    def diverged(self) -> int:
        """Number of repetitions that diverged."""
        return int(np.isinf(self.mse[-1]).sum())


def noisy_gradient_descent(
    X: Any,
    y: Any,
    *,
    noise_multiplier: float | None = None,
    steps: int | None = None,
    target_epsilon: float | None = None,
    delta: float,
    y_bound: float,
    learning_rate: float | str | None = None,
    x_bound: float = 1.0,
    rng: Any = None,
    public_size: int | None = None,
    neighboring_relation: str = "add_or_remove_one",
    repetitions: int | None = None,
    keep_every: int | None = None,
) -> Path:
    """Releases coefficients by gradient descent from zero, with noise in every step.

    Give two of ``noise_multiplier``, ``steps`` and ``target_epsilon``; the third
    follows.

    Source: Song, Chaudhuri and Sarwate (2013), "Stochastic gradient descent with
    differentially private updates"; ε is exact for the Gaussian mechanism.

    Args:
        X: Rows ``(n, d)`` of L2 norm at most ``x_bound``.
        y: Labels ``(n,)`` of size at most ``y_bound``.
        noise_multiplier: Noise standard deviation of each step over the sensitivity of
            its gradient, greater than 0.
        steps: Number of steps T, at least 1.
        target_epsilon: Largest ε of the whole path, a released learning rate included.
        delta: δ, above 0 and below 1/n.
        y_bound: Largest absolute label; public, as in ``ssp``.
        learning_rate: A number, "public" (None means this), "released" (from a noisy
            largest eigenvalue, paid for from the same budget) or "notebook" (from the
            data, not paid for: not private).
        x_bound: Largest norm of a row; public, as in ``ssp``.
        rng: A numpy Generator, as in ``ssp``.
        public_size: n as far as it is public, for the rate "public".  Under
            replace_one n is public anyway.
        neighboring_relation: "add_or_remove_one" or "replace_one".
        repetitions: Number R of independent descents, for experiments; together they
            spend more than epsilon.
        keep_every: Number k of steps from one saved point to the next: steps 1, 1 + k,
            1 + 2k, ... and the last are saved.  None saves about 100 points, evenly
            spread over ε.

    Raises:
        ConfigError: An argument is outside its domain; a row beyond its bound is named.
        AccountingError: epsilon or delta is outside its domain.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> X = rng.uniform(-0.5, 0.5, size=(1000, 3))
        >>> y = X @ [0.5, -0.2, 0.1]
        >>> path = noisy_gradient_descent(
        ...     X,
        ...     y,
        ...     steps=50,
        ...     target_epsilon=1.0,
        ...     delta=1e-6,
        ...     y_bound=1.0,
        ...     public_size=1000,
        ...     rng=rng,
        ... )
        >>> path.theta.shape, path.epsilon <= 1.0, path.steps[-1]
        ((3,), True, 50)
        >>> round(path.noise_multiplier, 2)  # from the target
        29.87
    """
    x, labels = checks.table(X, y)
    bounds = Bounds(x_bound, y_bound, neighboring_relation)
    bounds.check(x, labels)
    delta, learning_rate = checks.delta(delta, len(x)), checks.rate(learning_rate)
    noise, count = schedule(
        noise_multiplier,
        steps,
        target_epsilon,
        delta,
        releases_rate=learning_rate == RELEASED,
    )
    if public_size is None and bounds.replaces:
        public_size = len(x)
    statistics = Statistics.of(x, labels)
    descent = Descent(
        bounds=bounds,
        noise_multiplier=noise,
        steps=count,
        learning_rate=resolve_rate(
            learning_rate, statistics, bounds, (noise, count), public_size
        ),
        delta=delta,
    )
    rng = checks.generator(rng)
    path = descent.run(
        statistics,
        rng,
        checks.repetitions(repetitions),
        keep_every=keep_every,
        rate_is_private=learning_rate != "notebook",
    )
    if repetitions is None:
        rate = float(np.ravel(path.learning_rate)[0])
        alone = {"theta": path.theta[0], "mse": path.mse[:, 0], "learning_rate": rate}
        return replace(path, **alone)
    return path


@dataclass(frozen=True, kw_only=True)
class Descent:
    """Settings of a noisy gradient descent, without data and random generator.

    Attributes:
        bounds: Public bounds of the records.
        noise_multiplier: Noise multiplier of each step.
        steps: Number T of steps.
        learning_rate: A number, or "released".
        delta: In (0, 1).
        rate_factor: Factor on the learning rate.
    """

    bounds: Bounds
    noise_multiplier: float
    steps: int
    learning_rate: float | str
    delta: float
    rate_factor: float = 1.0

    @property
    def rate_noise_multiplier(self) -> float | None:
        """Noise multiplier of the released learning rate; None if it is a number."""
        if self.learning_rate == RELEASED:
            return rate_noise(self.noise_multiplier, self.steps)
        return None

    def draw_rates(
        self, statistics: Statistics, rng: Any, repetitions: int
    ) -> float | Array:
        """Returns the learning rate; released rates are one per repetition, [R].

        A release is drawn before the first step, from the generator of the steps.
        """
        if not isinstance(self.learning_rate, str):
            return self.rate_factor * self.learning_rate
        schedule = (self.noise_multiplier, self.steps)
        return self.rate_factor * released_rates(
            statistics, self.bounds, schedule, rng, repetitions
        )

    def run(
        self,
        statistics: Statistics,
        rng: Any,
        repetitions: int,
        *,
        keep_every: int | None = None,
        evaluate_on: Statistics | None = None,
        rate_is_private: bool = True,
    ) -> Path:
        """Runs ``repetitions`` independent descents together.

        Shapes: theta [R, d]; noise of a block of steps [b, R, d], drawn in the order of
        the steps.
        """
        evaluation_set = evaluate_on or statistics
        kept = kept_steps(self.steps, keep_every)
        rates = self.draw_rates(statistics, rng, repetitions)
        theta = np.zeros((repetitions, statistics.dim))
        mse = np.empty((len(kept), repetitions))
        for point, (begin, end) in enumerate(zip((0, *kept), kept, strict=False)):
            theta = self.advance(statistics, theta, rates, end - begin, rng)
            mse[point] = evaluation_set.mse_of(theta)
        return Path(
            theta=theta,
            noise_multiplier=self.noise_multiplier,
            learning_rate=rates,
            steps=kept,
            epsilons=self.epsilons(kept),
            mse=mse,
            delta=self.delta,
            neighboring_relation=self.bounds.neighboring_relation,
            rate_is_private=rate_is_private,
            rate_noise_multiplier=self.rate_noise_multiplier,
        )

    def epsilons(self, steps: Sequence[int]) -> tuple[float, ...]:
        """Returns the exact ε after each number of steps, a released rate included."""
        noise, rate = self.noise_multiplier, self.rate_noise_multiplier
        return tuple(spent(noise, count, self.delta, rate) for count in steps)

    def advance(
        self,
        statistics: Statistics,
        theta: Array,
        rates: float | Array,
        steps: int,
        rng: Any,
    ) -> Array:
        """Returns theta after more steps; a diverged descent stays infinite.

        Shapes: theta [R, d] -> [R, d].

        Args:
            statistics: Statistics of the records.
            theta: Coefficients before the steps.
            rates: From ``draw_rates``.
            steps: Number of steps.
            rng: A numpy Generator.
        """
        block = max(1, min(MAX_BLOCK_STEPS, MAX_BLOCK_VALUES // theta.size))
        column = np.reshape(rates, (-1, 1))  # [R, 1] or [1, 1]
        shrink = np.eye(statistics.dim) - column[:, :, None] * statistics.xtx
        shrink = shrink[0] if len(shrink) == 1 else shrink  # one product for all
        pull = column * statistics.xty
        scale = column * self.noise_multiplier
        with np.errstate(over="ignore", invalid="ignore"):
            for begin in range(0, steps, block):
                count = min(block, steps - begin)
                noise = rng.standard_normal((count, *theta.shape))
                noise *= scale
                for z in noise:
                    norms = np.sqrt(np.einsum("rd,rd->r", theta, theta))
                    sensitivity = self.bounds.gradient_sensitivity(norms)
                    theta = _times(theta, shrink) + pull - sensitivity[:, None] * z
        return theta


def _times(theta: Array, matrices: Array) -> Array:
    """Returns each row times the common matrix, or times the row's matrix.

    Shapes: theta [R, d], matrices [d, d] or [R, d, d] -> [R, d].
    """
    if matrices.ndim == 2:
        return theta @ matrices
    return (theta[:, None] @ matrices)[:, 0]


def kept_steps(steps: int, every: int | None = None) -> tuple[int, ...]:
    """Returns the numbers of steps of the saved points.

    Unless ``every`` is given, the points are evenly spread over ε, which grows roughly
    with the root of the steps.
    """
    if every is None:
        shares = (i / DEFAULT_POINTS for i in range(1, DEFAULT_POINTS + 1))
        return tuple(sorted({1, *(math.ceil(steps * share**2) for share in shares)}))
    every = checks.whole("keep_every", every, MAX_STEPS)
    kept = list(range(1, steps + 1, every))
    return tuple(kept if kept[-1] == steps else [*kept, steps])

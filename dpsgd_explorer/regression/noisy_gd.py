"""Least squares by noisy gradient descent: DP-SGD with every record in every step.

The objective is f(theta) = 1/2 sum (y - x'theta)^2 and one step is

    theta <- theta - eta (X'X theta - X'y + s GS(theta) z),   z ~ N(0, I_d),

GS(theta) = B (B ‖theta‖ + Y) being the sensitivity of this gradient (see bounds).  It
depends on theta, which is released, so each step is one Gaussian with noise multiplier
s whatever theta is, and T steps are exactly one Gaussian with s / sqrt(T).

Learning rates.  Stochastic descent on an L-smooth f takes eta = min(1/L,
sqrt(2 (f_0 - f*) / (L T d v))), v the noise variance of a coordinate.

* "public" puts in what is known without the data: L <= n B^2, f_0 - f* <= n Y^2 / 2
  and GS at ‖theta‖ = 1.  Then n cancels in the second term: Y / (B s GS sqrt(d T)).
* "notebook" is min(1/l, 4 / sqrt(d s GS l T)) with l the largest eigenvalue of X'X.
  Not private: l comes from the data and is not paid for.

Source: Song, Chaudhuri and Sarwate (2013) for the mechanism; Ghadimi and Lan (2013),
arXiv:1309.5549, for the rate.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpsgd_explorer.accounting import gaussian_epsilon
from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.regression import checks
from dpsgd_explorer.regression.bounds import Bounds
from dpsgd_explorer.regression.budget import exact_noise_multiplier, noise_for
from dpsgd_explorer.regression.checks import Array
from dpsgd_explorer.regression.statistics import Statistics
from dpsgd_explorer.validation import one_of

RATES = ("public", "notebook")
MAX_STEPS = 1_000_000
TYPICAL_NORM = np.array(1.0)  # of theta, where a rate has to assume one
NOTEBOOK_NUMERATOR = 4.0
POINTS = 100  # approximate number of saved points of a path
BLOCK = 4096  # largest number of steps whose noise is drawn at once
BLOCK_VALUES = 1 << 19  # largest number of noise values drawn at once


@dataclass(frozen=True, eq=False)
class Path:
    """The points of a descent and the ε spent up to each of them.

    Shapes: theta [d] and mse [P], or [R, d] and [P, R] with repetitions.

    Attributes:
        theta: After the last step; with repetitions each row alone spends epsilon.
        noise_multiplier: Noise multiplier of each step.
        learning_rate: Learning rate as a number.
        steps: Number of steps at each saved point, [P].
        epsilons: Exact ε at each saved point.
        mse: Mean squared error there, from the data and not private; infinite after
            divergence.
        delta: δ at which ε holds.
        neighboring_relation: "add_or_remove_one" or "replace_one".
        rate_is_private: False if the learning rate was computed from the data.
    """

    theta: Array
    noise_multiplier: float
    learning_rate: float
    steps: tuple[int, ...]
    epsilons: tuple[float, ...]
    mse: Array
    delta: float
    neighboring_relation: str
    rate_is_private: bool

    @property
    def epsilon(self) -> float:
        """ε of all steps."""
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
    """Descend from zero; two of noise, steps and target determine what is spent.

    Shapes: X [n, d], y [n].

    Args:
        X: Rows of norm at most ``x_bound``.
        y: Labels of size at most ``y_bound``.
        noise_multiplier: Of each step, greater than 0.
        steps: T, at least 1.
        target_epsilon: Of the whole path; gives the missing one of the other two.
        delta: In (0, 1).
        y_bound: Public; not from the data.
        learning_rate: A number, "public" (None means this) or "notebook".
        x_bound: Public; not from the data.
        rng: A numpy Generator, as in ``ssp``.
        public_size: n as far as it is public, for the rate "public".  Under
            replace_one n is public anyway.
        neighboring_relation: "add_or_remove_one" or "replace_one".
        repetitions: How many independent descents, for experiments.
        keep_every: Keeps steps 1, 1 + k, 1 + 2k, ... and the last.

    Raises:
        ConfigError: an argument is outside its domain; a row beyond its bound is named.
        AccountingError: epsilon or delta is outside its domain.
    """
    x, labels = checks.table(X, y)
    bounds = Bounds(x_bound, y_bound, neighboring_relation)
    bounds.check(x, labels)
    noise, count = schedule(noise_multiplier, steps, target_epsilon, delta)
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
        return replace(path, theta=path.theta[0], mse=path.mse[:, 0])
    return path


def schedule(
    noise_multiplier: float | None,
    steps: int | None,
    target_epsilon: float | None,
    delta: float,
) -> tuple[float, int]:
    """Return noise multiplier and steps from two of the three, on the safe side.

    Raises:
        ConfigError: not two of them are given, or the target has no room for a step.
        AccountingError: one is outside its domain.
    """
    given = (noise_multiplier, steps, target_epsilon)
    if sum(value is not None for value in given) != 2:
        raise ConfigError(
            "noise_multiplier",
            "two of noise_multiplier, steps and target_epsilon must be given; the "
            "third follows from them.",
        )
    if steps is not None:
        steps = checks.whole("steps", steps, MAX_STEPS)
        if noise_multiplier is None:
            assert target_epsilon is not None  # two are given
            return noise_for(target_epsilon, delta, steps), steps
    noise = checks.positive("noise_multiplier", noise_multiplier)
    if steps is None:
        assert target_epsilon is not None  # two are given
        steps = steps_within(target_epsilon, noise, delta)
    return noise, steps


def steps_within(target_epsilon: float, noise_multiplier: float, delta: float) -> int:
    """Return the most steps that stay within the target.

    Raises:
        ConfigError: not even one does, or more than 1,000,000 would.
        AccountingError: the target or delta is outside its domain.
    """
    room = (noise_multiplier / exact_noise_multiplier(target_epsilon, delta)) ** 2
    steps = math.floor(min(room, MAX_STEPS + 1)) + 1
    while steps and gaussian_epsilon(delta, noise_multiplier, steps) > target_epsilon:
        steps -= 1
    if not 1 <= steps <= MAX_STEPS:
        raise ConfigError(
            "noise_multiplier",
            f"noise_multiplier must leave room for 1 to {MAX_STEPS:,} steps within "
            f"target_epsilon = {target_epsilon:g}, got {noise_multiplier:g}. "
            f"{'Lower' if steps else 'Raise'} it, or state the steps.",
        )
    return steps


def resolve_rate(
    rate: float | str | None,
    statistics: Statistics,
    bounds: Bounds,
    schedule: tuple[float, int],
    public_size: int | None,
) -> float:
    """Return the learning rate as a number.

    Raises:
        ConfigError: it is neither a positive number nor a known name, or "public" is
            asked for and no public size is stated.
    """
    if rate is None or rate == "public":
        return public_rate(statistics.dim, bounds, schedule, public_size)
    if isinstance(rate, str):
        one_of("learning_rate", rate, RATES)
        return notebook_rate(statistics, bounds, schedule)
    return checks.positive("learning_rate", rate)


def public_rate(
    dim: int, bounds: Bounds, schedule: tuple[float, int], public_size: int | None
) -> float:
    """Return the rate that theory gives from public bounds only.

    Raises:
        ConfigError: no public size is stated, or not a whole one.
    """
    if public_size is None:
        raise ConfigError(
            "public_size",
            "public_size must be stated for a learning rate from public bounds: with "
            "add_or_remove_one the number of rows is private too. State it, or a "
            "learning_rate.",
        )
    size = checks.whole("public_size", public_size, 10**12)
    noise, steps = schedule
    std = noise * float(bounds.gradient_sensitivity(TYPICAL_NORM))
    largest = 1 / (size * bounds.x_bound**2)
    noisy = bounds.y_bound / (bounds.x_bound * std * math.sqrt(dim * steps))
    return min(largest, noisy)


def notebook_rate(
    statistics: Statistics, bounds: Bounds, schedule: tuple[float, int]
) -> float:
    """Return the notebook's rate; it uses the data and is not private."""
    noise, steps = schedule
    std = noise * float(bounds.gradient_sensitivity(TYPICAL_NORM))
    scale = statistics.dim * std * statistics.lambda_max * steps
    return min(1 / statistics.lambda_max, NOTEBOOK_NUMERATOR / math.sqrt(scale))


@dataclass(frozen=True, kw_only=True)
class Descent:
    """Settings of a noisy gradient descent, without data and random generator."""

    bounds: Bounds
    noise_multiplier: float
    steps: int
    learning_rate: float
    delta: float

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
        """Descend ``repetitions`` times at once.

        Shapes: theta [R, d]; the noise of a block of steps [b, R, d], drawn in one
        piece, step by step.
        """
        evaluation_set = evaluate_on or statistics
        kept = kept_steps(self.steps, keep_every)
        theta = np.zeros((repetitions, statistics.dim))
        mse = np.empty((len(kept), repetitions))
        for point, (begin, end) in enumerate(zip((0, *kept), kept, strict=False)):
            theta = self.advance(statistics, theta, end - begin, rng)
            mse[point] = evaluation_set.mse_of(theta)
        return Path(
            theta=theta,
            noise_multiplier=self.noise_multiplier,
            learning_rate=self.learning_rate,
            steps=kept,
            epsilons=self.epsilons(kept),
            mse=mse,
            delta=self.delta,
            neighboring_relation=self.bounds.neighboring_relation,
            rate_is_private=rate_is_private,
        )

    def epsilons(self, steps: Sequence[int]) -> tuple[float, ...]:
        """Return the exact ε after each number of steps."""
        return tuple(
            gaussian_epsilon(self.delta, self.noise_multiplier, count)
            for count in steps
        )

    def advance(
        self, statistics: Statistics, theta: Array, steps: int, rng: Any
    ) -> Array:
        """Return theta after more steps; a diverged descent stays infinite."""
        block = max(1, min(BLOCK, BLOCK_VALUES // theta.size))
        shrink = np.eye(statistics.dim) - self.learning_rate * statistics.xtx
        pull = self.learning_rate * statistics.xty
        scale = self.learning_rate * self.noise_multiplier
        with np.errstate(over="ignore", invalid="ignore"):
            for begin in range(0, steps, block):
                count = min(block, steps - begin)
                noise = rng.standard_normal((count, *theta.shape))
                noise *= scale
                for z in noise:
                    norms = np.sqrt(np.einsum("rd,rd->r", theta, theta))
                    sensitivity = self.bounds.gradient_sensitivity(norms)
                    theta = theta @ shrink + pull - sensitivity[:, None] * z
        return theta


def kept_steps(steps: int, every: int | None = None) -> tuple[int, ...]:
    """Return the numbers of steps of the saved points."""
    every = every or max(1, math.ceil(steps / POINTS))
    every = checks.whole("keep_every", every, MAX_STEPS)
    kept = list(range(1, steps + 1, every))
    return tuple(kept if kept[-1] == steps else [*kept, steps])

"""Correlated noise: later noise cancels a part of earlier noise in sums of gradients.

Step t releases gₜ + (C⁻¹z)ₜ, where C is lower triangular and Toeplitz with first column
c, c₀ = 1, and z has independent normal rows.  The rows of z have standard deviation
σ · s · (clipping bound), where s is the sensitivity of C.  Since C(g + C⁻¹z) = Cg + z,
the releases are a function of the Gaussian mechanism on Cg, whatever the gradients
depended on before (Denisov et al. 2022, Theorem 2.1).  So σ has its usual meaning.
A ``Plan`` states σ for one use of a record: its s is ``column_norm``.

The sensitivity depends on when one record may be used:

- *Cyclic Poisson, c with b bands.*  Each record belongs to one of b groups, by a draw
  of its own.  Step t draws from group t mod b, each record with probability bq.  The
  columns of C at distance b have no common row, so rounds of b steps are separate
  releases with s = ‖c‖: ⌈T/b⌉ steps of Poisson sampling with rate bq.
- *Fixed slots.*  A record is used in every t-th step, from a slot that is drawn once.
  All its uses together are one release of the Gaussian mechanism, see ``fixed_slots``.

Source: Choquette-Choo et al. (2023), arXiv:2306.08153 (bands, cyclic Poisson); Denisov
et al. (2022), arXiv:2202.08312; arXiv:2601.22334 (DP-λCGD, ``geometric_strategy``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpsgd_explorer.accounting.core import validation
from dpsgd_explorer.accounting.core.phase import MAX_SLOTS, Phase, phase_with
from dpsgd_explorer.accounting.correlated.strategy import (
    Floats,
    Strategy,
    checked_workload,
)

#: Largest coefficient: sums of squares of its multiples are floats.
MAX_COEFFICIENT = 1e100


@dataclass(frozen=True)
class ToeplitzStrategy(Strategy):
    """The first column of C, and the number of steps.

    >>> plain = ToeplitzStrategy((1.0,), steps=4)
    >>> plain.prefix_errors().round(3).tolist()  # independent noise adds up
    [1.0, 1.414, 1.732, 2.0]
    >>> geometric_strategy(0.5, steps=4).noise_weights().tolist()
    [1.0, -0.5, 0.0, 0.0]

    Attributes:
        coefficients: c₀ = 1, c₁, …, at most ``steps`` of them; the rest is 0.
        steps: Number of steps T.
        inverse: The first column of C⁻¹, if it is short; the rest is 0.  A step's noise
            then needs only this many draws of z.  None if C itself is banded.
    """

    coefficients: tuple[float, ...]
    steps: int
    inverse: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        """Checks the first column.

        Raises:
            AccountingError: an attribute is outside its domain.
        """
        steps = validation.steps(self.steps, least=1)
        column = validation.numbers("coefficients", self.coefficients)
        fits = 1 <= column.size <= steps and np.abs(column).max() <= MAX_COEFFICIENT
        if not fits or column[0] != 1:
            rule = (
                f"1 to {steps} numbers of size up to {MAX_COEFFICIENT:g}, of which the "
                "first is 1"
            )
            validation.refuse("coefficients", rule, self.coefficients)
        object.__setattr__(self, "steps", steps)
        object.__setattr__(self, "coefficients", tuple(column.tolist()))
        if self.inverse is not None:
            self._check_inverse(validation.numbers("inverse", self.inverse))

    def _check_inverse(self, inverse: Floats) -> None:
        column = np.zeros(self.steps)
        column[: self.bands] = self.coefficients
        fits = _is_inverse(inverse, self.steps)
        if not fits or not np.allclose(_column_of(inverse, self.steps), column):
            rule = "the first column of the inverse of C"
            validation.refuse("inverse", rule, self.inverse)
        # The noise has these weights, so their C, and not the rounded coefficients,
        # determines the sensitivity.
        exact = _column_of(inverse, self.steps)
        object.__setattr__(self, "coefficients", tuple(exact.tolist()))
        object.__setattr__(self, "inverse", tuple(inverse.tolist()))

    @property
    def bands(self) -> int:
        """Number of coefficients b."""
        return len(self.coefficients)

    @property
    def column_norm(self) -> float:
        """Norm of the first column: the sensitivity to one use of a record."""
        return float(np.linalg.norm(self.coefficients))

    def noise_weights(self) -> Floats:
        """Returns the first column of C⁻¹ (T,): weights of z in a step's noise."""
        if self.inverse is None:
            return _column_of(self.coefficients, self.steps)
        weights = np.zeros(self.steps)
        weights[: len(self.inverse)] = self.inverse
        return weights

    def _variances(self, weights: Floats) -> Floats:
        return np.asarray(np.cumsum(self._solved(weights) ** 2))

    def _solved(self, values: Floats) -> Floats:
        if self.inverse is None:
            return _solved(self.coefficients, values)
        return np.asarray(np.convolve(self.inverse, values)[: self.steps])

    def fixed_slots_sensitivity(self, slots: int, steps: int | None = None) -> float:
        """Returns the sensitivity to a record that is used in every ``slots``-th step.

        It is the norm of the sum of its columns.  The first slot has the largest one:
        the columns of another slot are the same, moved down.

        >>> independent = ToeplitzStrategy((1.0,), steps=8)
        >>> independent.fixed_slots_sensitivity(slots=2)  # four uses
        2.0
        >>> independent.fixed_slots_sensitivity(slots=2, steps=1)
        1.0

        Args:
            slots: Number of steps t between two uses of a record.
            steps: Number of first steps that are released; all if None.

        Raises:
            AccountingError: an argument is not an integer in its domain, or a
                coefficient is negative.
        """
        period = validation.whole("slots", slots, 1, MAX_SLOTS)
        count = self.steps
        if steps is not None:
            count = validation.whole("steps", steps, 0, self.steps)
        if min(self.coefficients) < 0:
            rule = "at least 0 each, for records with fixed slots"
            validation.refuse("coefficients", rule, self.coefficients)
        column = np.zeros(-(-count // period) * period)
        known = min(count, self.bands)
        column[:known] = self.coefficients[:known]
        of_uses = column.reshape(-1, period).cumsum(axis=0).ravel()[:count]
        return float(np.linalg.norm(of_uses))


def geometric_strategy(decay: float, steps: int) -> ToeplitzStrategy:
    """Returns the strategy of DP-λCGD: a step's noise is zₜ − λ zₜ₋₁.

    A run with fixed slots can use it, see ``fixed_slots``.

    >>> geometric_strategy(0.5, steps=3)
    ToeplitzStrategy(coefficients=(1.0, 0.5, 0.25), steps=3, inverse=(1.0, -0.5))

    Args:
        decay: λ in [0, 1); 0 gives independent noise.
        steps: Number of steps.

    Raises:
        AccountingError: an argument is outside its domain.
    """
    count, base = validation.steps(steps, least=1), _below_1("decay", decay)
    return strategy_of_inverse((1.0, -base)[:count] if base else (1.0,), count)


def strategy_of_inverse(weights: Sequence[float], steps: int) -> ToeplitzStrategy:
    """Returns the strategy with the first column of C⁻¹; the rest of it is 0.

    Raises:
        AccountingError: it is not such a column, or the number of steps is wrong.
    """
    count, column = (
        validation.steps(steps, least=1),
        validation.numbers("inverse", weights),
    )
    if not _is_inverse(column, count):
        rule = f"1 to {count} finite numbers, of which the first is 1"
        validation.refuse("inverse", rule, weights)
    with np.errstate(over="ignore", invalid="ignore"):
        of_c = _column_of(column, count)
    # A sum of infinite terms of both signs is no number.
    grown = np.nan_to_num(of_c, nan=np.inf)
    return ToeplitzStrategy(tuple(grown.tolist()), count, tuple(column.tolist()))


def square_root_strategy(steps: int, bands: int) -> ToeplitzStrategy:
    """Returns the first bands of the matrix square root of all prefix sums.

    >>> square_root_strategy(steps=100, bands=3).coefficients
    (1.0, 0.5, 0.375)

    Source: Fichtenberger, Henzinger and Upadhyay (2023), arXiv:2202.11205.
    """
    column = [1.0]
    for k in range(1, _bands(bands, steps)):
        column.append(column[-1] * (2 * k - 1) / (2 * k))
    return ToeplitzStrategy(tuple(column), steps)


def banded_strategy(
    steps: int, bands: int, workload: Floats | None = None
) -> ToeplitzStrategy:
    """Returns the strategy with b bands and the smallest RMSE of all sums.

    The search begins at the square root and follows the gradient (L-BFGS).  At equal
    σ, 4 bands have half the error of independent noise over 300 steps.  But they need a
    larger σ for the same ε, see ``cyclic_poisson``:

    >>> best = banded_strategy(300, bands=4)
    >>> round(best.rmse() / banded_strategy(300, bands=1).rmse(), 3)
    0.525

    Args:
        steps: Number of steps T.
        bands: Number of coefficients b, from 1 to T.
        workload: See ``ToeplitzStrategy.prefix_errors``.

    Raises:
        AccountingError: an argument is outside its domain.
    """
    start = square_root_strategy(steps, bands)
    steps, bands = start.steps, start.bands
    weights = checked_workload(workload, steps)
    if not weights.any():
        validation.refuse("workload", "other than 0 for a step", workload)
    later = np.arange(steps, 0, -1) / steps  # share of sums that contain weight k

    @np.errstate(over="ignore", invalid="ignore")
    def log_error(free: Floats) -> tuple[float, Floats]:
        column = np.append(1.0, free)
        answered = _solved(column, weights)
        size, square = float(column @ column), float(later @ answered**2)
        pulled = _solved(column, answered)  # −∂/∂cᵢ is this, shifted by i
        slopes = [
            -2 * float((later[i:] * answered[i:]) @ pulled[: steps - i])
            for i in range(1, bands)
        ]
        value = math.log(size) + math.log(square)
        if not math.isfinite(value):
            return math.inf, np.zeros(bands - 1)
        return value, np.array(slopes) / square + 2 * free / size

    if bands == 1:
        return start
    from scipy.optimize import minimize  # slow to import

    first = np.array(start.coefficients[1:])
    found = minimize(log_error, first, jac=True, method="L-BFGS-B")
    best = found.x if found.fun <= log_error(first)[0] else first
    return ToeplitzStrategy((1.0, *best.tolist()), steps)


def momentum_workload(steps: int, momentum: float) -> Floats:
    """Returns the weights (T,) of gradients in the parameters of SGD with momentum β.

    The gradient of k steps ago has moved the parameters by 1 + β + … + βᵏ.

    >>> momentum_workload(steps=3, momentum=0.5).tolist()
    [1.0, 1.5, 1.75]

    Raises:
        AccountingError: an argument is outside its domain.
    """
    count, base = validation.steps(steps, least=1), _below_1("momentum", momentum)
    return np.cumsum(base ** np.arange(count))


def cyclic_poisson(
    *, sample_rate: float, noise_multiplier: float, steps: int, bands: int
) -> Phase:
    """Returns the steps that cyclic Poisson sampling with b bands costs.

    >>> cyclic_poisson(sample_rate=0.01, noise_multiplier=2.0, steps=1000, bands=4)
    Phase(sample_rate=0.04, noise_multiplier=2.0, steps=250)

    Args:
        sample_rate: Share q of all records that a step expects.
        noise_multiplier: σ, for a strategy of norm ``column_norm``.
        steps: Number of steps T.
        bands: b; q · b must be at most 1.

    Raises:
        AccountingError: an argument is outside its domain.
    """
    rate, number = validation.sample_rate(sample_rate), _bands(bands, steps)
    if rate * number > 1:
        validation.refuse(
            "sample_rate",
            f"at most 1 / bands = {1 / number:.6g}, because a group holds fewer "
            "records than a batch. Use fewer bands or smaller batches",
            sample_rate,
        )
    count = validation.steps(steps, least=1)
    return phase_with(rate, noise_multiplier, count, bands=number)


def fixed_slots(
    *,
    noise_multiplier: float,
    steps: int,
    slots: int,
    strategy: ToeplitzStrategy | None = None,
) -> Phase:
    """Returns the one Gaussian release that steps with fixed slots cost together.

    Every record is used once in t steps, always in the same slot.  The slots may be
    known.

    >>> fixed_slots(noise_multiplier=2.0, steps=400, slots=100)  # four uses of a record
    Phase(sample_rate=1.0, noise_multiplier=1.0, steps=1)

    Args:
        noise_multiplier: Noise std over the clipping bound and the ``column_norm`` of
            the strategy, σ.
        steps: Number of steps that were made, at most those of the strategy.
        slots: Number of steps t between two uses of a record.
        strategy: Strategy of correlated noise; None for independent noise.

    Raises:
        AccountingError: an argument is outside its domain.
    """
    sigma = validation.noise_multiplier(noise_multiplier)
    count = validation.steps(steps)
    period = validation.whole("slots", slots, 1, MAX_SLOTS)
    if not count:
        return Phase(1.0, sigma, 0)
    if strategy is None:
        uses = -(-count // period)
        return Phase(1.0, sigma / math.sqrt(uses), 1)
    if not isinstance(strategy, ToeplitzStrategy):
        validation.refuse("strategy", "a ToeplitzStrategy or None", strategy)
    size = strategy.fixed_slots_sensitivity(period, count)
    return Phase(1.0, sigma * strategy.column_norm / size, 1)


def _column_of(column: Sequence[float] | Floats, steps: int) -> Floats:
    """Returns the first column (T,) of the inverse of a matrix with this one."""
    impulse = np.zeros(steps)
    impulse[0] = 1
    return _solved(column, impulse)


def _solved(column: Sequence[float] | Floats, values: Floats) -> Floats:
    """Returns C⁻¹ applied to values (T,), where C has this first column."""
    from scipy.signal import lfilter  # slow to import

    return np.asarray(lfilter([1.0], column, values))


def _is_inverse(column: Floats, steps: int) -> bool:
    """Returns True for finite numbers that may be the first column of C⁻¹."""
    fits = 1 <= column.size <= steps and np.isfinite(column).all()
    return bool(fits and column[0] == 1)


def _bands(bands: int, steps: int) -> int:
    return validation.whole("bands", bands, 1, validation.steps(steps, least=1))


def _below_1(name: str, value: float) -> float:
    number = validation.finite(name, value)
    if not 0 <= number < 1:
        validation.refuse(name, "in [0, 1)", value)
    return number

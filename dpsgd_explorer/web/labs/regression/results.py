"""Results of the linear regression lab: numbers, and sentences based on them.

Errors are computed from the data and are not private.  The median of few repetitions is
uncertain, so two methods are ranked only if the ranges of their medians do not overlap.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from dpsgd_explorer.experiments.california_housing import housing
from dpsgd_explorer.experiments.california_housing.descents import (
    DescentSpec,
    PreparedHousing,
    Trace,
    trace,
)
from dpsgd_explorer.regression.budget import Budget
from dpsgd_explorer.regression.checks import VARIANTS, Array
from dpsgd_explorer.regression.comparison import (
    EPSILONS,
    LARGE_NOISE,
    SMALL_NOISE,
    Spread,
    Sweep,
    sweep,
)
from dpsgd_explorer.regression.perturbation import Perturbation
from dpsgd_explorer.regression.spending import spent
from dpsgd_explorer.regression.statistics import Statistics
from dpsgd_explorer.web.labs.regression.question import METHODS, RegressionQuestion
from dpsgd_explorer.web.questions.rounding import known_to, limit

CLOUD = 50
CONFIDENCE_Z = 1.96
FEW = 10  # larger errors are printed without decimals
DESCENT = "noisy gradient descent"
NAMES = {
    **METHODS,
    "noisy_gd": DESCENT,
    "large_noise": f"descent with σ = {LARGE_NOISE:g}",
    "small_noise": f"descent with σ = {SMALL_NOISE:g}",
}
UNPAID = " Its learning rate is taken from the data, which its ε does not cover."
REGIMES = {"large_noise": LARGE_NOISE, "small_noise": SMALL_NOISE}


@dataclass(frozen=True)
class Followed:
    """A descent with its errors and its spent ε along the steps."""

    spec: DescentSpec
    trace: Trace
    epsilons: tuple[float, ...]

    @property
    def end(self) -> Spread:
        """Spread of the error after the last step."""
        return self.trace.spreads[-1]

    def within(self, epsilon: float) -> Spread | None:
        """Return the error at the last point that spends at most epsilon, or None."""
        spreads = [
            spread
            for spent, spread in zip(self.epsilons, self.trace.spreads, strict=True)
            if spent <= epsilon
        ]
        return spreads[-1] if spreads else None


@dataclass(frozen=True)
class RankedMethod:
    """One method at the chosen ε.

    Attributes:
        name: A key of ``NAMES``.
        spread: Spread of the error.
        range: 95% confidence interval of the median of all repetitions.
    """

    name: str
    spread: Spread
    range: tuple[float, float]

    @property
    def median(self) -> str:
        """The median error, with as many digits as its range supports."""
        if self.spread.median >= FEW:
            return mse(self.spread.median)
        return known_to(self.spread.median, *self.range)


@dataclass(frozen=True)
class View:
    """The answer to a question; its parts are computed on demand.

    Attributes:
        question: The question.
        waits: If True, a long descent may be computed now.
        compares_regimes: If True, the long one of the two regimes may be computed now.
    """

    question: RegressionQuestion
    waits: bool = False
    compares_regimes: bool = False

    @property
    def evaluation_set(self) -> Statistics:
        """The data on which errors are measured."""
        return self.question.prepared_housing.evaluation_set

    @cached_property
    def clipped_mse(self) -> float:
        """Error of least squares on the bounded data, without noise."""
        return float(
            self.evaluation_set.mse_of(self.question.prepared_housing.statistics.theta)
        )

    @cached_property
    def sweeps(self) -> dict[str, Sweep]:
        """SSP and AdaSSP at the notebook's values of ε."""
        return {name: self._sweep(name, EPSILONS) for name in METHODS}

    @cached_property
    def chosen(self) -> dict[str, dict[str, Sweep]]:
        """Both variants at the chosen ε, by method and variant."""
        epsilons = (self.question.epsilon,)
        return {
            name: {
                variant: self._sweep(name, epsilons, variant) for variant in VARIANTS
            }
            for name in METHODS
        }

    @cached_property
    def specs(self) -> dict[str, DescentSpec]:
        """The descent at its rate, a tenth of it and ten times it."""
        factors = {"÷ 10": 0.1, "": 1.0, "× 10": 10.0}
        return {
            name: self.question.descent_spec(factor) for name, factor in factors.items()
        }

    @cached_property
    def followed(self) -> dict[str, Followed]:
        """The descents that are available, or may be computed now."""
        specs = {
            name: spec
            for name, spec in self.specs.items()
            if spec.is_at_hand or (self.waits and name == "")
        }
        return {name: self._follow(spec) for name, spec in specs.items()}

    @cached_property
    def regimes(self) -> dict[str, Followed]:
        """The notebook's two regimes, as far as available or computed on demand."""
        specs = {
            name: self.question.regime_spec(noise) for name, noise in REGIMES.items()
        }
        return {
            name: self._follow(spec)
            for name, spec in specs.items()
            if spec.is_at_hand or self.compares_regimes
        }

    @cached_property
    def budget(self) -> Budget:
        """The split of the budget by the chosen method."""
        question = self.question
        method = question.perturbation(question.method)
        return method.budget(question.epsilon, question.delta)

    @cached_property
    def cloud(self) -> Array:
        """Released coefficients of the two chosen features, of shape (50, 2)."""
        question = self.question
        thetas = question.perturbation(question.method).release(
            question.prepared_housing.statistics,
            self.budget,
            np.random.default_rng([question.seed, CLOUD]),
            CLOUD,
        )
        return thetas[:, self.columns]

    @property
    def columns(self) -> list[int]:
        """Indices of the two chosen features."""
        chosen = (self.question.first, self.question.second)
        return [housing.FEATURES.index(name) for name in chosen]

    @cached_property
    def ranking(self) -> tuple[RankedMethod, ...]:
        """The methods at the chosen ε, best median first."""
        return self._ranked({"noisy_gd": self.followed.get("")})

    @cached_property
    def regime_ranking(self) -> tuple[RankedMethod, ...]:
        """The methods, with both regimes instead of the chosen descent."""
        return self._ranked(self.regimes)

    def _ranked(
        self, descents: Mapping[str, Followed | None]
    ) -> tuple[RankedMethod, ...]:
        sweeps = {
            name: by_variant[self.question.variant]
            for name, by_variant in self.chosen.items()
        }
        ranked_methods = [
            RankedMethod(name, sweep.spreads[0], median_range(sweep.mse[0]))
            for name, sweep in sweeps.items()
        ]
        for name, descent in descents.items():
            reached = descent.within(self.question.epsilon) if descent else None
            if reached is not None:
                ranked_methods.append(RankedMethod(name, reached, _range_of(reached)))
        return tuple(sorted(ranked_methods, key=lambda ranked: ranked.spread.median))

    def _sweep(
        self, method: str, epsilons: tuple[float, ...], variant: str | None = None
    ) -> Sweep:
        question = self.question
        return sweep_cached(
            question.perturbation(method, variant),
            question.prepared_housing,
            epsilons,
            question.delta,
            (question.repetitions, question.seed),
        )

    def _follow(self, spec: DescentSpec) -> Followed:
        descent_trace = trace(spec)
        return Followed(
            spec,
            descent_trace,
            spent_along(spec, descent_trace.steps, self.question.delta),
        )


@lru_cache(maxsize=64)
def spent_along(
    spec: DescentSpec, steps: tuple[int, ...], delta: float
) -> tuple[float, ...]:
    """Return the exact ε of a descent after each number of steps."""
    noise, rate = spec.noise_multiplier, spec.descent.rate_noise_multiplier
    return tuple(spent(noise, count, delta, rate) for count in steps)


@lru_cache(maxsize=128)
def sweep_cached(
    method: Perturbation,
    prepared_housing: PreparedHousing,
    epsilons: tuple[float, ...],
    delta: float,
    draws: tuple[int, int],
) -> Sweep:
    """Return a sweep; ``draws`` are the repetitions and the seed."""
    repetitions, seed = draws
    rng = np.random.default_rng(seed)
    return sweep(
        method,
        prepared_housing.statistics,
        epsilons,
        delta,
        rng,
        repetitions,
        evaluate_on=prepared_housing.evaluation_set,
    )


def median_range(values: Array) -> tuple[float, float]:
    """Return the 95% confidence interval of the median, as two order statistics.

    The number of values below the true median is binomial (R, 1/2) for R values.
    """
    ordered, count = np.sort(values), len(values)
    margin = CONFIDENCE_Z * math.sqrt(count) / 2
    low = max(0, math.floor(count / 2 - margin))
    high = min(count - 1, math.ceil(count / 2 + margin))
    return float(ordered[low]), float(ordered[high])


def verdict(question: RegressionQuestion, ranking: Sequence[RankedMethod]) -> str:
    """Return a sentence on the best method at the chosen ε."""
    best, *rest = ranking
    medians = "; ".join(f"{NAMES[s.name]} {s.median}" for s in ranking)
    intro = f"At ε = {epsilon_text(question.epsilon)}"
    ties = [s for s in rest if s.range[0] <= best.range[1]]
    if ties:
        names = " and ".join(NAMES[s.name] for s in (best, *ties))
        return f"{intro}, {names} are too close to distinguish ({medians})"
    return f"{intro}, {NAMES[best.name]} has the least error ({medians})"


def mse(value: float) -> str:
    """Return an error as text."""
    if not math.isfinite(value):
        return "∞"
    return (
        f"{value:.4f}" if value < FEW else f"{value:,.0f}" if value < 1e6 else "> 10⁶"
    )


def epsilon_text(epsilon: float) -> str:
    """Return a chosen ε as typed, else rounded up."""
    return f"{epsilon:g}" if epsilon == round(epsilon, 4) else limit(epsilon, 4)


def _range_of(spread: Spread) -> tuple[float, float]:
    """Return a wide confidence interval of the median, given the spread only.

    The band from 5% to 95% is 3.29 standard deviations of a normal sample, and the
    median's standard error is 1.25 standard deviations over the square root of its
    size.
    """
    margin = CONFIDENCE_Z * 1.25 * (spread.high - spread.low) / 3.29 / math.sqrt(20)
    return spread.median - margin, spread.median + margin

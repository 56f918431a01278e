"""Results of the linear regression lab: numbers, and sentences based on them.

Errors are computed from the data and are not private.  The median of few repetitions is
uncertain, so two methods are ranked only if the ranges of their medians do not overlap.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np

from dpsgd_explorer.experiments.california_housing import housing
from dpsgd_explorer.experiments.california_housing.descents import (
    DescentSpec,
    PreparedHousing,
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
from dpsgd_explorer.regression.rates import RELEASED
from dpsgd_explorer.regression.spending import spent, steps_within
from dpsgd_explorer.regression.statistics import Statistics
from dpsgd_explorer.web.labs.regression.question import (
    METHODS,
    TOP_EPSILON,
    RegressionQuestion,
    affordable,
)
from dpsgd_explorer.web.questions.rounding import known_to, limit

CLOUD = 50
CONFIDENCE_Z = 1.96
FEW = 10  # larger errors are printed without decimals
NAMES = {
    **METHODS,
    "noisy_gd": "noisy gradient descent",
    "large_noise": f"descent with σ = {LARGE_NOISE:g}",
    "small_noise": f"descent with σ = {SMALL_NOISE:g}",
}
RATE_FACTORS = {"÷ 10": 0.1, "": 1.0, "× 10": 10.0}
REGIMES = {"large_noise": LARGE_NOISE, "small_noise": SMALL_NOISE}


@dataclass(frozen=True)
class Followed:
    """A descent with its errors and its spent ε along the steps."""

    spec: DescentSpec
    steps: tuple[int, ...]
    epsilons: tuple[float, ...]
    spreads: tuple[Spread, ...]

    @property
    def end(self) -> Spread:
        """Spread of the error after the last step."""
        return self.spreads[-1]

    def within(self, epsilon: float) -> Spread | None:
        """Return the error at the last point that spends at most epsilon, or None."""
        points = zip(self.epsilons, self.spreads, strict=True)
        return next((s for e, s in reversed(list(points)) if e <= epsilon), None)


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

    @classmethod
    def of(cls, name: str, sweep: Sweep) -> RankedMethod:
        """Return a method that was released at one ε."""
        return cls(name, sweep.spreads[0], median_range(sweep.mse[0]))

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
        waits: Keys of ``RATE_FACTORS`` and ``REGIMES``: long descents that may be
            computed now.
    """

    question: RegressionQuestion
    waits: Collection[str] = ()

    @property
    def evaluation_set(self) -> Statistics:
        """The data on which errors are measured."""
        return self.question.prepared_housing.evaluation_set

    @cached_property
    def clipped_mse(self) -> float:
        """Error of least squares on the bounded data, without noise."""
        theta = self.question.prepared_housing.statistics.theta
        return float(self.evaluation_set.mse_of(theta))

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
    def followed(self) -> dict[str, Followed]:
        """The descent at three rates, as far as available or awaited."""
        spec = self.question.run.spec
        return self._followed(
            {
                name: replace(spec, rate_factor=float(f"{spec.rate_factor * x:.9g}"))
                for name, x in RATE_FACTORS.items()
            }
        )

    @cached_property
    def regimes(self) -> dict[str, Followed]:
        """The notebook's two regimes up to ε = 2, as far as available or awaited."""
        spec, delta = self.question.run.spec, self.question.delta
        pays = spec.rate == RELEASED
        return self._followed(
            {
                name: replace(
                    spec,
                    noise_multiplier=noise,
                    steps=steps_within(TOP_EPSILON, noise, delta, pays),
                )
                for name, noise in REGIMES.items()
            }
        )

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
        main = self.followed.get("")
        return self.ranked({"noisy_gd": main} if main else {})

    def ranked(self, descents: Mapping[str, Followed]) -> tuple[RankedMethod, ...]:
        """Return SSP, AdaSSP and descents at the chosen ε, best median first."""
        variant, epsilon = self.question.variant, self.question.epsilon
        ranked = [RankedMethod.of(n, self.chosen[n][variant]) for n in METHODS]
        for name, descent in descents.items():
            if reached := descent.within(epsilon):
                ranked.append(RankedMethod(name, reached, _range_of(reached)))
        return tuple(sorted(ranked, key=lambda method: method.spread.median))

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

    def _followed(self, specs: Mapping[str, DescentSpec]) -> dict[str, Followed]:
        affordables = {name: affordable(spec) for name, spec in specs.items()}
        return {
            name: follow(spec, self.question.delta)
            for name, spec in affordables.items()
            if spec.is_at_hand or name in self.waits
        }


@lru_cache(maxsize=64)
def follow(spec: DescentSpec, delta: float) -> Followed:
    """Return a descent with its errors and its exact ε along the steps.

    Raises:
        QuotaError: another long descent is being computed.
    """
    path = trace(spec)
    noise, rate = spec.noise_multiplier, spec.descent.rate_noise_multiplier
    epsilons = tuple(spent(noise, count, delta, rate) for count in path.steps)
    return Followed(spec, path.steps, epsilons, path.spreads)


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
    return sweep(
        method,
        prepared_housing.statistics,
        epsilons,
        delta,
        np.random.default_rng(seed),
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

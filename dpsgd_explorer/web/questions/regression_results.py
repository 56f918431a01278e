"""What the linear-regression lab shows: numbers and the sentences they support.

Errors are computed from the data and are not private; a median of few repetitions is
a guess, so two methods are told apart only where the ranges of their medians are.
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
from dpsgd_explorer.web.questions.regression import METHODS, RegressionQuestion
from dpsgd_explorer.web.questions.rounding import known_to, limit

CLOUD = 50
CONFIDENCE_Z = 1.96
FEW = 10  # an error beyond it is printed whole
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
    """A descent's errors with what it had spent, null if it has yet to be computed."""

    spec: DescentSpec
    trace: Trace
    epsilons: tuple[float, ...]

    @property
    def end(self) -> Spread:
        """Of the error after the last step."""
        return self.trace.spreads[-1]

    def within(self, epsilon: float) -> Spread | None:
        """Return the error at the last point that has spent at most epsilon."""
        kept = [
            spread
            for spent, spread in zip(self.epsilons, self.trace.spreads, strict=True)
            if spent <= epsilon
        ]
        return kept[-1] if kept else None


@dataclass(frozen=True)
class RankedMethod:
    """One method at the ε that is looked at.

    Attributes:
        name: One of ``NAMES``.
        spread: Of the error.
        range: In which the median of infinitely many repetitions lies, at about 95 %.
    """

    name: str
    spread: Spread
    range: tuple[float, float]

    @property
    def median(self) -> str:
        """The median error, with the digits that its range supports."""
        if self.spread.median >= FEW:
            return mse(self.spread.median)
        return known_to(self.spread.median, *self.range)


@dataclass(frozen=True)
class View:
    """The answer to a question; parts are computed when they are looked at.

    Attributes:
        question: What was asked.
        waits: Whether a long descent may be computed now.
        compares_regimes: Whether the long one of the two regimes may be.
    """

    question: RegressionQuestion
    waits: bool = False
    compares_regimes: bool = False

    @property
    def evaluation_set(self) -> Statistics:
        """What errors are measured on."""
        return self.question.prepared_housing.evaluation_set

    @cached_property
    def clipped_mse(self) -> float:
        """Error of least squares on the bounded data, with no noise at all."""
        return float(
            self.evaluation_set.mse_of(self.question.prepared_housing.statistics.theta)
        )

    @cached_property
    def sweeps(self) -> dict[str, Sweep]:
        """SSP and AdaSSP at the notebook's budgets."""
        return {name: self._sweep(name, EPSILONS) for name in METHODS}

    @cached_property
    def chosen(self) -> dict[str, dict[str, Sweep]]:
        """Both ways to spend the budget looked at, by method and variant."""
        at = (self.question.epsilon,)
        return {
            name: {variant: self._sweep(name, at, variant) for variant in VARIANTS}
            for name in METHODS
        }

    @cached_property
    def specs(self) -> dict[str, DescentSpec]:
        """The descent, and the same with a tenth and ten times the rate."""
        factors = {"÷ 10": 0.1, "": 1.0, "× 10": 10.0}
        return {
            name: self.question.descent_spec(factor) for name, factor in factors.items()
        }

    @cached_property
    def followed(self) -> dict[str, Followed]:
        """The descents that are at hand, or were waited for."""
        wanted = {
            name: spec
            for name, spec in self.specs.items()
            if spec.is_at_hand or (self.waits and name == "")
        }
        return {name: self._follow(spec) for name, spec in wanted.items()}

    @cached_property
    def regimes(self) -> dict[str, Followed]:
        """The notebook's two regimes as far as they are at hand, or were waited for."""
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
        """How the method that is looked at splits its budget."""
        question = self.question
        method = question.perturbation(question.method)
        return method.budget(question.epsilon, question.delta)

    @cached_property
    def cloud(self) -> Array:
        """Released coefficients of the two chosen features, [50, 2]."""
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
        """Places of the two chosen features."""
        chosen = (self.question.first, self.question.second)
        return [housing.FEATURES.index(name) for name in chosen]

    @cached_property
    def ranking(self) -> tuple[RankedMethod, ...]:
        """The methods at the ε looked at, best median first."""
        return self._ranked({"noisy_gd": self.followed.get("")})

    @cached_property
    def regime_ranking(self) -> tuple[RankedMethod, ...]:
        """The same with both regimes in place of the descent that is set."""
        return self._ranked(self.regimes)

    def _ranked(
        self, descents: Mapping[str, Followed | None]
    ) -> tuple[RankedMethod, ...]:
        sweeps = {
            name: by_variant[self.question.variant]
            for name, by_variant in self.chosen.items()
        }
        found = [
            RankedMethod(name, sweep.spreads[0], median_range(sweep.mse[0]))
            for name, sweep in sweeps.items()
        ]
        for name, descent in descents.items():
            reached = descent.within(self.question.epsilon) if descent else None
            if reached is not None:
                found.append(RankedMethod(name, reached, _range_of(reached)))
        return tuple(sorted(found, key=lambda ranked: ranked.spread.median))

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
        found = trace(spec)
        return Followed(
            spec, found, spent_along(spec, found.steps, self.question.delta)
        )


@lru_cache(maxsize=64)
def spent_along(
    spec: DescentSpec, steps: tuple[int, ...], delta: float
) -> tuple[float, ...]:
    """Return what a descent has spent after so many steps, exactly."""
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
    """Return a sweep; ``draws`` are repetitions and seed."""
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
    """Return the order statistics between which the true median lies, at about 95 %.

    The number of [R] values below the true median is binomial (R, 1/2).
    """
    ordered, count = np.sort(values), len(values)
    away = CONFIDENCE_Z * math.sqrt(count) / 2
    low = max(0, math.floor(count / 2 - away))
    high = min(count - 1, math.ceil(count / 2 + away))
    return float(ordered[low]), float(ordered[high])


def verdict(question: RegressionQuestion, ranking: Sequence[RankedMethod]) -> str:
    """Return who wins at the ε looked at, as a sentence."""
    best, *others = ranking
    told = "; ".join(f"{NAMES[s.name]} {s.median}" for s in ranking)
    at = f"At ε = {epsilon_text(question.epsilon)}"
    near = [s for s in others if s.range[0] <= best.range[1]]
    if near:
        names = " and ".join(NAMES[s.name] for s in (best, *near))
        return f"{at}, {names} are too close to distinguish ({told})"
    return f"{at}, {NAMES[best.name]} has the least error ({told})"


def mse(value: float) -> str:
    """Return an error as it is printed."""
    if not math.isfinite(value):
        return "∞"
    return (
        f"{value:.4f}" if value < FEW else f"{value:,.0f}" if value < 1e6 else "> 10⁶"
    )


def epsilon_text(epsilon: float) -> str:
    """Return a chosen ε as it was typed, else rounded up."""
    return f"{epsilon:g}" if epsilon == round(epsilon, 4) else limit(epsilon, 4)


def _range_of(spread: Spread) -> tuple[float, float]:
    """Return a wide range for a median of which only the spread was kept.

    The 5 to 95 % band is 3.29 standard deviations of a normal sample, whose median has
    1.25 of them over the root of its size.
    """
    away = CONFIDENCE_Z * 1.25 * (spread.high - spread.low) / 3.29 / math.sqrt(20)
    return spread.median - away, spread.median + away

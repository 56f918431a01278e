"""Mechanisms that an odometer composes with DP-SGD, and their privacy curves.

The pair with the largest privacy loss is its own mirror image for each of them, so that
one curve δ(ε) holds in both directions.  With s the sensitivity:

| mechanism | δ(ε) for ε >= 0 |
|---|---|
| Laplace, scale b, r = s/b | (1 - e^((ε - r)/2))₊ |
| discrete Gaussian, p ∝ e^(-k²/2b²) | Σ (p(k - s) - e^ε p(k))₊ over whole k |
| randomized response, probabilities t of the true bucket, l of another | (t - e^ε l)₊ |
| an (ε₀, δ₀) guarantee | δ₀ + (1 - δ₀) (e^ε₀ - e^ε)₊ / (1 + e^ε₀) |
| steps on batches of fixed size, one record replaced | ``fixed_size`` |

Sensitivities are those for one record added or removed.  For a replaced record they
count twice: the query without the old record is between both.

Source: Laplace: Dwork et al. (2006), "Calibrating Noise to Sensitivity"; discrete
Gaussian: Canonne, Kamath and Steinke (2020), arXiv:2004.00010v4; randomized response:
Kairouz, Bonawitz and Ramage (2016), arXiv:1602.07387; the last row: Kairouz, Oh and
Viswanath (2015), arXiv:1311.0776, Theorem 3.2.

Notation: K values of ε.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from typing import ClassVar

import numpy as np

from dpsgd_explorer.accounting.core import validation
from dpsgd_explorer.accounting.core.intervals import Floats, Interval
from dpsgd_explorer.accounting.core.neighboring_relation import (
    REPLACE_ONE,
    NeighboringRelation,
)
from dpsgd_explorer.accounting.core.phase import Phase
from dpsgd_explorer.accounting.fixed_size import fixed_size_deltas, fixed_size_interval
from dpsgd_explorer.accounting.sampling_schemes import fixed_size_reason

#: Round-off of a curve, relative; and of a sum of differences over the tail of P.
ROUND_OFF = 1e-12
SUM_ROUND_OFF = 1e-13
#: Largest scale and sensitivity of discrete noise, which bound the sum's terms.
MAX_DISCRETE_SCALE = 100_000
#: Standard deviations beyond which the discrete noise has no probability in floats.
REACH = 40
#: Largest scale and sensitivity of continuous noise.
MAX_SCALE = 1e12


class Mechanism(ABC):
    """One mechanism whose largest privacy loss has a known curve.

    Attributes:
        name: Name in a stored odometer.
        is_attained: If True, the mechanism has this curve itself.  If False, the curve
            is the largest of a guarantee, and no lower bound on ε follows from it.
    """

    name: ClassVar[str]
    is_attained: ClassVar[bool] = True

    @abstractmethod
    def curve(self, losses: Floats, relation: NeighboringRelation) -> Floats:
        """Returns δ at each ε >= 0; [K] -> [K]."""

    @abstractmethod
    def pure_epsilon(self, relation: NeighboringRelation) -> float:
        """Returns the largest finite loss, infinite if there is none."""

    def concentration(self, relation: NeighboringRelation) -> float:
        """Returns ρ of zero-concentrated privacy, infinite if none is known."""
        return math.inf

    @property
    def failure(self) -> float:
        """The probability of an infinite loss."""
        return 0.0

    def reason(self, relation: NeighboringRelation) -> str:
        """Returns the reason why the curve does not hold for the relation, or ""."""
        return ""

    def top(self, tail: float, relation: NeighboringRelation) -> float:
        """Returns an ε beyond which δ exceeds ``failure`` by at most ``tail``."""
        return self.pure_epsilon(relation)

    def round_off(self, losses: Floats, relation: NeighboringRelation) -> Floats:
        """Returns bounds on the error of ``curve``; [K] -> [K]."""
        return ROUND_OFF * self.curve(losses, relation)


@dataclass(frozen=True)
class LaplaceMechanism(Mechanism):
    """One number with Laplace noise.

    >>> LaplaceMechanism(scale=2.0).pure_epsilon(NeighboringRelation("replace_one"))
    1.0

    Attributes:
        scale: Mean b of the absolute value of the noise, greater than 0.
        sensitivity: Largest change of the number by one added or removed record.

    Raises:
        AccountingError: names the attribute that is outside its domain.
    """

    scale: float
    sensitivity: float = 1.0
    name: ClassVar[str] = "laplace"

    def __post_init__(self) -> None:
        for name in ("scale", "sensitivity"):
            object.__setattr__(self, name, _positive(name, getattr(self, name)))

    def pure_epsilon(self, relation: NeighboringRelation) -> float:
        return relation.sensitivity * self.sensitivity / self.scale

    def curve(self, losses: Floats, relation: NeighboringRelation) -> Floats:
        gap = np.minimum(losses - self.pure_epsilon(relation), 0.0)
        return np.asarray(-np.expm1(gap / 2))


@dataclass(frozen=True)
class DiscreteGaussianMechanism(Mechanism):
    """One whole number with discrete Gaussian noise.

    >>> one = DiscreteGaussianMechanism(scale=10)
    >>> curve = one.curve(np.array([0.1]), NeighboringRelation("add_or_remove_one"))
    >>> f"{curve[0]:.4g}"
    '0.008762'

    Attributes:
        scale: b of the probabilities e^(-k²/2b²), up to 100,000; about the standard
            deviation.
        sensitivity: Largest change of the number by one added or removed record, whole.

    Raises:
        AccountingError: names the attribute that is outside its domain.
    """

    scale: float
    sensitivity: int = 1
    name: ClassVar[str] = "discrete_gaussian"

    def __post_init__(self) -> None:
        scale = _positive("scale", self.scale)
        if not 0.01 <= scale <= MAX_DISCRETE_SCALE:
            validation.refuse("scale", f"from 0.01 to {MAX_DISCRETE_SCALE}", scale)
        most = MAX_DISCRETE_SCALE
        whole = validation.whole("sensitivity", self.sensitivity, 1, most)
        object.__setattr__(self, "scale", scale)
        object.__setattr__(self, "sensitivity", whole)

    def pure_epsilon(self, relation: NeighboringRelation) -> float:
        return math.inf

    def concentration(self, relation: NeighboringRelation) -> float:
        """Returns ρ, as for continuous noise (Canonne et al. 2020, Theorem 4)."""
        shift = relation.sensitivity * self.sensitivity
        return shift**2 / (2 * self.scale**2)

    def top(self, tail: float, relation: NeighboringRelation) -> float:
        losses, p_tails, _ = self._tails(relation)
        return max(float(losses[np.searchsorted(-p_tails, -tail)]), 0.0)

    def curve(self, losses: Floats, relation: NeighboringRelation) -> Floats:
        ends, p_tails, q_tails = self._tails(relation)
        index = np.searchsorted(ends, losses)
        with np.errstate(over="ignore", invalid="ignore"):
            values = p_tails[index] - np.exp(losses) * q_tails[index]
        return np.where(q_tails[index] > 0, np.maximum(values, 0.0), p_tails[index])

    def round_off(self, losses: Floats, relation: NeighboringRelation) -> Floats:
        ends, p_tails, _ = self._tails(relation)
        return np.asarray(SUM_ROUND_OFF * p_tails[np.searchsorted(ends, losses)])

    def _tails(self, relation: NeighboringRelation) -> tuple[Floats, Floats, Floats]:
        """Returns losses, and P and Q of these and larger ones; [M], [M + 1], [M + 1].

        Losses rise with the output k.  Each P and Q is the law of the noise, moved.
        """
        shift = int(relation.sensitivity) * self.sensitivity
        reach = math.ceil(REACH * self.scale) + 1
        k = np.arange(-reach, reach + shift + 1, dtype=float)
        p, q = (np.exp(-((k - at) ** 2) / (2 * self.scale**2)) for at in (shift, 0))
        total = math.fsum(q)
        tails = [np.cumsum(x[::-1])[::-1] / total for x in (p, q)]
        losses = (2 * k - shift) * shift / (2 * self.scale**2)
        p_tails, q_tails = (np.append(x, 0.0) for x in tails)
        return losses, p_tails, q_tails


@dataclass(frozen=True)
class RandomizedResponse(Mechanism):
    """An answer of one record among some buckets, sometimes replaced by a random one.

    It protects the answer of a record, not its presence: only for a replaced record.

    >>> fair_coin = RandomizedResponse(noise_parameter=0.5)
    >>> round(fair_coin.pure_epsilon(NeighboringRelation("replace_one")), 4)
    1.0986

    Attributes:
        noise_parameter: Probability that the answer is a uniformly random bucket
            instead of the true one, greater than 0 and at most 1.
        num_buckets: Number of buckets, at least 2.

    Raises:
        AccountingError: names the attribute that is outside its domain.
    """

    noise_parameter: float
    num_buckets: int = 2
    name: ClassVar[str] = "randomized_response"

    def __post_init__(self) -> None:
        noise = _positive("noise_parameter", self.noise_parameter)
        if noise > 1:
            validation.refuse("noise_parameter", "at most 1", noise)
        buckets = validation.whole("num_buckets", self.num_buckets, 2, 2**31)
        object.__setattr__(self, "noise_parameter", noise)
        object.__setattr__(self, "num_buckets", buckets)

    def reason(self, relation: NeighboringRelation) -> str:
        if relation is not REPLACE_ONE:
            return (
                "neighboring_relation must be 'replace_one' for randomized response, "
                "because the number of answers shows whether a record is there, got "
                f"{str(relation)!r}. If absent records answer at random as well, add "
                "EpsilonDelta(epsilon) with the ε of one answer."
            )
        return ""

    @property
    def _other(self) -> float:
        return self.noise_parameter / self.num_buckets

    def pure_epsilon(self, relation: NeighboringRelation) -> float:
        return math.log1p((1 - self.noise_parameter) / self._other)

    def curve(self, losses: Floats, relation: NeighboringRelation) -> Floats:
        gap = np.minimum(losses - self.pure_epsilon(relation), 0.0)
        true = 1 - self.noise_parameter + self._other
        return np.asarray(-true * np.expm1(gap))


@dataclass(frozen=True)
class EpsilonDelta(Mechanism):
    """Any mechanism with an (ε, δ) guarantee for the neighbouring relation in use.

    >>> EpsilonDelta(1.0, 1e-6).failure
    1e-06

    Attributes:
        epsilon: ε of the guarantee, at least 0.
        delta: δ of the guarantee, from 0 to 1, 1 excluded.

    Raises:
        AccountingError: names the attribute that is outside its domain.
    """

    epsilon: float
    delta: float = 0.0
    name: ClassVar[str] = "epsilon_delta"
    is_attained: ClassVar[bool] = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", validation.epsilon(self.epsilon))
        delta = validation.finite("delta", self.delta)
        if not 0 <= delta < 1:
            validation.refuse("delta", "at least 0 and less than 1", self.delta)
        object.__setattr__(self, "delta", delta)

    @property
    def failure(self) -> float:
        """The probability of an infinite loss, δ."""
        return self.delta

    def pure_epsilon(self, relation: NeighboringRelation) -> float:
        return self.epsilon

    def curve(self, losses: Floats, relation: NeighboringRelation) -> Floats:
        gap = np.minimum(losses - self.epsilon, 0.0)
        likely = -np.expm1(gap) / (1 + math.exp(-min(self.epsilon, 700.0)))
        return np.asarray(self.delta + (1 - self.delta) * likely)


@dataclass(frozen=True)
class FixedSizeSteps(Mechanism):
    """Steps of DP-SGD on batches of fixed size, for one replaced record.

    Each step draws a batch of m of N records, without replacement.

    >>> steps = FixedSizeSteps(sample_rate=0.02, noise_multiplier=1.5, steps=50)
    >>> round(steps.top(1e-6, NeighboringRelation("replace_one")), 3)
    3.407

    Attributes:
        sample_rate: Batch size over N, in (0, 1].
        noise_multiplier: Noise std over the clipping bound, at least 0.
        steps: Number of steps, at least 1.

    Raises:
        AccountingError: names the attribute that is outside its domain.

    Source: as ``fixed_size_interval``.
    """

    sample_rate: float
    noise_multiplier: float
    steps: int
    name: ClassVar[str] = "fixed_size"
    is_attained: ClassVar[bool] = False

    def __post_init__(self) -> None:
        validation.whole("steps", self.steps, 1, validation.MAX_STEPS)
        checked = Phase(self.sample_rate, self.noise_multiplier, self.steps)
        for name, value in asdict(checked).items():
            object.__setattr__(self, name, value)

    @property
    def phase(self) -> Phase:
        """The sample rate, noise and steps."""
        return Phase(self.sample_rate, self.noise_multiplier, self.steps)

    def pure_epsilon(self, relation: NeighboringRelation) -> float:
        return math.inf

    def reason(self, relation: NeighboringRelation) -> str:
        return fixed_size_reason(relation)

    def interval(self, delta: float) -> Interval:
        """Returns the interval of ε at delta in (0, 1)."""
        return fixed_size_interval(**asdict(self), delta=delta)

    def top(self, tail: float, relation: NeighboringRelation) -> float:
        """Returns an ε beyond which δ is at most ``tail``, infinite without a curve."""
        is_bounded = fixed_size_deltas(self.phase, np.zeros(0)) is not None
        return self.interval(tail).value if is_bounded else math.inf

    def curve(self, losses: Floats, relation: NeighboringRelation) -> Floats:
        curve = fixed_size_deltas(self.phase, losses)
        assert curve is not None, "top is infinite where there is no curve"
        return curve

    def round_off(self, losses: Floats, relation: NeighboringRelation) -> Floats:
        """Returns 0: the curve is an upper bound."""
        return np.zeros_like(losses)


#: The mechanisms by their names in a stored odometer.
ADDED_MECHANISMS: dict[str, type[Mechanism]] = {
    cls.name: cls
    for cls in (
        LaplaceMechanism,
        DiscreteGaussianMechanism,
        RandomizedResponse,
        EpsilonDelta,
        FixedSizeSteps,
    )
}


def _positive(name: str, value: object) -> float:
    number = validation.finite(name, value)
    if not 1 / MAX_SCALE <= number <= MAX_SCALE:
        rule = f"greater than 0, from {1 / MAX_SCALE:g} to {MAX_SCALE:g}"
        validation.refuse(name, rule, value)
    return number

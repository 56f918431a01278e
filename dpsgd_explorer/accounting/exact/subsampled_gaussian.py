"""The privacy loss of a step on a Poisson sample.

In v = z/σ, the noise in units of its standard deviation, let w = e^((v - 1/2σ)/σ) be
the ratio of N(1, σ²) to N(0, σ²), and y(v) = log(1 - q + q w):

| direction | density of P over N(0, 1) | ℓ |
|---|---|---|
| remove | e^y(v) | y(v) |
| add | 1 | -y(v) |
| replace | e^y(v) | y(v) - y(-v) |

The integrals over v are trapezoid sums with nodes where

    t(v) = v / d + U ℓ(v) / 2π

is a whole number: a spacing of d, and one node more for every turn of the fastest
e^(iuℓ), u <= U.  The integrand is analytic for |Im v| < πσ (there 1 - q + q w = 0).
On v + iτ its modulus grows by e^(u Im ℓ) at most, and e^(2π Im t) by as much and by
e^(2πτ/d) more.  So for all u up to U the error is at most

    2 B(τ) / (e^(2πτ/d) - 1),    B(τ) = ∫ |integrand of E_P[e^(cℓ)] at v + iτ| dv,

for every τ < πσ, and d is taken as this asks.

The same shift bounds what is cut off.  On a path v + iτ(v) on which Im ℓ >= 0 the
integrand of E_P[e^((c + iu)ℓ)] has the factor e^(-u Im ℓ), which falls with u: the
integral of its modulus at u = U bounds the transform at every u >= U.

Source: trapezoid rule: Trefethen and Weideman (2014), SIAM Review 56(3);
the three pairs: Zhu, Dong and Wang (2022), arXiv:2106.08567v2, for add and remove.

Notation: J tilts c, M nodes v, N frequencies u, H heights τ.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dpsgd_explorer.accounting.core.accountant import Floats
from dpsgd_explorer.accounting.core.fourier import (
    NEGLIGIBLE,
    inverse,
    log1p,
    log_sum,
    normalised,
    transform_excess,
)
from dpsgd_explorer.accounting.core.mixture import log_mixture, shifted_mixture
from dpsgd_explorer.accounting.exact.privacy_loss import USELESS, Direction, Line, Loss
from dpsgd_explorer.accounting.exact.single_step import STEP_CURVES, single_step_epsilon

REACH = 11.0  # standard deviations on either side; beyond lies less than 1e-27
FAR = 150.0  # the same where the growth off the real line matters
MOST_REACH = 2e4
LEAST_ERROR = 1e-16  # below the round-off of a Fourier transform
MOST_POINTS = 1 << 17  # of a Fourier transform
HOPELESS = 1e-3  # error of a transform of size 1
MOST_FOLDS = 3  # as many periods of nodes
SUM_NOISE = 1e-15  # of a sum of positive terms and its logarithm, estimated
ROUND_OFF = 2e-15  # of e^(ihℓ) - 1, relative, estimated: a few last places
LOG_ROOT = math.log(2 * math.pi) / 2  # of the normal density's denominator
LARGEST_ANGLE = 1.5  # of the path that bounds the transform, below π
HEIGHTS = np.linspace(0.12, 0.96, 8)  # of the strip's, or of HIGHEST
HIGHEST = 12.0
MOST_REFINEMENTS = 8
NEAR = 1e-7


@dataclass(frozen=True)
class Sampled(Loss):
    """A step on a Poisson sample, with sample rate q < 1 and noise multiplier σ."""

    sample_rate: float
    noise_multiplier: float
    direction: Direction

    @property
    def largest_tilt(self) -> float:  # type: ignore[override]  # as an attribute
        """The nodes reach to (1 + tilt) / σ."""
        share = self.sample_rate if self.direction == "add" else 1.0
        return MOST_REACH * self.noise_multiplier / share

    def moments(self, tilts: Floats) -> Floats:
        v, weight, loss, _ = self.nodes(
            float(tilts.min()), float(tilts.max()), self.coarse() / 2
        )
        logs = weight + tilts[:, None] * loss  # [J, M]
        top = logs.max(axis=1)
        shares = np.exp(logs - top[:, None])
        sums = shares.sum(axis=1)
        mean = shares @ loss / sums
        spread = shares @ (loss * loss) / sums - mean * mean
        step = (v[1] - v[0]) / math.sqrt(2 * math.pi)
        return np.array([top + np.log(sums * step), mean, np.maximum(spread, 0.0)])

    def line(
        self,
        tilt: float,
        spacing: float,
        count: int,
        tolerance: float,
        products: int,
    ) -> Line | None:
        nodes = self._place(tilt, spacing * count, tolerance, products // count)
        if nodes is None:
            return self._dense_line(tilt, spacing, count, tolerance)
        v, density = nodes
        weight, loss, _ = self._log_integrand(v)
        logs = weight + tilt * loss - np.log(density)
        shares, log_total, left_out, loss = normalised(logs, loss)
        mean = float(shares @ loss)
        loss = loss - mean
        excess = transform_excess(shares, spacing * loss, count)
        width = spacing * float(shares @ np.abs(loss))  # >= E|e^(ihℓ) - 1|
        noise = ROUND_OFF * np.minimum(width * np.arange(count), 2.0)
        error = tolerance + left_out
        return Line(
            log_total - LOG_ROOT,
            mean,
            log1p(excess),
            error + noise,
            error + SUM_NOISE * (1 + abs(log_total)),
        )

    def _place(
        self, tilt: float, frequency: float, tolerance: float, most: int
    ) -> tuple[Floats, Floats] | None:
        """Return nodes for all frequencies up to this, and dt/dv there; [M], [M].

        Returns:
            None if there would be more nodes than may be.
        """
        base = _tilted(self, tilt)
        kept = np.flatnonzero(base.logs > base.logs.max() - NEGLIGIBLE - 10)
        span = slice(kept[0], kept[-1] + 1)
        fine = self._spacing(tilt, tolerance)
        turns = frequency / (2 * math.pi) * (-1 if self.direction == "add" else 1)
        centre = int(np.argmax(base.logs))
        v0, loss0 = float(base.v[centre]), float(base.loss[centre])
        ends = (base.v[span] - v0) / fine + turns * (base.loss[span] - loss0)
        t: Floats = np.arange(math.ceil(ends[0]), math.floor(ends[-1]) + 1.0)
        if len(t) > most:
            return None
        v = inverse(t, base.v[span], ends, 1 / fine + turns * base.slope[span])
        for _ in range(MOST_REFINEMENTS):
            _, loss, slope = self._log_integrand(v)
            step = (v - v0) / fine + turns * (loss - loss0) - t
            step /= 1 / fine + turns * slope
            v = v - step
            if np.abs(step).max() < NEAR:  # whose square is below the tolerance
                break
        return v, 1 / fine + turns * self._log_integrand(v)[2]

    def _dense_line(
        self, tilt: float, spacing: float, count: int, tolerance: float
    ) -> Line | None:
        """Return the same from nodes evenly spaced in ℓ, by a Fourier transform.

        The error of this trapezoid rule is the transform itself beyond the frequency
        of the nodes, which ``log_decay`` bounds.

        Returns:
            None if the error would be useless.
        """
        if self.direction == "replace":
            return None
        size, error = self._dense_size(tilt, spacing, count, tolerance)
        period = 2 * math.pi / spacing
        edge = math.log1p(-self.sample_rate)  # y > log(1 - q)
        base = _tilted(self, tilt)
        kept = base.logs > base.logs.max() - NEGLIGIBLE
        reach = float(np.abs(base.loss[kept]).max()) - edge
        folds = math.ceil(reach / period)
        error += ROUND_OFF
        if error >= min(USELESS * tolerance, HOPELESS) or folds > MOST_FOLDS:
            return None
        points = min(folds * size, math.ceil(reach / period * size))
        height: Floats = np.asarray(np.arange(0.5, points) * (period / size))
        sign = -1.0 if self.direction == "add" else 1.0
        logs = self._log_density(height, tilt, sign)
        shares, log_total, left_out, y = normalised(logs, height + edge)
        mean = float(shares @ y)
        padded = np.zeros(folds * size)
        first = int(np.searchsorted(height + edge, y[0]))
        padded[first : first + len(y)] = shares
        sums = np.fft.rfft(padded.reshape(folds, size).sum(axis=0))[:count].conj()
        start = period / size / 2 + edge - mean
        ratios = sums * np.exp(1j * spacing * np.arange(count) * start)
        error += left_out
        logs = np.log(np.maximum(np.abs(ratios), error)) + sign * 1j * np.angle(ratios)
        log_moment = log_total + math.log(period / size) - LOG_ROOT
        noise = SUM_NOISE * (1 + abs(log_moment))
        return Line(log_moment, sign * mean, logs, np.full(count, error), error + noise)

    def deltas(self, epsilons: Floats) -> Floats:
        q, sigma = self.sample_rate, self.noise_multiplier
        return STEP_CURVES[self.direction](q, sigma, epsilons)

    def span(self, tail: float) -> tuple[float, float]:
        q, sigma = self.sample_rate, self.noise_multiplier
        if self.direction == "replace":
            high = single_step_epsilon(q, sigma, tail, "replace_one")
            return -high, high
        high = single_step_epsilon(q, sigma, tail, "add_or_remove_one")
        edge = math.log1p(-q)
        return (edge, high) if self.direction == "remove" else (-high, -edge)

    def _dense_size(
        self, tilt: float, spacing: float, count: int, tolerance: float
    ) -> tuple[int, float]:
        """Return how many nodes a period needs, and the error that remains."""
        decay = self.log_decay(tilt)
        size = 1 << (4 * count - 1).bit_length()
        while True:
            error = 4 * math.exp(decay(spacing * (size - count)))
            if error < max(tolerance, LEAST_ERROR) or size >= MOST_POINTS:
                return size, error
            size *= 2

    def _log_density(self, height: Floats, tilt: float, sign: float) -> Floats:
        """Return log of the tilted density of y at log(1 - q) + height, times √2π."""
        q, sigma = self.sample_rate, self.noise_multiplier
        ratio = np.expm1(height) * (1 - q) / q  # w
        v = sigma * np.log(ratio) + 0.5 / sigma
        loss = sign * (height + math.log1p(-q))
        weight = loss if sign > 0 else 0.0
        return weight + tilt * loss - 0.5 * v * v - np.log(log_mixture(v, q, sigma)[1])

    def log_decay(self, tilt: float) -> Callable[[float], float]:
        base = _tilted(self, tilt)
        sigma = self.noise_multiplier
        most = LARGEST_ANGLE * sigma
        strengths = np.array([[0.5], [1.0]]) / (1 + 1 / sigma**2)
        size, bend = np.abs(base.slope), self._curvature(base.v)

        def bound(frequency: float) -> float:
            """Return the lower one of two sums of |integrand| on paths in the strip."""
            pull = strengths * frequency
            room = most + pull * size
            height = most * pull * size / room  # [2, M]
            steep = most * most * pull * bend / (room * room)
            weight, loss, turn = self._shifted(base.v, height)
            logs = weight + tilt * loss - frequency * turn
            logs += 0.5 * np.log1p(steep * steep)
            return min(0.0, *(log_sum(path) - base.log_total for path in logs))

        return bound

    def _spacing(self, tilt: float, tolerance: float) -> float:
        """Return the spacing d of nodes at frequency 0 for this relative error."""
        base = _tilted(self, tilt)
        v, log_total = base.v[::2], base.log_total - math.log(2)
        heights = min(math.pi * self.noise_multiplier, HIGHEST) * HEIGHTS  # [H]
        weight, loss, _ = self._shifted(v, heights[:, None])  # [H, M]
        logs = weight + tilt * loss
        top = logs.max(axis=1)
        growth = top + np.log(np.exp(logs - top[:, None]).sum(axis=1)) - log_total
        wanted = growth + math.log(2 / tolerance)
        return min(float((2 * math.pi * heights / wanted).max()), self.coarse())

    def coarse(self) -> float:
        return 0.5 * min(max(self.noise_multiplier, 0.02), 1.0)

    def nodes(
        self, low: float, high: float, spacing: float
    ) -> tuple[Floats, Floats, Floats, Floats]:
        """Return where the integrand with tilts from low to high is not negligible.

        The slope of y lies in [0, 1/σ], left of 0 in [0, q/σ]: behind the ends the
        integrand falls at least as fast as a normal density.

        Returns:
            Nodes v, log density of P, loss and its slope there, each [M].
        """
        left, right = {
            "remove": (0.0, 1 + high),
            "add": (-high * self.sample_rate, 0.0),
            "replace": (-high, 1 + high),
        }[self.direction]
        first = math.floor((left / self.noise_multiplier - REACH) / spacing)
        last = math.ceil((right / self.noise_multiplier + REACH) / spacing)
        v: Floats = np.asarray(spacing * np.arange(first, last + 1))
        weight, loss, slope = self._log_integrand(v)
        ends = [weight + low * loss, weight + high * loss]
        kept = np.flatnonzero(
            np.any([logs > logs.max() - FAR for logs in ends], axis=0)
        )
        span = slice(kept[0], kept[-1] + 1)
        return v[span], weight[span], loss[span], slope[span]

    def _log_integrand(self, v: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the log density of P, times √2π, the privacy loss, and its slope."""
        q, sigma = self.sample_rate, self.noise_multiplier
        normal = -0.5 * v * v
        y, slope = log_mixture(v, q, sigma)
        if self.direction == "add":
            return normal, -y, -slope
        if self.direction == "remove":
            return normal + y, y, slope
        other, back = log_mixture(-v, q, sigma)
        return normal + y, y - other, slope + back

    def _shifted(self, v: Floats, height: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the real parts of both at v ± i height, and |Im ℓ|; [..., M].

        The loss falls with v if a record is added: the path is then the lower one,
        on which Im ℓ is as positive.
        """
        q, sigma = self.sample_rate, self.noise_multiplier
        normal = 0.5 * (height * height - v * v)
        y, turn = shifted_mixture(v, height, q, sigma)
        if self.direction == "add":
            return normal, -y, turn
        if self.direction == "remove":
            return normal + y, y, turn
        other, back = shifted_mixture(-v, height, q, sigma)
        return normal + y, y - other, turn + back

    def _curvature(self, v: Floats) -> Floats:
        """Return d|ℓ'|/dv."""
        q, sigma = self.sample_rate, self.noise_multiplier

        def bend(v: Floats) -> Floats:
            slope = log_mixture(v, q, sigma)[1]
            return slope * (1 / sigma - slope)

        return bend(v) - bend(-v) if self.direction == "replace" else bend(v)


@dataclass(frozen=True)
class _Tilted:
    """Where a step's integrand with one tilt is not negligible; [M] each.

    Attributes:
        v: Evenly spaced nodes.
        logs: Log of the integrand.
        loss: The privacy loss.
        slope: Its derivative.
        log_total: Of the sum of the integrand.
    """

    v: Floats
    logs: Floats
    loss: Floats
    slope: Floats
    log_total: float


@lru_cache(maxsize=256)
def _tilted(step: Sampled, tilt: float) -> _Tilted:
    """Return the nodes that every evaluation at a tilt starts from."""
    v, weight, loss, slope = step.nodes(tilt, tilt, step.coarse() / 2)
    logs = weight + tilt * loss
    return _Tilted(v, logs, loss, slope, log_sum(logs))

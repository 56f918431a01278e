"""The privacy loss of a step on a Poisson sample.

Let v = z/σ be the noise in units of its standard deviation, w = e^((v - 1/2σ)/σ) the
ratio of N(1, σ²) to N(0, σ²), and y(v) = log(1 - q + q w).  Then

| direction | density of P over N(0, 1) | ℓ |
|---|---|---|
| remove | e^y(v) | y(v) |
| add | 1 | -y(v) |
| replace | e^y(v) | y(v) - y(-v) |

**Transform.**  E_P[e^(sℓ)] is a trapezoid sum over v.  Its nodes lie where

    t(v) = v / d + U ℓ(v) / 2π

is an integer: with spacing d, and one more node per revolution of e^(iUℓ), which
oscillates fastest.  The integrand is analytic for |Im v| < πσ; there 1 - q + q w = 0.
On v + iτ its modulus grows by e^(u Im ℓ) at most.  The factor e^(2π Im t), by which the
trapezoid rule damps it, grows by as much and by e^(2πτ/d) more.  So for all u <= U the
error is at most

    2 B(τ) / (e^(2πτ/d) - 1),    B(τ) = ∫ |integrand of E_P[e^(cℓ)] at v + iτ| dv,

for every τ < πσ.  d is chosen so that this is the tolerance.  Where that takes too many
nodes, they are evenly spaced in ℓ, and a fast Fourier transform gives all frequencies;
its error is the transform itself beyond the frequency of the nodes.

**Decay.**  On a path v + iτ(v) with Im ℓ >= 0 the integrand of E_P[e^((c + iu)ℓ)] has
the factor e^(-u Im ℓ), which falls with u.  The integral of its modulus at u = U
therefore bounds the transform at every u >= U.

Source: the trapezoid rule's error: Trefethen and Weideman (2014), SIAM Review 56(3),
section 5; the pairs P, Q: Zhu, Dong and Wang (2022), arXiv:2106.08567v2, for add and
remove.

Notation: J tilts c, M nodes v, N frequencies u, H heights τ, K values of ε.
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
from dpsgd_explorer.accounting.core.log_space import log_mixture, shifted_mixture
from dpsgd_explorer.accounting.core.neighboring_relation import (
    ADD_OR_REMOVE_ONE,
    REPLACE_ONE,
)
from dpsgd_explorer.accounting.core.tolerances import TOLERANCES
from dpsgd_explorer.accounting.exact.privacy_loss import (
    ContourGrid,
    Direction,
    PrivacyLoss,
    Transform,
)
from dpsgd_explorer.accounting.exact.single_step import STEP_CURVES, single_step_epsilon

NODE_REACH = 11.0  # standard deviations beyond the modes; outside lies less than 1e-27
NODE_LOG_DROP = 150.0  # below its maximum the integrand is dropped, grown by τ or not
LARGEST_CENTER = 2e4  # standard deviations from 0 to the mode at the largest tilt
MARGIN_LOG = 10  # added to NEGLIGIBLE where nodes are placed, then normalised
MAX_FFT_POINTS = 1 << 17
MAX_FOLDS = 3  # periods of the loss grid that nodes may cover
MAX_NEWTON_STEPS = 8  # per node; from a cubic interpolant two or three are enough
LOG_ROOT_TWO_PI = math.log(2 * math.pi) / 2  # log of the normal density's denominator
LARGEST_ANGLE = 1.5  # Im v / σ of the path that bounds the transform, below π
STRIP_SHARES = np.linspace(0.12, 0.96, 8)  # heights τ tried, over min(πσ, HIGHEST)
HIGHEST = 12.0  # standard deviations


@dataclass(frozen=True)
class SubsampledGaussianLoss(PrivacyLoss):
    """The loss of a step on a Poisson sample.

    The cumulants at s = 1 give the Rényi divergence of order 2, which for q = 0.1 and
    σ = 1 is log(1 + q² (e^(1/σ²) - 1)) = log 1.0171828:

    >>> step = SubsampledGaussianLoss(0.1, 1.0, "remove")
    >>> round(float(step.cumulants(np.array([1.0]))[0, 0]), 10)
    0.0170368632

    Attributes:
        sample_rate: q, in (0, 1).
        noise_multiplier: σ, noise std over the sensitivity, greater than 0.
        direction: Which of P and Q contains the record.
    """

    sample_rate: float
    noise_multiplier: float
    direction: Direction

    @property
    def largest_tilt(self) -> float:  # type: ignore[override]  # as an attribute
        """The tilt at which the mode lies LARGEST_CENTER from 0: (1 + tilt) / σ."""
        share = self.sample_rate if self.direction == "add" else 1.0
        return LARGEST_CENTER * self.noise_multiplier / share

    def cumulants(self, tilts: Floats) -> Floats:
        """Return K, K' and K'' by a trapezoid sum with half the coarse spacing."""
        v, weight, loss, _ = self.nodes(
            float(tilts.min()), float(tilts.max()), self.coarse_spacing() / 2
        )
        logs = weight + tilts[:, None] * loss  # [J, M]
        top = logs.max(axis=1)
        shares = np.exp(logs - top[:, None])
        sums = shares.sum(axis=1)
        mean = shares @ loss / sums
        variance = shares @ (loss * loss) / sums - mean * mean
        step = (v[1] - v[0]) / math.sqrt(2 * math.pi)
        return np.array([top + np.log(sums * step), mean, np.maximum(variance, 0.0)])

    def transform(self, grid: ContourGrid) -> Transform | None:
        """Return the transform from nodes that are dense where e^(iUℓ) oscillates.

        Where that takes too many of them, from nodes evenly spaced in ℓ.
        """
        nodes = self._place_nodes(grid)
        if nodes is None:
            return self._transform_by_fft(grid)
        v, density = nodes
        weight, loss, _ = self._log_integrand(v)
        logs = weight + grid.tilt * loss - np.log(density)
        shares, log_total, left_out, loss = normalised(logs, loss)
        mean = float(shares @ loss)
        loss = loss - mean
        excess = transform_excess(shares, grid.spacing * loss, grid.count)
        width = grid.spacing * float(shares @ np.abs(loss))  # >= E|e^(ihℓ) - 1|
        sizes = np.minimum(width * np.arange(grid.count), 2.0)  # >= E|e^(iuℓ) - 1|
        error = grid.tolerance + left_out
        return Transform(
            log_total - LOG_ROOT_TWO_PI,
            mean,
            log1p(excess),
            error + TOLERANCES.exponential * sizes,
            error + TOLERANCES.positive_sum * (1 + abs(log_total)),
        )

    def _place_nodes(self, grid: ContourGrid) -> tuple[Floats, Floats] | None:
        """Return nodes v, where t(v) is an integer, and dt/dv there; [M], [M].

        A cubic interpolant of the inverse of t begins; Newton's method ends.  None is
        returned if there would be too many nodes.
        """
        base = _tilted_integrand(self, grid.tilt)
        matter = np.flatnonzero(base.logs > base.logs.max() - NEGLIGIBLE - MARGIN_LOG)
        span = slice(matter[0], matter[-1] + 1)
        fine = self._spacing(grid.tilt, grid.tolerance)
        frequency = grid.spacing * grid.count  # U
        per_loss = frequency / (2 * math.pi) * (-1 if self.direction == "add" else 1)
        mode = int(np.argmax(base.logs))
        v0, loss0 = float(base.v[mode]), float(base.loss[mode])
        known = (base.v[span] - v0) / fine + per_loss * (base.loss[span] - loss0)
        t: Floats = np.arange(math.ceil(known[0]), math.floor(known[-1]) + 1.0)
        if len(t) > grid.max_products // grid.count:
            return None
        v = inverse(t, base.v[span], known, 1 / fine + per_loss * base.slope[span])
        for _ in range(MAX_NEWTON_STEPS):
            _, loss, slope = self._log_integrand(v)
            step = (v - v0) / fine + per_loss * (loss - loss0) - t
            step /= 1 / fine + per_loss * slope
            v = v - step
            if np.abs(step).max() < TOLERANCES.node_step:
                break
        return v, 1 / fine + per_loss * self._log_integrand(v)[2]

    def _transform_by_fft(self, grid: ContourGrid) -> Transform | None:
        """Return the transform from nodes evenly spaced in ℓ; None if it is useless.

        The grid of losses folds over periodically: e^(ihkℓ) has the period 2π/h.  The
        error of this trapezoid rule is the transform itself beyond the frequency of the
        nodes, which ``log_decay_bound`` bounds.
        """
        if self.direction == "replace":  # its loss is not explicit in v
            return None
        size, error = self._fft_size(grid)
        period = 2 * math.pi / grid.spacing
        edge = math.log1p(-self.sample_rate)  # y > log(1 - q)
        base = _tilted_integrand(self, grid.tilt)
        matters = base.logs > base.logs.max() - NEGLIGIBLE
        reach = float(np.abs(base.loss[matters]).max()) - edge
        folds = math.ceil(reach / period)
        error += TOLERANCES.exponential
        useless = min(
            TOLERANCES.useless_ratio * grid.tolerance, TOLERANCES.useless_error
        )
        if error >= useless or folds > MAX_FOLDS:
            return None
        points = min(folds * size, math.ceil(reach / period * size))
        height: Floats = np.asarray(np.arange(0.5, points) * (period / size))
        sign = -1.0 if self.direction == "add" else 1.0
        logs = self._log_density(height, grid.tilt, sign)
        shares, log_total, left_out, y = normalised(logs, height + edge)
        mean = float(shares @ y)
        padded = np.zeros(folds * size)
        first = int(np.searchsorted(height + edge, y[0]))
        padded[first : first + len(y)] = shares
        sums = np.fft.rfft(padded.reshape(folds, size).sum(axis=0))[: grid.count].conj()
        start = period / size / 2 + edge - mean
        ratios = sums * np.exp(1j * grid.spacing * np.arange(grid.count) * start)
        error += left_out
        logs = np.log(np.maximum(np.abs(ratios), error)) + sign * 1j * np.angle(ratios)
        log_moment = log_total + math.log(period / size) - LOG_ROOT_TWO_PI
        round_off = TOLERANCES.positive_sum * (1 + abs(log_moment))
        errors = np.full(grid.count, error)
        return Transform(log_moment, sign * mean, logs, errors, error + round_off)

    def deltas(self, epsilons: Floats) -> Floats:
        q, sigma = self.sample_rate, self.noise_multiplier
        return STEP_CURVES[self.direction](q, sigma, epsilons)

    def loss_range(self, tail: float) -> tuple[float, float]:
        q, sigma = self.sample_rate, self.noise_multiplier
        if self.direction == "replace":
            high = single_step_epsilon(q, sigma, tail, REPLACE_ONE)
            return -high, high
        high = single_step_epsilon(q, sigma, tail, ADD_OR_REMOVE_ONE)
        edge = math.log1p(-q)
        return (edge, high) if self.direction == "remove" else (-high, -edge)

    def _fft_size(self, grid: ContourGrid) -> tuple[int, float]:
        """Return the number of nodes per period, and the error that remains."""
        log_decay = self.log_decay_bound(grid.tilt)
        least = max(grid.tolerance, TOLERANCES.fft_error)
        size = 1 << (4 * grid.count - 1).bit_length()
        while True:
            error = 4 * math.exp(log_decay(grid.spacing * (size - grid.count)))
            if error < least or size >= MAX_FFT_POINTS:
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

    def log_decay_bound(self, tilt: float) -> Callable[[float], float]:
        """Return the bound from two paths v + iτ(v), of which the better one counts.

        τ is proportional to u ℓ'(v), the direction of steepest descent, while that is
        small, and levels off at LARGEST_ANGLE σ, before the singularity at πσ.
        """
        base = _tilted_integrand(self, tilt)
        sigma = self.noise_multiplier
        highest = LARGEST_ANGLE * sigma
        strengths = np.array([[0.5], [1.0]]) / (1 + 1 / sigma**2)
        size, curvature = np.abs(base.slope), self._curvature(base.v)

        def bound(frequency: float) -> float:
            pull = strengths * frequency
            scale = highest + pull * size
            height = highest * pull * size / scale  # τ, [2, M]
            steepness = highest * highest * pull * curvature / (scale * scale)  # τ'
            weight, loss, imaginary = self._shifted(base.v, height)
            logs = weight + tilt * loss - frequency * imaginary
            logs += 0.5 * np.log1p(steepness * steepness)  # |dv| = √(1 + τ'²)
            return min(0.0, *(log_sum(path) - base.log_total for path in logs))

        return bound

    def _spacing(self, tilt: float, tolerance: float) -> float:
        """Return the spacing d of nodes at frequency 0 for this relative error.

        Of the heights τ tried, the one that allows the largest d.
        """
        base = _tilted_integrand(self, tilt)
        v, log_total = base.v[::2], base.log_total - math.log(2)
        heights = min(math.pi * self.noise_multiplier, HIGHEST) * STRIP_SHARES  # [H]
        weight, loss, _ = self._shifted(v, heights[:, None])  # [H, M]
        logs = weight + tilt * loss
        top = logs.max(axis=1)
        growth = top + np.log(np.exp(logs - top[:, None]).sum(axis=1)) - log_total
        needed = growth + math.log(2 / tolerance)
        largest = float((2 * math.pi * heights / needed).max())
        return min(largest, self.coarse_spacing())

    def coarse_spacing(self) -> float:
        """Return a spacing that resolves the integrand, finer for little noise."""
        return 0.5 * min(max(self.noise_multiplier, 0.02), 1.0)

    def nodes(
        self, low: float, high: float, spacing: float
    ) -> tuple[Floats, Floats, Floats, Floats]:
        """Return the nodes at which the integrand is not negligible for some tilt.

        The slope of y lies in [0, 1/σ], left of 0 in [0, q/σ]: beyond the ends the
        integrand falls at least as fast as a normal density.

        Args:
            low: Smallest tilt.
            high: Largest tilt.
            spacing: Distance of the nodes.

        Returns:
            Nodes v, log density of P, loss and its slope there; [M] each.
        """
        left, right = {
            "remove": (0.0, 1 + high),
            "add": (-high * self.sample_rate, 0.0),
            "replace": (-high, 1 + high),
        }[self.direction]
        sigma = self.noise_multiplier
        first = math.floor((left / sigma - NODE_REACH) / spacing)
        last = math.ceil((right / sigma + NODE_REACH) / spacing)
        v: Floats = np.asarray(spacing * np.arange(first, last + 1))
        weight, loss, slope = self._log_integrand(v)
        ends = [weight + low * loss, weight + high * loss]
        matters = [logs > logs.max() - NODE_LOG_DROP for logs in ends]
        some = np.flatnonzero(np.any(matters, axis=0))
        span = slice(some[0], some[-1] + 1)
        return v[span], weight[span], loss[span], slope[span]

    def _log_integrand(self, v: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the log density of P, times √2π, the privacy loss, and its slope."""
        q, sigma = self.sample_rate, self.noise_multiplier
        weight, loss, size = self._directed(
            v, -0.5 * v * v, lambda x: log_mixture(x, q, sigma)
        )
        return weight, loss, -size if self.direction == "add" else size

    def _shifted(self, v: Floats, height: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the real parts of both at v ± i height, and |Im ℓ|; [..., M].

        The loss falls with v if a record is added: the path is then the lower one,
        on which Im ℓ is positive as well.
        """
        q, sigma = self.sample_rate, self.noise_multiplier
        normal = 0.5 * (height * height - v * v)
        return self._directed(v, normal, lambda x: shifted_mixture(x, height, q, sigma))

    def _directed(
        self,
        v: Floats,
        normal: Floats,
        mixture: Callable[[Floats], tuple[Floats, Floats]],
    ) -> tuple[Floats, Floats, Floats]:
        """Return log density of P, ℓ, and |ℓ'| or |Im ℓ|, from y and |y'| or |Im y|."""
        y, size = mixture(v)
        if self.direction == "add":
            return normal, -y, size
        if self.direction == "remove":
            return normal + y, y, size
        mirrored, mirrored_size = mixture(-v)
        return normal + y, y - mirrored, size + mirrored_size

    def _curvature(self, v: Floats) -> Floats:
        """Return d|ℓ'|/dv; y' is a logistic function, so that y'' = y' (1/σ - y')."""
        q, sigma = self.sample_rate, self.noise_multiplier

        def curvature(v: Floats) -> Floats:
            slope = log_mixture(v, q, sigma)[1]
            return slope * (1 / sigma - slope)

        if self.direction == "replace":
            return curvature(v) - curvature(-v)
        return curvature(v)


@dataclass(frozen=True)
class _TiltedIntegrand:
    """A step's integrand of E_P[e^(cℓ)], where it is not negligible; [M] each."""

    v: Floats  # evenly spaced nodes
    logs: Floats  # log of the integrand
    loss: Floats  # privacy loss
    slope: Floats  # derivative of the privacy loss
    log_total: float  # log of the integrand's sum


@lru_cache(maxsize=256)
def _tilted_integrand(step: SubsampledGaussianLoss, tilt: float) -> _TiltedIntegrand:
    """Return the nodes that every evaluation at a tilt starts from."""
    v, weight, loss, slope = step.nodes(tilt, tilt, step.coarse_spacing() / 2)
    logs = weight + tilt * loss
    return _TiltedIntegrand(v, logs, loss, slope, log_sum(logs))

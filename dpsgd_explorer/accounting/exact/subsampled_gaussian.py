"""The privacy loss of a step on a Poisson sample.

Let v = z/σ be the noise in units of its standard deviation, w = e^((v - 1/2σ)/σ) the
ratio of N(1, σ²) to N(0, σ²), and y(v) = log(1 - q + q w).  Then

| direction | density of P over N(0, 1) | ℓ |
|---|---|---|
| remove | e^y(v) | y(v) |
| add | 1 | -y(v) |
| replace | e^y(v) | y(v) - y(-v) |

**Transform.**  E_P[e^(sℓ)] is a trapezoid sum over v.  Its nodes are the v at which

    t(v) = v / d + U ℓ(v) / 2π

is an integer: they have the spacing d, and one more node per revolution of e^(iUℓ),
which oscillates fastest.  The integrand is analytic for |Im v| < πσ: the first zero of
1 - q + q w is at |Im v| = πσ.  On v + iτ the modulus of the integrand grows by a factor
of at most e^(u Im ℓ).  The trapezoid rule damps it by e^(2π Im t), which is at least
e^(u Im ℓ) e^(2πτ/d).  So for all u <= U the error is at most

    2 B(τ) / (e^(2πτ/d) - 1),    B(τ) = ∫ |integrand of E_P[e^(cℓ)] at v + iτ| dv,

for every τ < πσ.  d is chosen so that this is the tolerance.  If that needs too many
nodes, they are evenly spaced in ℓ, and a fast Fourier transform gives all frequencies.
Its error is the size of the transform beyond the frequency of the nodes.

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
    MAX_LOG_DROP,
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

#: Standard deviations beyond the modes with nodes: less than 1e-27 is outside.
NODE_REACH = 11.0
#: Fall of the log integrand below its maximum, with or without τ, that ends the nodes.
NODE_LOG_DROP = 150.0
#: Largest distance of the mode from 0, in standard deviations; it limits the tilt.
MAX_CENTER = 2e4
#: Added to MAX_LOG_DROP where nodes are placed, before the weights are normalised.
MARGIN_LOG = 10
MAX_FFT_POINTS = 1 << 17
#: Periods of the loss grid that nodes may cover.
MAX_FOLDS = 3
#: Newton steps per node: from a cubic interpolant, two or three are enough.
MAX_NEWTON_STEPS = 8
#: Log of the normal density's denominator.
LOG_ROOT_TWO_PI = math.log(2 * math.pi) / 2
#: Largest Im v / σ of the paths that bound the transform; the singularity is at π.
MAX_ANGLE = 1.5
#: Heights τ that are tried, as shares of min(πσ, MAX_HEIGHT), and the largest height in
#: standard deviations.
HEIGHT_SHARES = np.linspace(0.12, 0.96, 8)
MAX_HEIGHT = 12.0


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
        direction: "remove", "add" or "replace", as in the table above.
    """

    sample_rate: float
    noise_multiplier: float
    direction: Direction

    @property
    def largest_tilt(self) -> float:  # type: ignore[override]  # as an attribute
        """The tilt at which the mode, at (1 + tilt) / σ, is MAX_CENTER from 0."""
        share = self.sample_rate if self.direction == "add" else 1.0
        return MAX_CENTER * self.noise_multiplier / (share * self._distance)

    # A subclass with another mixture in place of 1 - q + q w redefines the following.

    @property
    def _distance(self) -> float:
        """Largest distance of the outputs' means, in clipping bounds."""
        return 1.0

    @property
    def _edge(self) -> float:
        """The infimum of y."""
        return math.log1p(-self.sample_rate)

    def _mixture(self, v: Floats) -> tuple[Floats, Floats]:
        """Returns y and y'; any shape."""
        return log_mixture(v, self.sample_rate, self.noise_multiplier)

    def _shifted_mixture(self, v: Floats, height: Floats) -> tuple[Floats, Floats]:
        """Returns Re y, and Im y or a lower bound on it, at v + i height."""
        return shifted_mixture(v, height, self.sample_rate, self.noise_multiplier)

    def _noise_at(self, height: Floats) -> Floats:
        """Returns the v at which y is ``height`` above its infimum; [M] -> [M]."""
        q, sigma = self.sample_rate, self.noise_multiplier
        ratio = np.expm1(height) * (1 - q) / q  # w
        return np.asarray(sigma * np.log(ratio) + 0.5 / sigma)

    def cumulants(self, tilts: Floats) -> Floats:
        """Returns K, K' and K'' by a trapezoid sum with half the coarse spacing."""
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
        """Returns the transform from nodes that are dense where e^(iUℓ) oscillates.

        If there are too many such nodes, it uses nodes evenly spaced in ℓ.
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
        """Returns nodes v, where t(v) is an integer, and dt/dv at these v; [M], [M].

        A cubic interpolant of the inverse of t gives first values for Newton's method.

        Returns:
            The nodes and slopes; None if there would be too many nodes.
        """
        base = _tilted_integrand(self, grid.tilt)
        drop = MAX_LOG_DROP + MARGIN_LOG
        inside = np.flatnonzero(base.logs > base.logs.max() - drop)
        span = slice(inside[0], inside[-1] + 1)
        fine = self._spacing(grid.tilt, grid.tolerance)
        frequency = grid.spacing * grid.count  # U
        per_loss = frequency / (2 * math.pi) * (-1 if self.direction == "add" else 1)
        mode = int(np.argmax(base.logs))
        v0, loss0 = float(base.v[mode]), float(base.loss[mode])
        known_t = (base.v[span] - v0) / fine + per_loss * (base.loss[span] - loss0)
        t: Floats = np.arange(math.ceil(known_t[0]), math.floor(known_t[-1]) + 1.0)
        if len(t) > grid.max_products // grid.count:
            return None
        v = inverse(t, base.v[span], known_t, 1 / fine + per_loss * base.slope[span])
        for _ in range(MAX_NEWTON_STEPS):
            _, loss, slope = self._log_integrand(v)
            step = (v - v0) / fine + per_loss * (loss - loss0) - t
            step /= 1 / fine + per_loss * slope
            v = v - step
            if np.abs(step).max() < TOLERANCES.node_step:
                break
        return v, 1 / fine + per_loss * self._log_integrand(v)[2]

    def _transform_by_fft(self, grid: ContourGrid) -> Transform | None:
        """Returns the transform from nodes evenly spaced in ℓ; None if it is useless.

        The grid of losses is periodic: e^(ihkℓ) has the period 2π/h.  The error of this
        trapezoid rule is the size of the transform beyond the frequency of the nodes,
        which ``log_decay_bound`` bounds.
        """
        if self.direction == "replace":  # its loss is not explicit in v
            return None
        size, error = self._fft_size(grid)
        period = 2 * math.pi / grid.spacing
        edge = self._edge
        base = _tilted_integrand(self, grid.tilt)
        inside = base.logs > base.logs.max() - MAX_LOG_DROP
        reach = float(np.abs(base.loss[inside]).max()) - edge
        folds = math.ceil(reach / period)
        error += TOLERANCES.exponential
        limit = TOLERANCES.max_fft_error_ratio * grid.tolerance
        if error >= min(limit, TOLERANCES.max_fft_error) or folds > MAX_FOLDS:
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
        return (
            (self._edge, high) if self.direction == "remove" else (-high, -self._edge)
        )

    def _fft_size(self, grid: ContourGrid) -> tuple[int, float]:
        """Returns the number of nodes per period, and the error that remains."""
        log_decay = self.log_decay_bound(grid.tilt)
        least = max(grid.tolerance, TOLERANCES.min_fft_error)
        size = 1 << (4 * grid.count - 1).bit_length()
        while True:
            error = 4 * math.exp(log_decay(grid.spacing * (size - grid.count)))
            if error < least or size >= MAX_FFT_POINTS:
                return size, error
            size *= 2

    def _log_density(self, height: Floats, tilt: float, sign: float) -> Floats:
        """Returns log of the tilted density of y at log(1 - q) + height, times √2π."""
        v = self._noise_at(height)
        loss = sign * (height + self._edge)
        weight = loss if sign > 0 else 0.0
        return weight + tilt * loss - 0.5 * v * v - np.log(self._mixture(v)[1])

    def log_decay_bound(self, tilt: float) -> Callable[[float], float]:
        """Returns the smaller of the bounds from two paths v + iτ(v).

        τ is proportional to u ℓ'(v), the direction of steepest descent, for small
        values, and levels off at MAX_ANGLE σ, before the singularity at πσ.
        """
        base = _tilted_integrand(self, tilt)
        sigma = self.noise_multiplier
        highest = MAX_ANGLE * sigma
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
        """Returns the spacing d of nodes at frequency 0 for this relative error.

        Several heights τ are tried; the largest d that one of them allows is returned.
        """
        base = _tilted_integrand(self, tilt)
        v, log_total = base.v[::2], base.log_total - math.log(2)
        highest = min(math.pi * self.noise_multiplier, MAX_HEIGHT)
        heights = highest * HEIGHT_SHARES  # [H]
        weight, loss, _ = self._shifted(v, heights[:, None])  # [H, M]
        logs = weight + tilt * loss
        top = logs.max(axis=1)
        growth = top + np.log(np.exp(logs - top[:, None]).sum(axis=1)) - log_total
        needed = growth + math.log(2 / tolerance)
        largest = float((2 * math.pi * heights / needed).max())
        return min(largest, self.coarse_spacing())

    def coarse_spacing(self) -> float:
        """Returns a spacing that resolves the integrand, finer for little noise."""
        return 0.5 * min(max(self.noise_multiplier, 0.02), 1.0)

    def nodes(
        self, low: float, high: float, spacing: float
    ) -> tuple[Floats, Floats, Floats, Floats]:
        """Returns the nodes at which the integrand is not negligible for some tilt.

        The slope of y is from 0 to 1/σ, and left of 0 from 0 to q/σ: beyond the ends,
        the integrand falls at least as fast as a normal density.

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
        unit = self._distance / self.noise_multiplier
        first = math.floor((left * unit - NODE_REACH) / spacing)
        last = math.ceil((right * unit + NODE_REACH) / spacing)
        v: Floats = np.asarray(spacing * np.arange(first, last + 1))
        weight, loss, slope = self._log_integrand(v)
        ends = [weight + low * loss, weight + high * loss]
        is_inside = [logs > logs.max() - NODE_LOG_DROP for logs in ends]
        inside = np.flatnonzero(np.any(is_inside, axis=0))
        span = slice(inside[0], inside[-1] + 1)
        return v[span], weight[span], loss[span], slope[span]

    def _log_integrand(self, v: Floats) -> tuple[Floats, Floats, Floats]:
        """Returns the log density of P, times √2π, the privacy loss, and its slope."""
        weight, loss, size = self._directed(v, -0.5 * v * v, self._mixture)
        return weight, loss, -size if self.direction == "add" else size

    def _shifted(self, v: Floats, height: Floats) -> tuple[Floats, Floats, Floats]:
        """Returns the real parts of log density and loss at v ± i height, and |Im ℓ|.

        |Im ℓ| may be a lower bound.

        Shapes: v [M], height [..., M] -> [..., M] each.

        The loss falls with v if a record is added.  The path is then v - i height, on
        which Im ℓ is positive as well.
        """
        normal = 0.5 * (height * height - v * v)
        return self._directed(v, normal, lambda x: self._shifted_mixture(x, height))

    def _directed(
        self,
        v: Floats,
        normal: Floats,
        mixture: Callable[[Floats], tuple[Floats, Floats]],
    ) -> tuple[Floats, Floats, Floats]:
        """Returns log density of P, ℓ, and |ℓ'| or |Im ℓ|; y gives |y'| or |Im y|."""
        y, size = mixture(v)
        if self.direction == "add":
            return normal, -y, size
        if self.direction == "remove":
            return normal + y, y, size
        mirrored, mirrored_size = mixture(-v)
        return normal + y, y - mirrored, size + mirrored_size

    def _curvature(self, v: Floats) -> Floats:
        """Returns d|ℓ'|/dv; y' is a logistic function, so that y'' = y' (1/σ - y')."""
        sigma = self.noise_multiplier

        def curvature(v: Floats) -> Floats:
            slope = self._mixture(v)[1]
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
    """Returns the integrand at the nodes from which evaluations at a tilt start."""
    v, weight, loss, slope = step.nodes(tilt, tilt, step.coarse_spacing() / 2)
    logs = weight + tilt * loss
    return _TiltedIntegrand(v, logs, loss, slope, log_sum(logs))

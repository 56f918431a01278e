"""Gaussian noise that is correlated between steps, on top of another noise source.

A step adds z̃ₜ = zₜ − Σ cᵢ z̃ₜ₋ᵢ to the clipped sum gₜ, where zₜ is fresh noise and i is
from 1 to b − 1.  The past noise is a state of b − 1 numbers for each parameter.
If C⁻¹ and not C is banded, with p numbers r in its column, z̃ₜ = zₜ + Σ rᵢ zₜ₋ᵢ, and the
state is the fresh noise of p − 1 steps.

It is defined by the released values: z̃ₜ = yₜ − gₜ, with the rounding of secure noise.
Then yₜ is the rounded value of (Cg + z)ₜ − Σ cᵢ yₜ₋ᵢ.  This is a function of earlier
releases and of one Gaussian mechanism on Cg, so rounding is post-processing as without
correlation.  With C⁻¹ banded, z̃ₜ = yₜ − gₜ too, and zₜ = z̃ₜ − Σ rᵢ zₜ₋ᵢ contains the
rounding, so yₜ is the rounded value of (Cg + z)ₜ − Σ cᵢ yₜ₋ᵢ again.

Two roundings of the arithmetic remain outside the analysis, as in ``noise.secure``:
those of the sum of past noise and of the difference that is kept, a few units in the
last place.

Source: Choquette-Choo et al. (2023), arXiv:2306.08153; arXiv:2601.22334 (C⁻¹ banded).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from dpsgd_explorer.accounting.correlated.strategies import ToeplitzStrategy
from dpsgd_explorer.dp.noise.base import NoiseSource
from dpsgd_explorer.errors import PrivacyError

CHANGED = (
    "correlated noise must be added to sums of one shape and dtype in all "
    "steps, with one noise multiplier and one clipping bound; {}. Create a new engine "
    "with after= for other parameters."
)


class CorrelatedNoise:
    """Noise of a strategy; each call of ``begin_step`` begins a row of C⁻¹.

    Args:
        fresh: Source of the independent noise z.
        strategy: The first columns of C and, if it is short, of C⁻¹.
        period: Number of steps that are counted together; the first row begins with
            the first of them.

    Attributes:
        note: Description for the receipt.
        repeatable: True if ``fresh`` repeats its noise.  Only then does a state contain
            the past noise, which is as secret as a key.
    """

    def __init__(
        self, fresh: NoiseSource, strategy: ToeplitzStrategy, period: int
    ) -> None:
        self._fresh, self._period = fresh, period
        inverse = strategy.inverse
        self._keeps_fresh = inverse is not None
        # Weights of the past noise: of z if C⁻¹ is banded, else of z̃.
        self._weights = [-c for c in strategy.coefficients[1:]]
        if inverse is not None:
            self._weights = list(inverse[1:])
        before = f"with the noise of {len(self._weights)} steps before"
        self.note = f"{fresh.note}; correlated {before}"
        self.repeatable = fresh.repeatable
        self._growth = np.sqrt(np.cumsum(strategy.noise_weights() ** 2))
        self._begin()

    def _begin(self) -> None:
        self._first = self._row = self._chunk = 0
        self._past: list[list[Tensor]] = []  # noise [P] of past steps, of each chunk
        self._rows: list[int] = []  # number of rows drawn for each chunk
        self._deviation = 0.0

    @property
    def growth(self) -> float:
        """Standard deviation of the last step's noise, in units of fresh noise."""
        return float(self._growth[min(self._row, len(self._growth) - 1)])

    def begin_step(self, step: int) -> None:
        """Begins the noise of a step, 0, 1, ...

        Raises:
            PrivacyError: a step is missing, was interrupted, or is not the first of a
                round although no noise was drawn yet.
        """
        if not self._rows:
            self._first = step
        self._row, self._chunk = step - self._first, 0
        is_next = all(rows == self._row for rows in self._rows)
        if not is_next or self._first % self._period:
            raise PrivacyError(
                f"with correlated noise every step must follow the one before, from "
                f"the start of a round of {self._period} steps, got step {step} after "
                f"{self._rows[:1]} steps since step {self._first}. Load the last saved "
                "state into a new engine."
            )

    def add_to(
        self, values: Tensor, standard_deviation: float, divisor: float = 1.0
    ) -> Tensor:
        """Adds noise and divides, as ``Noise.add_to`` does; chunks come in one order.

        Args:
            values: Values [P], changed in place.
            standard_deviation: Standard deviation of the fresh noise z on each value.
            divisor: Divisor of the noisy values.

        Returns:
            Squared norm of the values before noise.  Not private.

        Raises:
            PrivacyError: values or standard deviation are not those of the step before.
        """
        past = self._past_of(values, standard_deviation)
        square = torch.dot(values, values)
        kept = len(self._weights)
        before = values.clone()
        for i, weight in enumerate(self._weights[: self._row], start=1):
            values.add_(past[(self._row - i) % kept], alpha=weight)
        if self._keeps_fresh:
            before.copy_(values)
        self._fresh.add_to(values, standard_deviation)
        if kept:
            torch.sub(values, before, out=past[self._row % kept])
        values.div_(divisor)
        return square

    def _past_of(self, values: Tensor, standard_deviation: float) -> list[Tensor]:
        """Returns the past noise of the next chunk, and counts the row."""
        chunk, self._chunk = self._chunk, self._chunk + 1
        if self._row == 0 and chunk == len(self._rows):
            self._past.append([torch.zeros_like(values) for _ in self._weights])
            self._rows.append(0)
            self._deviation = standard_deviation
        if chunk >= len(self._rows) or self._rows[chunk] != self._row:
            raise PrivacyError(CHANGED.format("there are more values, or a step began"))
        # A state may come from a run on another device.
        past = self._past[chunk] = [x.to(values.device) for x in self._past[chunk]]
        kinds = [(len(x), x.dtype) for x in (*past[:1], values)]
        if kinds[0] != kinds[-1]:
            raise PrivacyError(CHANGED.format(f"got {kinds[-1]} after {kinds[0]}"))
        if standard_deviation != self._deviation:
            was, now = self._deviation, standard_deviation
            words = f"got standard deviation {now} after {was}"
            raise PrivacyError(CHANGED.format(words))
        self._rows[chunk] += 1
        return past

    def state(self) -> dict[str, Any]:
        """Returns the state; with a secret source, nothing of the past noise."""
        state: dict[str, Any] = {"fresh": self._fresh.state()}
        if self.repeatable:
            state |= {
                "first": self._first,
                "rows": list(self._rows),
                "past": _copies(self._past),
                "deviation": self._deviation,
            }
        return state

    def restore(self, state: dict[str, Any]) -> None:
        """Continues from a state, or with a fresh strategy if noise is secret."""
        self._fresh.restore(state["fresh"])
        self._begin()
        if self.repeatable:
            self._first, self._deviation = state["first"], state["deviation"]
            self._rows = list(state["rows"])
            self._past = _copies(state["past"])


def _copies(past: list[list[Tensor]]) -> list[list[Tensor]]:
    return [[noise.clone() for noise in chunk] for chunk in past]

"""Answers of an accountant: a value, the interval that encloses it, and its status."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from dpsgd_explorer.accounting.core.tolerances import TOLERANCES

Floats = npt.NDArray[np.float64]
Status = Literal["exact", "bound", "approximation"]
APPROXIMATION: Status = "approximation"


@dataclass(frozen=True)
class Interval:
    """An answer and the interval that encloses the true value.

    ``float`` of it is the answer:

    >>> spent = Interval(value=1.5, lower=1.4, upper=1.5, status="bound")
    >>> float(spent)
    1.5

    Attributes:
        value: The answer, the upper bound where there is one.
        lower: Lower bound of the true value; None if no lower bound is proven.
        upper: Upper bound of the true value; None if no upper bound is proven.
        status: "exact", "bound" or "approximation", of this answer.
    """

    value: float
    lower: float | None
    upper: float | None
    status: Status

    def __float__(self) -> float:
        """Returns the answer, the upper bound where there is one."""
        return float(self.value)

    @classmethod
    def one_sided(cls, value: float, status: Status = "bound") -> Interval:
        """Returns the interval of an upper bound; an approximation has no bounds."""
        return cls(value, None, None if status == APPROXIMATION else value, status)


def intervals(lower: Floats, upper: Floats) -> list[Interval]:
    """Returns the interval of each pair of bounds, "exact" if narrow; [S], [S]."""
    rows = zip(lower.tolist(), upper.tolist(), meet(lower, upper), strict=True)
    return [Interval(y, x, y, "exact" if narrow else "bound") for x, y, narrow in rows]


def interval(lower: float, upper: float) -> Interval:
    """Returns the interval between two bounds, "exact" if it is narrow."""
    return intervals(np.array([lower]), np.array([upper]))[0]


def meet(lower: Floats, upper: Floats) -> npt.NDArray[np.bool_]:
    """Returns True where two bounds are close enough for an exact answer; [S]."""
    infinite = np.isinf(upper) & np.isinf(lower)
    with np.errstate(invalid="ignore"):
        is_close = upper - lower <= TOLERANCES.exact_gap * upper
    return np.asarray((is_close & np.isfinite(upper)) | infinite)


def common_status(answers: Sequence[Interval]) -> Status:
    """Returns the status of several answers together, "exact" if all are exact."""
    return next((x.status for x in answers if x.status != "exact"), "exact")

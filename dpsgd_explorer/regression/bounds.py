"""The public bounds of a regression, and what one record can change under them.

Every row has norm at most B and every label is at most Y in size.  With x x' the outer
product of a row, the sensitivities are

| released            | norm      | add or remove one | replace one |
|---------------------|-----------|-------------------|-------------|
| X'X, sum of x x'    | Frobenius | B^2               | sqrt(2) B^2 |
| X'y, sum of x y     | L2        | B Y               | 2 B Y       |
| any eigenvalue      | absolute  | B^2               | B^2         |
| gradient at theta   | L2        | B (B t + Y)       | 2 B (B t + Y), t = ‖theta‖ |

The gradient belongs to f(theta) = 1/2 sum (y - x'theta)^2.  Without the factor 1/2,
both the gradient and its sensitivity double.  Mixing the two conventions would halve
the noise.

Source: Wang (2018), arXiv:1803.02596, on SSP and AdaSSP, for the first three under
add or remove one.  Replace one: ‖x x' - z z'‖_F^2 <= ‖x‖^4 + ‖z‖^4, and an eigenvalue
moves by at most B^2 up and B^2 down (Weyl).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpsgd_explorer.regression import checks
from dpsgd_explorer.regression.checks import Array
from dpsgd_explorer.validation import one_of

#: Relative excess over a bound that rounding may cause in a row scaled to norm B.
MAX_ROUND_OFF = 1e-12


@dataclass(frozen=True)
class Bounds:
    """Public bounds of every record, and the sensitivities that follow from them.

    Source: Wang (2018), arXiv:1803.02596, on add_or_remove_one; for replace_one, see
    the module's source.

    Attributes:
        x_bound: Largest L2 norm of a row, B, in the units of the rows; above 0.
        y_bound: Largest absolute label, Y, in the units of the labels; above 0.
        neighboring_relation: "add_or_remove_one" or "replace_one".

    Raises:
        ConfigError: A bound is not a positive number, or the relation is unknown.

    Example:
        >>> import numpy as np
        >>> bounds = Bounds(1.0, 2.0, neighboring_relation="replace_one")
        >>> bounds.xty_sensitivity
        4.0
        >>> rows, labels = np.array([[0.6, 0.9]]), np.array([1.0])
        >>> bounds.check(rows, labels)  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        dpsgd_explorer.errors.ConfigError: no row may exceed x_bound = 1; row 1 has ...
    """

    x_bound: float
    y_bound: float
    neighboring_relation: str = "add_or_remove_one"

    def __post_init__(self) -> None:
        for name in ("x_bound", "y_bound"):
            object.__setattr__(self, name, checks.positive(name, getattr(self, name)))
        one_of("neighboring_relation", self.neighboring_relation, checks.RELATIONS)

    @property
    def replaces(self) -> bool:
        """If True, neighbouring data sets differ by one replaced record."""
        return self.neighboring_relation == "replace_one"

    @property
    def xtx_sensitivity(self) -> float:
        """Sensitivity of X'X in Frobenius norm."""
        return self.x_bound**2 * (math.sqrt(2) if self.replaces else 1.0)

    @property
    def xty_sensitivity(self) -> float:
        """Sensitivity of X'y in L2 norm."""
        return self.x_bound * self.y_bound * (2.0 if self.replaces else 1.0)

    @property
    def lambda_min_sensitivity(self) -> float:
        """Sensitivity of the least eigenvalue of X'X."""
        return self.x_bound**2

    @property
    def lambda_max_sensitivity(self) -> float:
        """Sensitivity of the largest eigenvalue of X'X."""
        return self.x_bound**2

    def gradient_sensitivity(self, theta_norm: Array) -> Array:
        """Returns the sensitivity of sum x (x'theta - y), per norm of theta."""
        largest = self.x_bound * (self.x_bound * theta_norm + self.y_bound)
        return 2.0 * largest if self.replaces else largest

    def check(self, x: Array, y: Array) -> None:
        """Checks that all records are within the bounds.

        Shapes: x [n, d], y [n].

        Raises:
            ConfigError: names the first row beyond a bound, and the number of such
                rows.
        """
        norms, sizes = np.linalg.norm(x, axis=1), np.abs(y)
        _within("x_bound", "norm", norms, self.x_bound)
        _within("y_bound", "label", sizes, self.y_bound)


def _within(name: str, what: str, sizes: Array, bound: float) -> None:
    beyond = sizes > bound * (1 + MAX_ROUND_OFF)
    if not beyond.any():
        return
    row, count = int(np.argmax(beyond)), int(beyond.sum())
    size = _above(bound, float(sizes[row]))
    checks.refuse(
        name,
        f"no row may exceed {name} = {bound:.15g}; row {row + 1} has {what} {size} "
        f"({count} of {len(sizes)} rows exceed the bound). Choose a larger bound "
        "without looking at the data, or shorten these rows with rows = clip.",
    )


def _above(bound: float, size: float) -> str:
    """Returns the size with the fewest digits that show it to be above the bound."""
    texts = (f"{size:.{digits}g}" for digits in range(6, 18))
    return next(text for text in texts if float(text) > bound)

"""Preprocessing of a table in natural units to rows and labels within public bounds.

Each feature is divided by its range, which is stated and never measured.  Then each row
is brought to norm at most B and each label into [-Y, Y].  A new row depends on the old
row alone, so preprocessing costs no privacy.

| rows        | a row of norm r becomes                                   |
|-------------|-----------------------------------------------------------|
| "normalize" | x B / r: every row has norm B (the notebook); 0 stays 0   |
| "clip"      | x min(1, B / r): only rows beyond B are shortened         |
| "refuse"    | unchanged; a row or label beyond its bound is an error    |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.regression import checks
from dpsgd_explorer.regression.bounds import Bounds
from dpsgd_explorer.regression.checks import Array
from dpsgd_explorer.validation import one_of

ROWS = ("normalize", "clip", "refuse")


@dataclass(frozen=True, eq=False)
class Prepared:
    """A table within the bounds.

    Shapes: n rows, d features.

    Attributes:
        X: Rows of norm at most B, ``(n, d)``.
        y: Labels in [-Y, Y], ``(n,)``.
        shortened_rows: Number of rows that were longer than B.  It is not private: show
            it to the owner of the data only.
        clipped_labels: Number of labels that were beyond Y; not private either.
    """

    X: Array
    y: Array
    shortened_rows: int
    clipped_labels: int

    def __repr__(self) -> str:
        rows, features = self.X.shape
        return (
            f"Prepared({rows} rows of {features} features, {self.shortened_rows} rows "
            f"shortened, {self.clipped_labels} labels clipped)"
        )


@dataclass(frozen=True)
class Preprocessing:
    """The step before any release; apply it to new rows too, before predicting.

    A new row depends on the old row alone, so the step costs no privacy.

    Attributes:
        feature_ranges: Range of each of the d features, in its unit and above 0; each
            feature is divided by its range.  Public: do not measure it on the data.
        x_bound: Largest norm of a row afterwards, B, above 0; without a unit.
        y_bound: Size at which labels are clipped, Y, in the unit of the labels.
        rows: "normalize" (every row gets norm B), "clip" (longer rows are shortened to
            B) or "refuse" (a row or label beyond its bound is an error).

    Raises:
        ConfigError: An argument is outside its domain.

    Example:
        >>> step = Preprocessing(
        ...     feature_ranges=(10.0, 200.0), x_bound=1.0, y_bound=5.0, rows="clip"
        ... )
        >>> prepared = step.apply([[3, 50], [9, 180]], [4.0, 7.5])
        >>> prepared
        Prepared(2 rows of 2 features, 1 rows shortened, 1 labels clipped)
        >>> prepared.X.round(2)
        array([[0.3 , 0.25],
               [0.71, 0.71]])
    """

    feature_ranges: tuple[float, ...]
    x_bound: float
    y_bound: float
    rows: str = "normalize"

    def __post_init__(self) -> None:
        bounds = Bounds(self.x_bound, self.y_bound)
        checked = {
            "feature_ranges": tuple(
                checks.positive("feature_ranges", value)
                for value in self.feature_ranges
            ),
            "x_bound": bounds.x_bound,
            "y_bound": bounds.y_bound,
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        one_of("rows", self.rows, ROWS)

    def apply(self, features: Any, labels: Any) -> Prepared:
        """Returns the prepared table.

        Args:
            features: Rows in their units, ``(n, d)``.
            labels: Labels, ``(n,)``.

        Raises:
            ConfigError: Shapes or values do not fit.  With "refuse", also a row or
                label beyond its bound; the message names the first.
        """
        x, y = checks.table(features, labels)
        if x.shape[1] != len(self.feature_ranges):
            raise ConfigError(
                "feature_ranges",
                f"feature_ranges must have one number for each of the {x.shape[1]} "
                f"columns, got {len(self.feature_ranges)} numbers.",
            )
        x = x / np.array(self.feature_ranges)
        if self.rows == "refuse":
            Bounds(self.x_bound, self.y_bound).check(x, y)
        norms = np.linalg.norm(x, axis=1)
        return Prepared(
            X=x * self._factors(norms)[:, None],
            y=np.clip(y, -self.y_bound, self.y_bound),
            shortened_rows=int((norms > self.x_bound).sum()),
            clipped_labels=int((np.abs(y) > self.y_bound).sum()),
        )

    def _factors(self, norms: Array) -> Array:
        """Returns the factor per row, [n]."""
        if self.rows == "refuse":
            return np.ones_like(norms)
        least = self.x_bound if self.rows == "clip" else np.finfo(float).tiny
        return self.x_bound / np.maximum(norms, least)

"""From a table of natural units to rows and labels that keep public bounds.

Each feature is divided by its range, stated and never measured; then each row is
brought to norm at most B and each label into [-Y, Y].  A row's new value depends on
that row alone, so preprocessing costs no privacy.

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
    """A table that keeps the bounds.

    Shapes: X [n, d], y [n].

    Attributes:
        X: Rows of norm at most B.
        y: Labels in [-Y, Y].
        shortened_rows: How many rows were longer than B; a count over private records,
            for the data's owner only.
        clipped_labels: How many labels were beyond Y; the same holds.
    """

    X: Array
    y: Array
    shortened_rows: int
    clipped_labels: int


@dataclass(frozen=True)
class Preprocessing:
    """The step before any release; apply it to new rows too, before predicting.

    Attributes:
        feature_ranges: Each feature is divided by its own, all above 0.
        x_bound: Norm that rows are brought to, B.
        y_bound: Size that labels are clipped at, Y.
        rows: "normalize", "clip" or "refuse".

    Raises:
        ConfigError: an argument is outside its domain.
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
        """Return the prepared table.

        Shapes: features [n, d], labels [n].

        Raises:
            ConfigError: shapes or values do not fit; with "refuse" also a row or label
                beyond its bound, which is named.
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
        """Return the factor per row, [n]."""
        if self.rows == "refuse":
            return np.ones_like(norms)
        least = self.x_bound if self.rows == "clip" else np.finfo(float).tiny
        return self.x_bound / np.maximum(norms, least)

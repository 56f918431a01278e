"""Errors along noisy gradient descents on California housing, recorded or computed.

A descent of 50,000 steps takes a second, so the descents of the notebook's figures are
recorded in ``data/descents.json`` by ``python -m tools.record.descents``.  Other
descents are computed on demand.
"""

from __future__ import annotations

import json
import math
import threading
from dataclasses import asdict, dataclass
from functools import cache, lru_cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from dpsgd_explorer.errors import QuotaError
from dpsgd_explorer.experiments.california_housing import housing
from dpsgd_explorer.regression.bounds import Bounds
from dpsgd_explorer.regression.comparison import Spread
from dpsgd_explorer.regression.noisy_gd import Descent
from dpsgd_explorer.regression.preprocessing import Prepared, Preprocessing
from dpsgd_explorer.regression.rates import resolve_rate
from dpsgd_explorer.regression.statistics import Statistics

RECORDED = Path(__file__).parent / "data" / "descents.json"
ANY_DELTA = 0.5  # arbitrary: errors do not depend on δ, only the reported ε does
COLUMNS = ("median", "low", "high")  # names of a spread's fields in the file
SHORT = 1_500  # maximum steps of a descent that is computed within a request
LONGEST = 200_000
BUSY_SECONDS = 2

_long_descent = threading.Lock()


@dataclass(frozen=True)
class PreparedHousing:
    """California housing, prepared within bounds.

    Attributes:
        rows: "normalize" or "clip", as in ``Preprocessing``.
        x_bound: Row bound B.
        y_bound: Label bound Y.
    """

    rows: str = "normalize"
    x_bound: float = 1.0
    y_bound: float = 5.0

    @property
    def table(self) -> Prepared:
        """The table, preprocessed to its bounds."""
        return _prepared(self)

    @property
    def statistics(self) -> Statistics:
        """The training data: rows within the bound, labels clipped."""
        return _statistics(self)[0]

    @property
    def evaluation_set(self) -> Statistics:
        """The data that errors are measured on: the same rows, labels not clipped."""
        return _statistics(self)[1]


@dataclass(frozen=True, kw_only=True)
class DescentSpec:
    """Repetitions of a noisy gradient descent; ``rate`` is a number or one of RATES."""

    prepared_housing: PreparedHousing = PreparedHousing()
    neighboring_relation: str = "add_or_remove_one"
    noise_multiplier: float
    steps: int
    rate: float | str = "public"
    rate_factor: float = 1.0
    repetitions: int = 20
    seed: int = 0

    @property
    def bounds(self) -> Bounds:
        """Public bounds of the records."""
        data = self.prepared_housing
        return Bounds(data.x_bound, data.y_bound, self.neighboring_relation)

    @property
    def descent(self) -> Descent:
        """The descent without its data; the number of records counts as public."""
        statistics = self.prepared_housing.statistics
        schedule = (self.noise_multiplier, self.steps)
        return Descent(
            bounds=self.bounds,
            noise_multiplier=self.noise_multiplier,
            steps=self.steps,
            learning_rate=resolve_rate(
                self.rate, statistics, self.bounds, schedule, statistics.n
            ),
            delta=ANY_DELTA,
            rate_factor=self.rate_factor,
        )

    @property
    def learning_rate(self) -> float:
        """Learning rate as a number; the median if each repetition releases one."""
        rates = self.descent.draw_rates(
            self.prepared_housing.statistics,
            np.random.default_rng(self.seed),
            self.repetitions,
        )
        return float(np.median(rates))

    @property
    def is_at_hand(self) -> bool:
        """If True, the descent is recorded or short enough for a request."""
        return self.steps <= SHORT or self in recorded()


@dataclass(frozen=True)
class Trace:
    """Errors along a descent; computed from the data, not private.

    Attributes:
        steps: Number of steps at each point of the curve.
        spreads: Spread of the error over the repetitions at each point.
    """

    steps: tuple[int, ...]
    spreads: tuple[Spread, ...]


def trace(spec: DescentSpec) -> Trace:
    """Return the errors of a descent, recorded or computed.

    Raises:
        QuotaError: another long descent is being computed; try again shortly.
    """
    recorded_trace = recorded().get(spec)
    if recorded_trace is not None:
        return recorded_trace
    if spec.steps <= SHORT:
        return compute(spec)
    if not _long_descent.acquire(blocking=False):
        raise QuotaError(
            "another long descent is being computed, and the site computes one at a "
            f"time. Try again in {BUSY_SECONDS} seconds.",
            BUSY_SECONDS,
        )
    try:
        return compute(spec)
    finally:
        _long_descent.release()


@lru_cache(maxsize=256)
def compute(spec: DescentSpec) -> Trace:
    """Compute a descent and return its errors."""
    path = spec.descent.run(
        spec.prepared_housing.statistics,
        np.random.default_rng(spec.seed),
        spec.repetitions,
        evaluate_on=spec.prepared_housing.evaluation_set,
    )
    return Trace(path.steps, Spread.of_each(path.mse))


@cache
def recorded() -> dict[DescentSpec, Trace]:
    """Return the recorded descents."""
    entries = json.loads(RECORDED.read_text(encoding="utf-8"))
    return dict(_from_entry(entry) for entry in entries)


def as_entry(spec: DescentSpec, trace: Trace) -> dict[str, object]:
    """Return a descent as the entry of the file; infinity becomes null."""
    columns: dict[str, list[float | None]] = {name: [] for name in COLUMNS}
    for name, spread in product(COLUMNS, trace.spreads):
        value = getattr(spread, name)
        columns[name].append(float(f"{value:.6g}") if np.isfinite(value) else None)
    return {"spec": asdict(spec), "steps": list(trace.steps), **columns}


def _from_entry(entry: dict[str, Any]) -> tuple[DescentSpec, Trace]:
    """Return the descent and trace of an entry that ``as_entry`` created."""
    prepared_housing = PreparedHousing(**entry["spec"]["prepared_housing"])
    spec = DescentSpec(**entry["spec"] | {"prepared_housing": prepared_housing})
    columns = [
        [math.inf if value is None else value for value in entry[name]]
        for name in COLUMNS
    ]
    spreads = tuple(Spread(*row) for row in zip(*columns, strict=True))
    return spec, Trace(tuple(entry["steps"]), spreads)


@lru_cache(maxsize=4)
def _prepared(data: PreparedHousing) -> Prepared:
    step = Preprocessing(housing.RANGES, data.x_bound, data.y_bound, data.rows)
    return step.apply(*housing.load())


@lru_cache(maxsize=128)
def _statistics(prepared_housing: PreparedHousing) -> tuple[Statistics, Statistics]:
    table, (_, labels) = prepared_housing.table, housing.load()
    return Statistics.of(table.X, table.y), Statistics.of(table.X, labels)

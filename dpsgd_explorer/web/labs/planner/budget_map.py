"""The planner's map: lines of equal ε over epochs and noise, and batch sizes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, Field

from dpsgd_explorer.accounting import epsilon_curve
from dpsgd_explorer.accounting.epochs import steps_of
from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.web.labs.planner.question import LEAST_DELTA, BudgetQuestion, solve
from dpsgd_explorer.web.questions.privacy_models import DEFAULT_ACCOUNTANT
from dpsgd_explorer.web.questions.question import Question
from dpsgd_explorer.web.recorded.files import recording

EPOCHS = (0.5, 200.0)  # range of the map's horizontal axis
NOISE = (0.5, 12.0)
BEYOND = 1.3  # the grid extends beyond the map by this factor, so lines reach its edge
COLUMNS, ROWS = 17, 15
MOST_EPSILON = 1000.0
LEVELS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
BATCH_SIZES = (64, 256, 1024, 4096, 16384)

Floats = npt.NDArray[np.float64]


class MapQuestion(Question):
    """Query for the lines of equal ε."""

    sample_size: int = Field(
        60_000, ge=2, le=10**9, description="Number of records in the training data."
    )
    expected_batch_size: int = Field(
        1024, ge=1, le=10**9, description="Mean number of records in a batch."
    )
    delta: float = Field(
        1e-5, ge=LEAST_DELTA, lt=1, description="δ of the guarantee, below 1/N."
    )
    epsilon: float = Field(
        3.0,
        gt=0,
        le=MOST_EPSILON,
        description="ε of the line that is marked as the budget.",
    )


class Contour(BaseModel):
    """One line of equal ε, by ascending epochs."""

    epsilon: float
    epochs: list[float]
    noise_multiplier: list[float]


class BudgetMap(BaseModel):
    """Lines of equal ε; the line of the budget is marked.

    They are interpolated on a grid, for display only; ``budget`` answers exactly.
    """

    epochs: tuple[float, float]
    noise_multiplier: tuple[float, float]
    budget: Contour
    contours: list[Contour]


class BatchRow(BaseModel):
    """One batch size at the ε and epochs of the question."""

    expected_batch_size: int
    steps: int
    noise_multiplier: float
    noise_per_update: float


def budget_map(question: MapQuestion) -> BudgetMap:
    """Returns the map around a budget.

    Raises:
        ConfigError: The batch size exceeds the number of records.
    """
    if question.expected_batch_size > question.sample_size:
        raise ConfigError(
            "expected_batch_size",
            f"expected_batch_size must be at most N = {question.sample_size}, got "
            f"{question.expected_batch_size}.",
        )
    grid = _log_epsilons(
        question.sample_size, question.expected_batch_size, question.delta
    )
    return BudgetMap(
        epochs=EPOCHS,
        noise_multiplier=NOISE,
        budget=_contour(grid, question.epsilon),
        contours=[_contour(grid, level) for level in LEVELS],
    )


def batch_rows(question: BudgetQuestion) -> list[BatchRow]:
    """Returns the smallest noise for each batch size at equal ε and epochs."""
    rows = []
    for size in BATCH_SIZES:
        if size > question.sample_size:
            break
        changes = {"solve": "noise_multiplier", "expected_batch_size": size}
        budget = solve(question.model_copy(update=changes))
        rows.append(
            BatchRow(
                expected_batch_size=size,
                steps=budget.steps,
                noise_multiplier=budget.noise_multiplier,
                noise_per_update=budget.noise_per_update,
            )
        )
    return rows


def epochs_axis() -> Floats:
    """Returns the columns of the grid, geometrically spaced."""
    return np.geomspace(*EPOCHS, COLUMNS)


def noise_axis() -> Floats:
    """Returns the rows of the grid, geometrically spaced."""
    return np.geomspace(NOISE[0] / BEYOND, NOISE[1] * BEYOND, ROWS)


@lru_cache(maxsize=64)
def _log_epsilons(sample_size: int, batch: int, delta: float) -> Floats:
    """Returns log ε on the grid; that of the plan shown first is recorded."""
    stored = recording("recorded", Path(__file__).parent)
    plan = stored["sample_size"], stored["expected_batch_size"], stored["delta"]
    if (sample_size, batch, delta) == plan:
        return np.array(stored["log_epsilon"])
    return compute_grid(sample_size, batch, delta)


def compute_grid(sample_size: int, batch: int, delta: float) -> Floats:
    """Computes log ε on the grid, of shape (rows, columns), in about a second."""
    steps = [steps_of(float(e), sample_size, batch) for e in epochs_axis()]
    rate = batch / sample_size
    values = [
        epsilon_curve(
            sample_rate=rate,
            noise_multiplier=float(noise),
            delta=delta,
            steps=steps,
            accountant=DEFAULT_ACCOUNTANT,
        )
        for noise in noise_axis()
    ]
    grid: Floats = np.log(np.maximum(np.array(values), 1e-300))
    return grid


def _contour(grid: Floats, epsilon: float) -> Contour:
    """Returns the noise multiplier of a given ε in each column of the grid."""
    rows = np.log(noise_axis())
    points = [
        (float(epochs), _crossing(grid[:, i], rows, math.log(epsilon)))
        for i, epochs in enumerate(epochs_axis())
    ]
    crossings = [(x, y) for x, y in points if y is not None]
    return Contour(
        epsilon=epsilon,
        epochs=[x for x, _ in crossings],
        noise_multiplier=[y for _, y in crossings],
    )


def _crossing(falling: Floats, rows: Floats, level: float) -> float | None:
    """Returns the noise at which a falling column crosses a level, None if nowhere."""
    if not falling[-1] <= level <= falling[0]:
        return None
    order: Sequence[int] = range(len(rows) - 1, -1, -1)
    return float(math.exp(np.interp(level, falling[list(order)], rows[list(order)])))

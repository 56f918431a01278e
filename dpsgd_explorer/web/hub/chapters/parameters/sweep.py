"""Recorded sweep over C, learning rate and momentum, and the ranges that did well.

``tools/record/sweep.py`` records the sweep, and ``hub/widgets/noise/record.py`` the
noise levels.
"""

from __future__ import annotations

from functools import partial
from statistics import mean

from dpsgd_explorer.web.hub.widgets.noise import widget as noise
from dpsgd_explorer.web.questions.rounding import nearest, percent, whole
from dpsgd_explorer.web.recorded.files import recording

stored = partial(recording, "choices/sweep")

CLOSE = 0.005  # accuracy that counts as close to the best


def sweep_head() -> list[str]:
    """Returns the heads of the table's columns."""
    reaches = [f"{reach:g}" for reach in stored()["reaches"]]
    return ["C", "m", f"ηC/(1 − m) = {reaches[0]}", *reaches[1:]]


def sweep_rows() -> list[tuple[str, ...]]:
    """Returns C, momentum m and the test accuracies at each ηC/(1 - m)."""
    return [
        (
            f"{row['max_grad_norm']:g}",
            f"{row['momentum']:g}",
            *(percent(accuracy) for accuracy in row["test_accuracy"]),
        )
        for row in stored()["rows"]
    ]


def bound_factor() -> str:
    """Returns the largest C of the sweep over the smallest."""
    bounds = [row["max_grad_norm"] for row in stored()["rows"]]
    return whole(max(bounds) / min(bounds))


def sweep_bounds() -> str:
    """Returns the range of C of the sweep."""
    tried = [row["max_grad_norm"] for row in stored()["rows"]]
    return f"{min(tried):g} to {max(tried):g}"


def close_points() -> str:
    """Returns ``CLOSE`` in percentage points."""
    return nearest(100 * CLOSE, 1)


def good_reaches() -> str:
    """Returns the range of ηC/(1 - m) that was close to the best in every row."""
    columns = list(
        zip(*(row["test_accuracy"] for row in stored()["rows"]), strict=True)
    )
    best = max(map(max, columns))
    good = [
        reach
        for reach, column in zip(stored()["reaches"], columns, strict=True)
        if min(column) >= best - CLOSE
    ]
    return f"{good[0]:g} to {good[-1]:g}"


def good_noise() -> str:
    """Returns the largest σ that was close to the best of the noise levels."""
    reached = {
        level["noise_multiplier"]: mean(level["test_accuracy"])
        for level in noise.stored()["levels"]
    }
    best = max(reached.values())
    return f"{max(s for s, accuracy in reached.items() if accuracy >= best - CLOSE):g}"

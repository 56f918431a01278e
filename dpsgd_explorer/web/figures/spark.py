"""A recorded run's accuracy against ε, as small as a word."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from dpsgd_explorer.web.charts.ticks import error_height

WIDTH, HEIGHT = 60, 28
MARGIN = 3  # px, for the dot at the last point
ROOM = 0.4  # percentage points of accuracy above the last point


def spark(evaluations: Sequence[dict[str, Any]]) -> Markup:
    """Draws accuracy against ε, and against the step for a run without ε.

    The accuracy axis is logarithmic in the error and starts at the first evaluation.

    Args:
        evaluations: Data of at least two evaluations: step, epsilon, test_accuracy.

    Returns:
        An SVG of 60 × 28 px; its text alternative is the text next to it.
    """
    percents = [100 * event["test_accuracy"] for event in evaluations]
    spent = [event["epsilon"] or event["step"] for event in evaluations]
    ends = (min(percents), min(max(percents) + ROOM, 99.99))
    low, high = (error_height(end, ends) for end in ends)
    points = [
        (
            1 + (WIDTH - 1 - MARGIN) * x / spent[-1],
            HEIGHT
            - MARGIN
            - (HEIGHT - 2 * MARGIN)
            * (error_height(percent, ends) - low)
            / (high - low),
        )
        for x, percent in zip(spent, percents, strict=True)
    ]
    path = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    x, y = points[-1]
    return Markup(
        f'<svg class="spark" viewBox="0 0 {WIDTH} {HEIGHT}" aria-hidden="true">'
        f'<path d="M{path}"/><circle cx="{x:.1f}" cy="{y:.1f}" r="2.5"/></svg>'
    )

"""The preview image that other sites show with a link to this site, 1200 by 630 px.

Like a share card, the file has no style sheet.
"""

from __future__ import annotations

from markupsafe import Markup, escape

from dpsgd_explorer.web.figures.exports.share_card import (
    HEIGHT,
    INK,
    LINE,
    PAPER,
    SERIF,
    SOFT,
    WALL,
    WASH,
    WIDTH,
    text,
)
from dpsgd_explorer.web.figures.svg import Scale
from dpsgd_explorer.web.recorded.runs import recorded

SHOWN = "mnist"  # slug of the plotted recorded run
PLOT = (64, 330, 1136, 552)  # left, top, right, bottom
BEYOND = 1.08  # ratio of the end of the axis to the budget, so the wall is inside


def site_preview(name: str, description: str) -> Markup:
    """Returns the SVG: name, description, and the curve of a run up to its budget."""
    run = recorded(SHOWN)
    points = [(e["epsilon"], e["test_accuracy"]) for e in run.data("evaluation")]
    left, top, right, bottom = PLOT
    end = points[-1][0]
    x = Scale(0, BEYOND * end, left, right)
    heights = [accuracy for _, accuracy in points]
    y = Scale(min(heights), max(heights), bottom - 16, top)
    places = "L".join(f"{x(a):.1f} {y(b):.1f}" for a, b in points)
    wall = x(end)
    parts = [
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="{PAPER}"/>',
        text(64, 152, name, 92, family=SERIF),
        text(64, 224, description, 34, SOFT),
        f'<rect x="{wall:.1f}" y="{top}" width="{right - wall:.1f}" '
        f'height="{bottom - top}" fill="{WASH}"/>',
        f'<path d="M{left} {bottom}H{right}" stroke="{SOFT}" fill="none"/>',
        f'<path d="M{wall:.1f} {top}V{bottom}" stroke="{WALL}" stroke-width="5"/>',
        f'<path d="M{places}" fill="none" stroke="{LINE}" stroke-width="6" '
        'stroke-linejoin="round"/>',
        text(left, 590, "test accuracy against ε spent, up to a budget", 24, SOFT),
        text(right, 590, "a recorded run", 24, INK, anchor="end"),
    ]
    return Markup(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'width="{WIDTH}" height="{HEIGHT}" role="img" '
        f'aria-label="{escape(name)}">{"".join(parts)}</svg>'
    )

"""Figures with a slider: dots ride along lines, lines grow, and the title follows.

The server draws one position, ``still``, which is also the figure without script.
``static/js/widgets/common/frames.js`` draws the others from the points of the lines.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import escape

from dpsgd_explorer.web.figures.svg import Anchor, Plot, Point


@dataclass(frozen=True, kw_only=True)
class Label:
    """A text that rides with a dot, or changes at a fixed place.

    Attributes:
        words: Text at each position.
        css: Colour of the text.
        anchor: Side of the text that is at the dot.
        shift: Distance from the dot or the fixed place, in px.
        fixed: Place in data units; None if the text rides.
    """

    words: tuple[str, ...]
    css: str
    anchor: Anchor = "start"
    shift: Point = (0, 0)
    fixed: Point | None = None


def ride(
    plot: Plot,
    points: Sequence[Point],
    css: str,
    *,
    still: int,
    fill: str,
    grows: bool = False,
    label: Label | None = None,
) -> None:
    """Draws a line, and on it a dot with one position for each point.

    Args:
        plot: The chart.
        points: Points of the line in data units, one for each position.
        css: Classes of the line, such as ``s-private``.
        still: Position of the dot without script.
        fill: Class of the dot, such as ``f-private``.
        grows: If True, the line ends at the dot.
        label: Text with the line’s number.
    """
    words = f' data-words="{escape(json.dumps(label.words))}"' if label else ""
    grown = ' data-grows=""' if grows else ""
    plot.marks.append(f'<g data-track=""{grown}{words}>')
    plot.path(points, f"line {css}", every_point=True)
    x, y = plot.x(points[still][0]), plot.y(points[still][1])
    plot.marks.append(f'<g data-rider="" transform="translate({x:.1f} {y:.1f})">')
    plot.marks.append(
        f'<circle class="f-surface" r="7"/><circle class="{fill}" r="5"/>'
    )
    if label and not label.fixed:
        plot.marks.append(_text(label, still, label.shift))
    plot.marks.append("</g>")
    if label and label.fixed:
        x, y = plot.x(label.fixed[0]), plot.y(label.fixed[1])
        plot.marks.append(_text(label, still, (x + label.shift[0], y + label.shift[1])))
    plot.marks.append("</g>")


def _text(label: Label, still: int, place: Point) -> str:
    """Returns the text of a label at a place in px."""
    return (
        f'<text class="{label.css}" text-anchor="{label.anchor}" x="{place[0]:.1f}" '
        f'y="{place[1]:.1f}">{escape(label.words[still])}</text>'
    )

"""An SVG chart that scales to its container, with the axes of the live chart.

Positions are shares of the area inside the margins.  ``.elastic`` in train.css sets the
margins of ``static/js/charts``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from markupsafe import Markup, escape

Point = tuple[float, float]
Ticks = Sequence[tuple[float, str]]
UNIT = 1000  # width and height of the area in units of its view box
# Distances of labels from the area, in px.
OUTSIDE, BELOW_TICK, BELOW_NAME = -7, 21, 36


@dataclass(frozen=True)
class Axis:
    """An axis with its ends, ticks, and name; the page has the unit of y."""

    low: float
    high: float
    ticks: Ticks
    name: str = ""

    def share(self, value: float) -> float:
        """Returns a value's share of the way from the low end to the high one."""
        return (value - self.low) / (self.high - self.low)


@dataclass
class Elastic:
    """A chart; its marks are drawn in the order of the list.

    Attributes:
        x: Horizontal axis.
        y: Vertical axis.
        css: Additional CSS classes, which set the margins.
    """

    x: Axis
    y: Axis
    css: str = ""
    marks: list[str] = field(default_factory=list)

    def axes(self, every: int = 1) -> None:
        """Draws both axes; a wide page shows each ``every``-th label of the x axis."""
        for value, label in self.y.ticks:
            _, y = self._at((self.x.low, value))
            self.marks.append(f'<line class="grid" x2="100%" y1="{y}" y2="{y}"/>')
            self._write(("0", y), label, "", "end", (OUTSIDE, 4.5))
        self.marks.append('<line class="axis" x2="100%" y1="100%" y2="100%"/>')
        for i, (value, label) in enumerate(self.x.ticks):
            x, _ = self._at((value, self.y.low))
            self.marks.append(
                f'<svg class="below" x="{x}" y="100%"><path class="axis" d="M0 0V5"/>'
                f'<text class="{"sparse" if i % every else ""}" y="{BELOW_TICK}" '
                f'text-anchor="middle">{escape(label)}</text></svg>'
            )
        self._write(("100%", "100%"), self.x.name, "below", "end", (0, BELOW_NAME))

    def line(self, points: Iterable[Point], css: str) -> None:
        """Draws a line through points, clipped to the area."""
        steps = [
            f"{UNIT * self.x.share(x):.4g} {UNIT * (1 - self.y.share(y)):.4g}"
            for x, y in points
        ]
        if steps:
            self.marks.append(
                f'<svg viewBox="0 0 {UNIT} {UNIT}" preserveAspectRatio="none">'
                f'<path class="line {css}" d="M{"L".join(steps)}"/></svg>'
            )

    def bar(self, x: tuple[float, float], y: tuple[float, float], css: str) -> None:
        """Fills a rectangle."""
        left, right = (self.x.share(value) for value in x)
        low, high = (min(1.0, self.y.share(value)) for value in y)
        self.marks.append(
            f'<rect class="{css}" x="{_percent(left)}" y="{_percent(1 - high)}" '
            f'width="{_percent(right - left)}" height="{_percent(high - low)}"/>'
        )

    def rule(self, x: float, css: str) -> None:
        """Draws a line across the height at a value of x."""
        position = _percent(self.x.share(x))
        self.marks.append(
            f'<line class="line {css}" x1="{position}" x2="{position}" y2="100%"/>'
        )

    def level(self, y: float, css: str) -> None:
        """Draws a line across the width at a value of y."""
        _, position = self._at((self.x.low, y))
        self.marks.append(
            f'<line class="line {css}" x2="100%" y1="{position}" y2="{position}"/>'
        )

    def dot(self, point: Point, css: str) -> None:
        """Marks one point."""
        x, y = self._at(point)
        self.marks.append(
            f'<circle class="f-surface" cx="{x}" cy="{y}" r="7"/>'
            f'<circle class="{css}" cx="{x}" cy="{y}" r="5"/>'
        )

    def text(
        self,
        point: Point,
        words: str,
        css: str = "",
        anchor: str = "start",
        shift: Point = (0, 0),
    ) -> None:
        """Writes at a point, shifted by pixels."""
        self._write(self._at(point), words, css, anchor, shift)

    def svg(self, label: str) -> Markup:
        """Returns the drawing; ``label`` is its text alternative."""
        return Markup(
            f'<svg class="plot elastic {self.css}" role="img" '
            f'aria-label="{escape(label)}">{"".join(self.marks)}</svg>'
        )

    def _at(self, point: Point) -> tuple[str, str]:
        x, y = self.x.share(point[0]), self.y.share(point[1])
        return _percent(x), _percent(1 - min(1.0, max(0.0, y)))

    def _write(
        self, position: tuple[str, str], words: str, css: str, anchor: str, shift: Point
    ) -> None:
        self.marks.append(
            f'<text class="{css}" x="{position[0]}" y="{position[1]}" dx="{shift[0]}" '
            f'dy="{shift[1]}" text-anchor="{anchor}">{escape(words)}</text>'
        )


def _percent(share: float) -> str:
    return f"{100 * share:.2f}%"

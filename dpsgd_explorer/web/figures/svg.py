"""Charts as accessible inline SVG: scales, axes, marks and texts.

Colours come from CSS classes (``.plot`` in base.css), so one SVG works in both themes
and in print.  A picture contains a wide and a narrow chart, and a table.

Coordinates are pixels of the view box; x grows to the right, y downwards.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

from markupsafe import Markup, escape

from dpsgd_explorer.web.questions.comparison import Comparison

Point = tuple[float, float]
SUPERSCRIPT = re.compile(r"\^(\S)")
RAISED = r'<tspan dy="-5">\1</tspan><tspan dy="5">&#8203;</tspan>'
Anchor = Literal["start", "middle", "end"]
Kind = Literal["recorded", "measured", "computed", "illustration"]
Status = Literal["exact", "bound", "approximation", ""]


@dataclass(frozen=True, kw_only=True)
class Frames:
    """The positions of a figure's slider.

    Attributes:
        name: Label of the slider.
        places: Text of each position, such as "20 runs".
        titles: The figure's title at each position.
        still: Position that the server draws.
    """

    name: str
    places: tuple[str, ...]
    titles: tuple[str, ...]
    still: int

    def __post_init__(self) -> None:
        if len(self.places) != len(self.titles):
            raise ValueError(
                f"titles must have {len(self.places)} entries, one per place, got "
                f"{len(self.titles)}"
            )

    @property
    def longest_title(self) -> str:
        """The title that needs most room."""
        return max(self.titles, key=len)


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A figure of a page: two charts, texts and a table.

    Attributes:
        title: Conclusion, a full sentence with its number.
        sub: Plotted quantity, unit and data.
        wide: Chart for wide pages.
        narrow: Chart for narrow pages.
        head: Headings of the table's columns.
        rows: Rows of the table as text.
        kind: Source of the data: a recorded run, a visitor's run, draws from real data
            for this figure, or arithmetic.
        status: Status of the privacy numbers; "" without privacy numbers.
        note: One or two sentences below the chart.
        is_private: False if the plotted data are outside the guarantee.
        comparisons: Comparisons in the title; the figure states ``held`` of each in the
            title, the subtitle or the note.
        frames: Positions of its slider; None without one.
    """

    title: str
    sub: str
    wide: Markup
    narrow: Markup
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    kind: Kind = "illustration"
    status: Status = ""
    note: str = ""
    is_private: bool = True
    comparisons: tuple[Comparison, ...] = ()
    frames: Frames | None = None


@dataclass(frozen=True)
class Scale:
    """A linear or logarithmic map from values to pixels."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        share = (self._bend(value) - self._bend(self.low)) / (
            self._bend(self.high) - self._bend(self.low)
        )
        return self.start + share * (self.end - self.start)

    def __str__(self) -> str:
        """Returns the ends in data units and in pixels, for scripts."""
        ends = f"{self.low:g} {self.high:g} {_px(self.start)} {_px(self.end)}"
        return f"{ends} log" if self.log else ends

    def _bend(self, value: float) -> float:
        return math.log(value) if self.log else value

    def spread(self, count: int) -> list[float]:
        """Returns ``count`` values from low to high, evenly spaced in pixels."""
        low, high = self._bend(self.low), self._bend(self.high)
        values = [low + (high - low) * i / (count - 1) for i in range(count)]
        return [math.exp(v) for v in values] if self.log else values


@dataclass
class Plot:
    """A chart under construction; its marks are drawn in the order of the list.

    Attributes:
        width: Width of the view box.
        height: Height of the view box.
        x: Scale of the horizontal axis, in data units.
        y: Scale of the vertical axis, in data units.
    """

    width: int
    height: int
    x: Scale
    y: Scale
    marks: list[str] = field(default_factory=list)

    @classmethod
    def framed(
        cls,
        size: tuple[int, int],
        x: tuple[float, float],
        y: tuple[float, float],
        *,
        left: int = 36,
        right: int = 12,
        top: int = 26,
        bottom: int = 44,
        log_x: bool = False,
        log_y: bool = False,
    ) -> Plot:
        """Returns an empty plot with margins for the axes."""
        width, height = size
        return cls(
            width,
            height,
            Scale(*x, left, width - right, log_x),
            Scale(*y, height - bottom, top, log_y),
        )

    def path(
        self,
        points: Iterable[Point],
        css: str,
        close: bool = False,
        every_point: bool = False,
    ) -> None:
        """Draws a line through points in data units.

        Points inside a level piece are left out unless ``every_point`` is set.
        """
        steps = [(_px(self.x(x)), _px(self.y(y))) for x, y in points]
        if not every_point:
            steps = _without_level_points(steps)
        if steps:
            end = "Z" if close else ""
            line = "L".join(f"{x} {y}" for x, y in steps)
            self.marks.append(f'<path class="{css}" d="M{line}{end}"/>')

    def line(self, points: Iterable[Point], css: str) -> None:
        """Draws a data line in the colour of a series, such as ``s-private``."""
        self.path(points, f"line {css}")

    def area(self, points: Sequence[Point], css: str, base: float) -> None:
        """Fills the area between a line and the level ``base``."""
        first, last = points[0][0], points[-1][0]
        self.path([(first, base), *points, (last, base)], css, close=True)

    def curve(
        self, function: Callable[[float], float], css: str, count: int = 90
    ) -> list[Point]:
        """Draws a function over the whole x range and returns its points."""
        points = [(x, function(x)) for x in self.x.spread(count)]
        self.line(points, css)
        return points

    def dot(self, point: Point, css: str, radius: float = 5) -> None:
        """Draws a dot with an outline that separates it from lines."""
        x, y = _px(self.x(point[0])), _px(self.y(point[1]))
        self.marks.append(
            f'<circle class="f-surface" cx="{x}" cy="{y}" r="{radius + 2}"/>'
        )
        self.marks.append(f'<circle class="{css}" cx="{x}" cy="{y}" r="{radius}"/>')

    def speck(self, point: Point, css: str, radius: float = 2) -> None:
        """Draws a small dot without an outline."""
        x, y = _px(self.x(point[0])), _px(self.y(point[1]))
        self.marks.append(f'<circle class="{css}" cx="{x}" cy="{y}" r="{radius}"/>')

    def bar(self, x: tuple[float, float], y: tuple[float, float], css: str) -> None:
        """Fills a rectangle given by two values on each axis."""
        left, right = sorted((self.x(x[0]), self.x(x[1])))
        top, bottom = sorted((self.y(y[0]), self.y(y[1])))
        self.marks.append(
            f'<rect class="{css}" x="{_px(left)}" y="{_px(top)}" '
            f'width="{_px(right - left)}" height="{_px(bottom - top)}"/>'
        )

    def text(
        self,
        point: Point,
        words: str,
        css: str = "",
        anchor: Anchor = "start",
        shift: Point = (0, 0),
    ) -> None:
        """Writes a text at a point, shifted by px; ``^`` marks a superscript letter."""
        x, y = _px(self.x(point[0]) + shift[0]), _px(self.y(point[1]) + shift[1])
        self._write(x, y, words, css, anchor)

    def arrow(self, tail: Point, head: Point, css: str, fill: str) -> None:
        """Draws an arrow; ``css`` is the class of its shaft, ``fill`` of its head."""
        x0, y0, x1, y1 = *self._place(tail), *self._place(head)
        length = math.hypot(x1 - x0, y1 - y0)
        if length < 4:
            return
        u, v = (x1 - x0) / length, (y1 - y0) / length
        x, y = x1 - 7 * u, y1 - 7 * v
        self.marks.append(
            f'<path class="line {css}" d="M{_px(x0)} {_px(y0)}L{_px(x)} {_px(y)}"/>'
            f'<path class="{fill}" d="M{_px(x1)} {_px(y1)}'
            f"L{_px(x - 3.5 * v)} {_px(y + 3.5 * u)}"
            f'L{_px(x + 3.5 * v)} {_px(y - 3.5 * u)}Z"/>'
        )

    def y_axis(self, ticks: Sequence[tuple[float, str]], name: str) -> None:
        """Draws grid lines with their values, and the name above them."""
        left, right = self.x.start, self.x.end
        for value, label in ticks:
            y = self.y(value)
            self.marks.append(
                f'<path class="grid" d="M{_px(left)} {_px(y)}H{_px(right)}"/>'
            )
            self._write(_px(left - 8), _px(y + 4.5), label, "", "end")
        if name:
            anchor, x = ("end", left - 8) if len(name) < 4 else ("start", 0)
            self._write(_px(x), _px(self.y.end - 12), name, "", anchor)

    def x_axis(self, ticks: Sequence[tuple[float, str]], name: str) -> None:
        """Draws the axis with ticks, and its name at the right end."""
        y = self.y.start
        self.marks.append(
            f'<path class="axis" d="M{_px(self.x.start)} {_px(y)}H{_px(self.x.end)}"/>'
        )
        for value, label in ticks:
            x = self.x(value)
            self.marks.append(
                f'<path class="axis" d="M{_px(x)} {_px(y)}V{_px(y + 5)}"/>'
            )
            self._write(_px(x), _px(y + 19), label, "", "middle")
        self._write(_px(self.x.end), _px(y + 37), name, "", "end")

    def svg(self, label: str, css: str = "") -> Markup:
        """Returns the SVG; ``label`` is its text alternative."""
        return Markup(
            f'<svg class="plot {css}" viewBox="0 0 {self.width} {self.height}" '
            f'width="{self.width}" height="{self.height}" '
            f'data-x="{self.x}" data-y="{self.y}" role="img" '
            f'aria-label="{escape(label)}">{"".join(self.marks)}</svg>'
        )

    def _place(self, point: Point) -> Point:
        return self.x(point[0]), self.y(point[1])

    def _write(self, x: str, y: str, words: str, css: str, anchor: str) -> None:
        kind = f' class="{css}"' if css else ""
        side = f' text-anchor="{anchor}"' if anchor != "start" else ""
        text = SUPERSCRIPT.sub(RAISED, str(escape(words)))
        self.marks.append(f'<text x="{x}" y="{y}"{side}{kind}>{text}</text>')


def small(value: float) -> str:
    """Returns a small number such as 1e-5, without a leading zero in the exponent."""
    return f"{value:g}".replace("e-0", "e-")


def round_ticks(bounds: tuple[float, float], most: int) -> list[tuple[float, str]]:
    """Returns round values between the bounds, at most ``most``."""
    low, high = bounds
    step = 10 ** math.floor(math.log10((high - low) / most))
    while (high - low) / step > most:
        step *= 2 if f"{step:e}"[0] in "15" else 2.5
    first = math.ceil(low / step)
    values = [step * i for i in range(first, math.floor(high / step) + 1)]
    return [(value, f"{value:.6g}") for value in values]


def fanned(
    heights: Sequence[float],
    gap: float = 16,
    *,
    top: float = -math.inf,
    bottom: float = math.inf,
) -> list[float]:
    """Returns y coordinates of labels, moved so that they do not overlap.

    The labels keep their order, have a distance of at least ``gap`` px, and are below
    ``top``.  If they fit, all are above ``bottom``.
    """
    placed, last = list(heights), top - gap
    order = sorted(range(len(placed)), key=placed.__getitem__)
    for i in order:
        last = placed[i] = max(placed[i], last + gap)
    limit = max(bottom, top + gap * (len(placed) - 1))
    for i in reversed(order):
        placed[i] = min(placed[i], limit)
        limit = placed[i] - gap
    return placed


def _px(value: float) -> str:
    """Returns a coordinate with at most one decimal."""
    return f"{value:.1f}".removesuffix(".0")


def _without_level_points(steps: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Drops the points inside level pieces of a line, which nobody can see."""
    kept = steps[:1]
    for step, following in pairwise(steps[1:]):
        level = kept[-1][1] == step[1] == following[1]
        if not (level and float(kept[-1][0]) <= float(step[0]) <= float(following[0])):
            kept.append(step)
    return kept + steps[1:][-1:]

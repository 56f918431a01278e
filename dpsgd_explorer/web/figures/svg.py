"""A chart as an accessible inline SVG: scales, axes, marks and words.

Pure: numbers in, text out.  Colours come from CSS classes (``.plot`` in base.css),
so that one drawing serves light, dark and print.  A picture is drawn twice, for a
wide and for a narrow page, and always comes with its table.

Coordinates are pixels of the view box; x grows to the right, y downwards.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
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
class Picture:
    """What a template shows as one figure.

    Attributes:
        title: The conclusion, a whole sentence with its number.
        sub: What is plotted: quantity, unit, data.
        wide: The drawing for wide pages.
        narrow: The drawing for narrow pages.
        head: Column heads of the table.
        rows: Its rows, as printed.
        kind: Source of the marks: a recorded run, a visitor's own run, draws made for
            the picture on real data, or arithmetic.
        status: What kind of truth the privacy numbers are; "" if there are none.
        note: One or two sentences that stand under the drawing.
        is_private: False if what is drawn is outside the guarantee.
        comparisons: Those that its title makes; each one's ``held`` stands in the
            title, under it or in the note.
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


@dataclass(frozen=True)
class Scale:
    """Maps a value to a pixel, linearly or by its logarithm."""

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
        """Return the ends in data units and in pixels, for scripts."""
        ends = f"{self.low:g} {self.high:g} {_px(self.start)} {_px(self.end)}"
        return f"{ends} log" if self.log else ends

    def _bend(self, value: float) -> float:
        return math.log(value) if self.log else value

    def spread(self, count: int) -> list[float]:
        """Return ``count`` values from low to high, evenly spaced on the paper."""
        low, high = self._bend(self.low), self._bend(self.high)
        values = [low + (high - low) * i / (count - 1) for i in range(count)]
        return [math.exp(v) for v in values] if self.log else values


@dataclass
class Plot:
    """One drawing in the making: marks are added in painting order.

    Attributes:
        width: Of the view box.
        height: Of the view box.
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
        """Return an empty plot with room for axes around the data."""
        width, height = size
        return cls(
            width,
            height,
            Scale(*x, left, width - right, log_x),
            Scale(*y, height - bottom, top, log_y),
        )

    def path(self, points: Iterable[Point], css: str, close: bool = False) -> None:
        """Join points given in data units."""
        steps = [f"{_px(self.x(x))} {_px(self.y(y))}" for x, y in points]
        if steps:
            end = "Z" if close else ""
            self.marks.append(f'<path class="{css}" d="M{"L".join(steps)}{end}"/>')

    def line(self, points: Iterable[Point], css: str) -> None:
        """Draw a data line; ``css`` says whose it is, as in ``s-private``."""
        self.path(points, f"line {css}")

    def area(self, points: Sequence[Point], css: str, base: float) -> None:
        """Fill between a line and a level."""
        first, last = points[0][0], points[-1][0]
        self.path([(first, base), *points, (last, base)], css, close=True)

    def curve(
        self, function: Callable[[float], float], css: str, count: int = 90
    ) -> list[Point]:
        """Draw a function over the whole x range and return its points."""
        points = [(x, function(x)) for x in self.x.spread(count)]
        self.line(points, css)
        return points

    def dot(self, at: Point, css: str, radius: float = 5) -> None:
        """Mark one point, set off from the lines around it."""
        x, y = _px(self.x(at[0])), _px(self.y(at[1]))
        self.marks.append(
            f'<circle class="f-surface" cx="{x}" cy="{y}" r="{radius + 2}"/>'
        )
        self.marks.append(f'<circle class="{css}" cx="{x}" cy="{y}" r="{radius}"/>')

    def speck(self, at: Point, css: str, radius: float = 2) -> None:
        """Mark one point among many."""
        x, y = _px(self.x(at[0])), _px(self.y(at[1]))
        self.marks.append(f'<circle class="{css}" cx="{x}" cy="{y}" r="{radius}"/>')

    def bar(self, x: tuple[float, float], y: tuple[float, float], css: str) -> None:
        """Fill a rectangle given by two values on each axis."""
        left, right = sorted((self.x(x[0]), self.x(x[1])))
        top, bottom = sorted((self.y(y[0]), self.y(y[1])))
        self.marks.append(
            f'<rect class="{css}" x="{_px(left)}" y="{_px(top)}" '
            f'width="{_px(right - left)}" height="{_px(bottom - top)}"/>'
        )

    def text(
        self,
        at: Point,
        words: str,
        css: str = "",
        anchor: Anchor = "start",
        shift: Point = (0, 0),
    ) -> None:
        """Write at a point in data units, shifted by pixels; ``^`` raises a letter."""
        x, y = _px(self.x(at[0]) + shift[0]), _px(self.y(at[1]) + shift[1])
        self._write(x, y, words, css, anchor)

    def arrow(self, tail: Point, head: Point, css: str, fill: str) -> None:
        """Draw an arrow between two points in data units; ``fill`` is its head's."""
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
        """Draw hairlines with their values, and the unit at the top."""
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
        """Draw the bottom line with ticks, and the axis's name at its right end."""
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
        """Return the drawing; ``label`` says its message to who cannot see it."""
        return Markup(
            f'<svg class="plot {css}" viewBox="0 0 {self.width} {self.height}" '
            f'width="{self.width}" height="{self.height}" '
            f'data-x="{self.x}" data-y="{self.y}" role="img" '
            f'aria-label="{escape(label)}">{"".join(self.marks)}</svg>'
        )

    def _place(self, at: Point) -> Point:
        return self.x(at[0]), self.y(at[1])

    def _write(self, x: str, y: str, words: str, css: str, anchor: str) -> None:
        kind = f' class="{css}"' if css else ""
        side = f' text-anchor="{anchor}"' if anchor != "start" else ""
        text = SUPERSCRIPT.sub(RAISED, str(escape(words)))
        self.marks.append(f'<text x="{x}" y="{y}"{side}{kind}>{text}</text>')


def small(value: float) -> str:
    """Return a small number such as 1e-5, without the zero in its exponent."""
    return f"{value:g}".replace("e-0", "e-")


def round_ticks(bounds: tuple[float, float], most: int) -> list[tuple[float, str]]:
    """Return round values between the bounds, at most ``most``."""
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
    """Return heights for labels that would overlap.

    They keep their order, are at least ``gap`` pixels apart and below ``top``; if they
    have room, none is below ``bottom``.
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
    """Return a pixel to a tenth, without a trailing zero."""
    return f"{value:.1f}".removesuffix(".0")

"""A line plot with logarithmic axes as SVG text."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape

WIDTH, HEIGHT = 520, 300
LEFT, RIGHT, TOP, BOTTOM = 60, 150, 16, 48
COLOURS = ("#52606d", "#0b7285", "#c2255c", "#e67700")

Points = Sequence[tuple[float, float]]


def line_plot(series: Mapping[str, Points], x_label: str, y_label: str) -> str:
    """Return the SVG text of {name: [(x, y), ...]}; all values are above 0."""
    every = [point for points in series.values() for point in points]
    x_scale = _Scale([x for x, _ in every], LEFT, WIDTH - RIGHT)
    y_scale = _Scale([y for _, y in every], HEIGHT - BOTTOM, TOP)
    parts = [*_x_axis(x_scale, x_label), *_y_axis(y_scale, y_label)]
    for i, (name, points) in enumerate(series.items()):
        parts += _line(name, points, x_scale, y_scale, i)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'font-family="sans-serif" font-size="11" fill="#334">'
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>'
    )
    return "\n".join([head, *parts, "</svg>", ""])


class _Scale:
    """Logarithmic map from values to pixels, with a small margin at both ends."""

    def __init__(self, values: Iterable[float], start: float, end: float) -> None:
        logs = [math.log10(value) for value in values]
        self.low, self.high = min(logs) - 0.1, max(logs) + 0.1
        self.start, self.end = start, end

    def __call__(self, value: float) -> float:
        share = (math.log10(value) - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self) -> list[float]:
        """Returns powers of ten, and 2 and 5 times each if there are few powers."""
        steps = (1, 2, 5) if self.high - self.low < 2.5 else (1,)
        powers = range(math.floor(self.low), math.ceil(self.high) + 1)
        every = [step * 10.0**power for power in powers for step in steps]
        return [t for t in every if self.low <= math.log10(t) <= self.high]


def _x_axis(scale: _Scale, label: str) -> list[str]:
    parts = []
    for tick in scale.ticks():
        x = scale(tick)
        parts.append(_stroke(x, TOP, x, HEIGHT - BOTTOM))
        parts.append(_text(x, HEIGHT - BOTTOM + 15, f"{tick:g}", "middle"))
    middle = (LEFT + WIDTH - RIGHT) / 2
    return [*parts, _text(middle, HEIGHT - 10, label, "middle")]


def _y_axis(scale: _Scale, label: str) -> list[str]:
    parts = []
    for tick in scale.ticks():
        y = scale(tick)
        parts.append(_stroke(LEFT, y, WIDTH - RIGHT, y))
        parts.append(_text(LEFT - 6, y + 4, f"{tick:g}", "end"))
    return [*parts, _text(WIDTH - RIGHT + 10, TOP + 8, label, "start")]


def _line(
    name: str, points: Points, x_scale: _Scale, y_scale: _Scale, i: int
) -> list[str]:
    colour = COLOURS[i % len(COLOURS)]
    pixels = [(x_scale(x), y_scale(y)) for x, y in sorted(points)]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in pixels)
    dots = [
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{colour}"/>'
        for x, y in pixels
    ]
    line = (
        f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.8"/>'
    )
    x, y = WIDTH - RIGHT + 10, TOP + 32 + 18 * i
    key = f'<rect x="{x}" y="{y - 8}" width="10" height="10" fill="{colour}"/>'
    return [line, *dots, key, _text(x + 16, y + 1, name, "start")]


def _stroke(x1: float, y1: float, x2: float, y2: float) -> str:
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
        'stroke="#dde3e8"/>'
    )


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'

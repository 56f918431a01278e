"""One odd record: a line through 24 points, and what moving one of them does.

Misconception: "One record among many cannot matter", and "gradients are averages, so
    nobody stands out"
Content: a record far from the others moves the fitted line, since its gradient is many
    times as long as theirs
Source: computed in the page from the 24 records of `hub/examples/toy_problem.py`;
    atypical records influence a model most: Feldman and Zhang 2020, arXiv:2008.03703
"""

from __future__ import annotations

from functools import cache
from typing import Any

from markupsafe import Markup

from dpsgd_explorer.web.figures.svg import Picture, Plot
from dpsgd_explorer.web.hub.examples import toy_problem as toy
from dpsgd_explorer.web.hub.examples.toy_problem import Vector
from dpsgd_explorer.web.hub.widgets.base import Widget
from dpsgd_explorer.web.hub.widgets.odd_record import RECORD
from dpsgd_explorer.web.questions.rounding import nearest


def lines() -> tuple[Vector, Vector]:
    """Returns the least squares θ without the odd record, and with it."""
    points = toy.records()
    return toy.fit(points[: toy.ODD]), toy.fit(points)


def gradient_lengths() -> list[float]:
    """Returns the norm of each record's gradient at the line fitted to the others."""
    without, _ = lines()
    return [toy.norm(toy.gradient(without, record)) for record in toy.records()]


def slope_without() -> str:
    """Returns the slope of the line without the odd record, to nearest."""
    return nearest(lines()[0][0])


def slope_with() -> str:
    """Returns the slope of the line with the odd record, to nearest."""
    return nearest(lines()[1][0])


def times_longer() -> str:
    """Returns the odd record's gradient over the longest of the others, to nearest."""
    *others, odd = gradient_lengths()
    return nearest(odd / max(others), 1)


def data() -> dict[str, Any]:
    """Returns the records, and the range of the odd record."""
    return {
        "records": [[round(x, 6), round(y, 6)] for x, y in toy.records()],
        "odd": toy.ODD,
        "x_range": toy.X_RANGE,
        "y_range": toy.Y_RANGE,
    }


@cache
def picture() -> Picture:
    """Returns the points with both lines."""
    without, with_it = lines()
    gradients = gradient_lengths()
    others = gradients[: toy.ODD]
    return Picture(
        title=(
            f"One record of {toy.SIZE} moves the slope from {nearest(without[0])} to "
            f"{nearest(with_it[0])}"
        ),
        sub="A straight line by least squares, with the odd record and without it",
        wide=_draw((904, 360)),
        narrow=_draw((342, 300)),
        head=("least squares", "without it", "with it"),
        rows=(
            ("slope", nearest(without[0]), nearest(with_it[0])),
            ("intercept", nearest(without[1]), nearest(with_it[1])),
            ("longest gradient", nearest(max(others)), nearest(max(gradients))),
        ),
        note=(
            "Made-up records, real arithmetic. Gradients are taken at the line "
            "without the odd record."
        ),
    )


def _draw(size: Vector) -> Markup:
    plot = Plot.framed((int(size[0]), int(size[1])), toy.X_RANGE, toy.Y_RANGE, right=24)
    plot.y_axis([(y, f"{y}".replace("-", "\N{MINUS SIGN}")) for y in (-2, 0, 2)], "y")
    plot.x_axis([(x, f"{x}".replace("-", "\N{MINUS SIGN}")) for x in (-1, 0, 1)], "x")
    for theta, css, words, shift in zip(
        lines(),
        ("s-twin dashed", "s-ink"),
        ("without it", "with it"),
        ((0.0, -34.0), (0.0, 30.0)),
        strict=True,
    ):
        ends = [(x, theta[0] * x + theta[1]) for x in (-1.2, 1.2)]
        plot.line(ends, css)
        css = "twin halo" if "twin" in css else "strong halo"
        plot.text(ends[1], words, css, "end", shift)
    for record in toy.records()[: toy.ODD]:
        plot.speck(record, "f-twin", 4)
    odd = toy.records()[toy.ODD]
    plot.dot(odd, "f-ink", 6)
    plot.text(odd, "the odd record", "strong halo", "end", (-14, 4))
    return plot.svg(
        "Points along a rising line and one far below it; the fitted line is flatter "
        "with that point than without it."
    )


WIDGET = Widget(
    slug="one-odd-record",
    title="One odd record",
    picture=picture,
    data=data,
    controls={"record": "The odd record"},
    starts={"record": RECORD},
)

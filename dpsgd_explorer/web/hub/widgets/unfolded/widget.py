"""A 2 × 2 convolution as a matrix product: one image, one channel, step by step.

The image X is [3, 3], the kernel w is [2, 2], stride 1, no padding, so there are four
positions.  Column t of the unfolded matrix U, [4, 4], holds the pixels under the kernel
at position t.  The output is y = w U, and for the gradient g of a loss with respect to
y, [4], the gradient with respect to w is U g, [4].

Source: Chellapilla, Puri and Simard (2006), "High performance convolutional neural
networks for document processing", on unfolding a convolution.

Misconception: "A convolution needs a trick of its own for per-sample gradients"
Content: one steps through the four positions: pixels under the kernel, their column of
    the matrix, the output that it makes; then the rows of the same matrix, each times
    the output's gradient, are the kernel's gradient of one record
Source: Chellapilla, Puri and Simard 2006; Bu, Mao and Xu 2022, arXiv:2205.10683
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from markupsafe import Markup

from dpsgd_explorer.web.figures.svg import Picture, Plot, Scale
from dpsgd_explorer.web.forms.starts import Choices
from dpsgd_explorer.web.hub.widgets.base import Widget

IMAGE = ((1, 2, 0), (0, 1, 3), (2, 1, 1))
KERNEL = ((1, 0), (-1, 2))
OUTPUT_GRADIENT = ((2, -1), (1, 1))  # of one record's loss, made up
SIDE = len(IMAGE) - len(KERNEL) + 1  # of the output
DASHES = ("", "dotted", "dashed", "long-dashed")  # of the four positions
CELL = 30
Rows = Sequence[Sequence[int]]


def patches() -> list[list[int]]:
    """Returns the pixels under the kernel at each position: U transposed."""
    size = range(len(KERNEL))
    return [
        [IMAGE[top + i][left + j] for i in size for j in size]
        for top in range(SIDE)
        for left in range(SIDE)
    ]


def output() -> list[int]:
    """Returns y = w U, one number per position."""
    kernel = flat(KERNEL)
    return [_product(kernel, patch) for patch in patches()]


def kernel_gradient() -> list[int]:
    """Returns U g: the positions' patches, weighted by the output's gradient."""
    weights = flat(OUTPUT_GRADIENT)
    pixels = zip(*patches(), strict=True)
    return [_product(weights, column) for column in pixels]


def flat(rows: Rows) -> list[int]:
    """Returns the entries row by row."""
    return [entry for row in rows for entry in row]


def places() -> tuple[int, ...]:
    """Returns the numbers of the positions in links."""
    return tuple(range(1, len(patches()) + 1))


def data() -> dict[str, Any]:
    """Returns the steps of both products: a line of U, its factor, and the result.

    A line is a column of U for the output, and a row of U for the gradient.
    """
    columns = patches()
    rows = [list(row) for row in zip(*columns, strict=True)]
    return {
        "image": IMAGE,
        "side": SIDE,
        "columns": columns,
        "ways": [
            {
                "name": "output",
                "lines": columns,
                "by": flat(KERNEL),
                "makes": output(),
            },
            {
                "name": "gradient",
                "lines": rows,
                "by": flat(OUTPUT_GRADIENT),
                "makes": kernel_gradient(),
            },
        ],
    }


@cache
def picture() -> Picture:
    """Returns image, patches, product and gradient, one after the other."""
    positions, entries = len(patches()), len(flat(KERNEL))
    return Picture(
        title=(
            f"A 2 × 2 kernel on a 3 × 3 image is one row times a {entries} × "
            f"{positions} matrix"
        ),
        sub="One record, one channel, stride 1, no padding; a line style is a position",
        wide=_draw(Plot(904, 290, Scale(0, 904, 0, 904), Scale(0, 290, 0, 290)), WIDE),
        narrow=_draw(
            Plot(342, 600, Scale(0, 342, 0, 342), Scale(0, 600, 0, 600)), NARROW
        ),
        head=("position", "pixels under the kernel", "output", "gradient there"),
        rows=tuple(
            (f"{number}", " ".join(map(str, patch)), f"{value}", f"{slope}")
            for number, patch, value, slope in zip(
                range(1, positions + 1),
                patches(),
                output(),
                flat(OUTPUT_GRADIENT),
                strict=True,
            )
        ),
        note="Made-up numbers, real arithmetic. The kernel’s gradient for this record "
        f"is {', '.join(map(str, kernel_gradient()))}, row by row.",
    )


# Corner of each part on the sheet, pixels.
WIDE = {
    "image": (0, 50),
    "matrix": (170, 50),
    "kernel": (370, 50),
    "product": (370, 124),
    "output": (370, 208),
    "gradient": (620, 50),
}
NARROW = {
    "image": (0, 40),
    "matrix": (150, 40),
    "kernel": (0, 226),
    "product": (180, 226),
    "output": (0, 316),
    "gradient": (8, 424),
}


def _draw(plot: Plot, corners: dict[str, tuple[int, int]]) -> Markup:
    _image(plot, corners["image"])
    _title(plot, corners["matrix"], "2 unfold: U")
    _columns(plot, corners["matrix"], patches())
    _product_row(plot, corners)
    _gradient(plot, corners["gradient"])
    return plot.svg(
        "Four overlapping 2 × 2 patches of an image become the columns of a matrix; "
        "the kernel, as a row, times that matrix gives the four outputs, and the "
        "matrix times the outputs' gradient gives the kernel's."
    )


def _image(plot: Plot, corner: tuple[int, int]) -> None:
    _title(plot, corner, "1 positions")
    _cells(plot, corner, IMAGE)
    x, y = corner
    for number, dash in enumerate(DASHES):
        top, left = divmod(number, SIDE)
        inset = 3 + 2 * number
        x0, y0 = x + CELL * left + inset, y + CELL * top + inset
        x1, y1 = x0 + 2 * CELL - 2 * inset, y0 + 2 * CELL - 2 * inset
        corners = [(x0, y0), (x1, y0), (x1, y1), (x0, y1)]
        plot.path(corners, f"line thin s-ink {dash}", close=True)


def _columns(plot: Plot, corner: tuple[int, int], columns: Rows) -> None:
    """Draws a matrix by its columns, each above the line of its position."""
    x, y = corner
    _cells(plot, corner, [list(row) for row in zip(*columns, strict=True)])
    for number, dash in enumerate(DASHES):
        left = x + CELL * number
        bottom = y + CELL * len(columns[0])
        ends = [(left + 2, bottom + 5), (left + CELL - 2, bottom + 5)]
        plot.line(ends, f"s-ink {dash}")


def _product_row(plot: Plot, corners: dict[str, tuple[int, int]]) -> None:
    _title(plot, corners["kernel"], "3 multiply: w U = y")
    x, y = corners["kernel"]
    _cells(plot, (x, y), [flat(KERNEL)], "f-sunken")
    plot.text((x + 4 * CELL + 10, y + 20), "× U =", "ink")
    _columns(plot, corners["product"], [[value] for value in output()])
    _title(plot, corners["output"], "4 reshape: the output")
    _cells(plot, corners["output"], [output()[:SIDE], output()[SIDE:]])


def _gradient(plot: Plot, corner: tuple[int, int]) -> None:
    _title(plot, corner, "5 backward: U g")
    x, y = corner
    _cells(plot, corner, [[g] for g in flat(OUTPUT_GRADIENT)], "f-sunken")
    for number, dash in enumerate(DASHES):
        top = y + CELL * number
        plot.line([(x - 5, top + 2), (x - 5, top + CELL - 2)], f"s-ink {dash}")
    plot.text((x + CELL + 8, y + 2 * CELL + 5), "U g =", "ink")
    _cells(plot, (x + 130, y), [[g] for g in kernel_gradient()])
    plot.text((x, y + 4 * CELL + 24), "g: the output’s gradient", "ink")
    plot.text((x, y + 4 * CELL + 48), "U g: the kernel’s, this record", "ink")


def _cells(plot: Plot, corner: tuple[int, int], rows: Rows, css: str = "") -> None:
    x, y = corner
    high, wide = CELL * len(rows), CELL * len(rows[0])
    if css:
        plot.bar((x, x + wide), (y, y + high), css)
    for i in range(len(rows) + 1):
        plot.path([(x, y + CELL * i), (x + wide, y + CELL * i)], "axis")
    for j in range(len(rows[0]) + 1):
        plot.path([(x + CELL * j, y), (x + CELL * j, y + high)], "axis")
    for i, row in enumerate(rows):
        for j, entry in enumerate(row):
            centre = (x + CELL * (j + 0.5), y + CELL * (i + 0.5) + 5)
            plot.text(centre, f"{entry}".replace("-", "−"), "ink", "middle")


def _title(plot: Plot, corner: tuple[int, int], words: str) -> None:
    plot.text((corner[0], corner[1] - 12), words, "strong")


def _product(first: Sequence[int], second: Sequence[int]) -> int:
    return sum(a * b for a, b in zip(first, second, strict=True))


WIDGET = Widget(
    slug="unfolded",
    title="A convolution, unfolded",
    picture=picture,
    data=data,
    controls={
        "way": "Result: 1 the output, 2 the gradient",
        "place": "Position of the kernel, or its entry",
    },
    starts={
        "way": (Choices((1, 2)),),
        "place": (Choices(places()),),
    },
)

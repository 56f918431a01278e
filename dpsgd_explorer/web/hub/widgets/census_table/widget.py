"""Widget that rebuilds the people behind a small table of published statistics.

Misconception: "totals and averages are harmless: nobody is named"
Content: five people of a block; each exact statistic that is published leaves fewer
    blocks that fit, until one is left
Source: Dinur and Nissim 2003; the reconstruction of the 2010 census by Abowd and
    others 2023, arXiv:2312.11283; `table.py` enumerates the blocks
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from markupsafe import Markup

from dpsgd_explorer.web.figures.svg import Picture, Plot
from dpsgd_explorer.web.hub.widgets.base import Widget
from dpsgd_explorer.web.hub.widgets.census_table import table
from dpsgd_explorer.web.recorded.files import recording

NAMES = (
    *(f"woman {i + 1}" for i in range(len(table.WOMEN))),
    *(f"man {i + 1}" for i in range(len(table.MEN))),
)


def fits() -> list[Any]:
    """Returns the recorded count and ranges of each set of statistics."""
    found: list[Any] = recording("recorded", Path(__file__).parent)["fits"]
    return found


def data() -> dict[str, Any]:
    """Returns people, statistics, and what fits each set of them."""
    return {
        "names": NAMES,
        "oldest": table.OLDEST,
        "all": table.all_blocks(),
        "statistics": [
            {"words": one.words, "value": shown_value(one)} for one in table.STATISTICS
        ],
        "mean": f"{sum(table.AGES) / len(table.AGES):g}",
        "fits": fits(),
    }


def shown_value(one: table.Statistic) -> str:
    """Returns the published value of a statistic."""
    return f"{float(table.value(one.slug, table.true_block())[0]):g}"


@cache
def picture() -> Picture:
    """Returns the ages that are possible after the mean alone is published."""
    sets = [2**count - 1 for count in range(len(table.STATISTICS) + 1)]
    counts = [f"{fits()[published][0]:,}" for published in sets]
    words = ["mean age of all", *(one.words for one in table.STATISTICS)]
    return Picture(
        title=(
            f"{len(table.STATISTICS) + 1} published numbers leave {counts[-1]} block "
            f"of {table.all_blocks():,}"
        ),
        sub=(
            f"Five invented people of whole ages up to {table.OLDEST}: how many blocks "
            "fit the published numbers, and the ages that are left for each person"
        ),
        wide=_draw((904, 250)),
        narrow=_draw((342, 250)),
        head=("published so far", "blocks that fit"),
        rows=tuple(
            (name if i == 0 else f"… and the {name}", count)
            for i, (name, count) in enumerate(zip(words, counts, strict=True))
        ),
        kind="computed",
        note=(
            "Invented people. All blocks were enumerated. Exact statistics, without "
            "any noise; noise that covers every value would rule out no block at all."
        ),
        is_private=False,
    )


def _draw(size: tuple[int, int]) -> Markup:
    rows = float(len(NAMES))
    plot = Plot.framed(size, (0.0, float(table.OLDEST)), (0.0, rows), left=84, top=12)
    plot.x_axis([(age, f"{age}") for age in (0, 30, 60)], "age")
    for i, (name, (low, high)) in enumerate(zip(NAMES, fits()[0][1], strict=True)):
        middle = rows - 0.5 - i
        plot.text((0, middle), name, "", "end", (-10, 5))
        plot.bar((low, high), (middle - 0.22, middle + 0.22), "f-wash-private")
        plot.dot((table.AGES[i], middle), "f-private", 5)
    return plot.svg(
        "Five rows, one for each person: after the mean age alone nearly every age is "
        "possible; the dots are the ages that four more numbers leave."
    )


WIDGET = Widget(
    slug="census-table",
    title="Who is behind the table?",
    picture=picture,
    data=data,
    controls={"statistics": "Published statistics"},
)

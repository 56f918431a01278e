"""Widget on a person in a table without names, found by a few known facts.

Misconception: "without names, a table is anonymous"
Content: how many people of the Adult census table are left after each fact that one
    knows, and how many people of the whole table stand alone with those facts
Source: Narayanan and Shmatikov 2008; UCI Adult, recorded by `record.py`
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from markupsafe import Markup

from dpsgd_explorer.web.figures.svg import Picture, Plot
from dpsgd_explorer.web.hub.widgets.base import Widget
from dpsgd_explorer.web.hub.widgets.singled_out.facts import FACTS, ROW
from dpsgd_explorer.web.questions.rounding import percent
from dpsgd_explorer.web.recorded.files import recording


def stored() -> dict[str, Any]:
    """Returns the recorded counts."""
    return recording("recorded", Path(__file__).parent)


def data() -> dict[str, Any]:
    """Returns the person, and the counts of each set of facts, one bit each."""
    found = stored()
    return {
        "row": ROW,
        "people": found["people"],
        "facts": [
            {"words": fact.words, "value": value}
            for fact, value in zip(FACTS, found["values"], strict=True)
        ],
        "left": found["left"],
        "alone": [f"{percent(share)} %" for share in found["alone"]],
    }


@cache
def picture() -> Picture:
    """Returns the people that are left, fact after fact."""
    found = stored()
    sets = [2**count - 1 for count in range(len(FACTS) + 1)]
    return Picture(
        title=(
            f"With {len(FACTS)} facts, {found['left'][-1]} of {found['people']:,} "
            f"people is left; {percent(found['alone'][-1])} % of all stand alone"
        ),
        sub=(
            "People of the Adult table (census of 1994, without names) who share the "
            f"facts of row {ROW}"
        ),
        wide=_draw((904, 260)),
        narrow=_draw((342, 260)),
        head=("facts known", "people left", "of all people, % alone"),
        rows=tuple(
            (
                "none" if i == 0 else f"… and {FACTS[i - 1].words}",
                f"{found['left'][known]:,}",
                percent(found["alone"][known]),
            )
            for i, known in enumerate(sets)
        ),
        kind="computed",
        note=(
            "Counted in the training file of UCI Adult, a public table. Netflix’s "
            "ratings were a larger table of the same kind: rows without names, and "
            "facts that other people know."
        ),
        is_private=False,
    )


def _draw(size: tuple[int, int]) -> Markup:
    found = stored()
    counts = [found["left"][2**count - 1] for count in range(len(FACTS) + 1)]
    plot = Plot.framed(
        size, (0.0, float(len(FACTS))), (0.9, 1e5), left=64, top=30, log_y=True
    )
    plot.y_axis([(10**i, f"{10**i:,}") for i in range(5)], "people left, log scale")
    plot.x_axis([(i, f"{i}") for i in range(len(FACTS) + 1)], "facts known")
    plot.line(list(enumerate(counts)), "s-attack")
    for i, count in enumerate(counts):
        plot.dot((i, count), "f-attack", 4)
    return plot.svg(
        f"People left after each fact: {', '.join(map(str, counts))}, of "
        f"{found['people']}."
    )


WIDGET = Widget(
    slug="singled-out",
    title="A table without names",
    picture=picture,
    data=data,
    controls={"facts": "Facts that somebody knows"},
)

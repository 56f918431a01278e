"""Chart of an attacker's maximum accuracy against ε."""

from __future__ import annotations

from functools import cache
from typing import Literal

from markupsafe import Markup

from dpsgd_explorer.web.figures.svg import Anchor, Picture, Plot
from dpsgd_explorer.web.questions.comparison import Comparison
from dpsgd_explorer.web.questions.odds import (
    EPSILON_ALONE,
    attacker_accuracy,
    percent_at_most,
    posterior,
)
from dpsgd_explorer.web.questions.rounding import certainty_limit

SHOWN = (0.1, 0.5, 1.0, 2.0, 3.0, 5.0, 8.0, 10.0)
WORDS = {
    0.1: "barely better than a coin",
    1.0: "a hint, with room for denial",
    3.0: "a strong suspicion",
    8.0: "next to no limit",
}
CERTAINTY = Comparison(
    posterior, "epsilon", (1.0, 8.0), {"prior": 0.5}, certainty_limit
)
TICKS = {False: (0.1, 0.2, 0.5, 1, 2, 5, 10), True: (0.1, 1, 10)}


@cache
def odds_picture(size: Literal["page", "column"] = "column") -> Picture:
    """Returns the curve of ``attacker_accuracy`` with four labelled points."""
    wide = (1152, 300) if size == "page" else (904, 300)
    low, high = CERTAINTY.values
    return Picture(
        title=(
            f"By {EPSILON_ALONE}, an attacker who starts at 50 % ends at "
            f"{CERTAINTY[0]} % or less at ε = {low:g}, and at {CERTAINTY[1]} % at "
            f"ε = {high:g}"
        ),
        sub=(
            f"Largest certainty, %, that your record was used, with {CERTAINTY.held}, "
            "for an attacker who knows all the others and sees everything that is "
            f"released (δ = 0): what {EPSILON_ALONE} allows any procedure. A run’s own "
            "limit can be far lower"
        ),
        wide=_draw(wide, narrow=False),
        narrow=_draw((342, 230), narrow=True),
        head=("ε", f"right at most, %, {EPSILON_ALONE}"),
        rows=tuple((f"{e:g}", percent_at_most(e)) for e in SHOWN),
        status="exact",
        comparisons=(CERTAINTY,),
    )


def _draw(size: tuple[int, int], *, narrow: bool) -> Markup:
    plot = Plot.framed(size, (0.05, 12.0), (50.0, 100.0), log_x=True, top=34)
    values = [(e, 100 * attacker_accuracy(e)) for e in plot.x.spread(90)]
    plot.y_axis([(y, f"{y}") for y in range(50, 101, 25 if narrow else 10)], "%")
    plot.area(values, "f-wash-attack", 50)
    plot.x_axis([(x, f"{x:g}") for x in TICKS[narrow]], "ε, log scale")
    plot.line(values, "s-attack")
    for epsilon, words in WORDS.items():
        point = (epsilon, 100 * attacker_accuracy(epsilon))
        plot.dot(point, "f-attack")
        plot.text(
            point, f"{percent_at_most(epsilon)} %", "attack halo", "end", (-8, -10)
        )
        if not narrow:
            below = epsilon > 0.5
            side: Anchor = "end" if epsilon > 5 else "start"
            plot.text(point, words, "halo", side, (10, 22 if below else -26))
    return plot.svg(
        f"Curve rising from 50 percent at small epsilon over {percent_at_most(1)} "
        f"percent at 1 to {percent_at_most(8)} percent at 8."
    )

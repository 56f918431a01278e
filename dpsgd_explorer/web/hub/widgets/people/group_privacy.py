"""Group privacy: ε of a person with several records.

Chaining the inequality over k records, one at a time, turns (ε, δ) into

    (k ε, δ (1 + e^ε + … + e^((k-1) ε))).

A mechanism has a pair (ε, δ(ε)) for every ε, and each gives a bound; the least ε for k
records at a given δ is found on its exact curve.

Source: Dwork and Roth (2014), Theorem 2.2, for δ = 0; Vadhan (2017), Lemma 2.2.
"""

from __future__ import annotations

import math
from functools import cache

from markupsafe import Markup

from dpsgd_explorer import accounting
from dpsgd_explorer.accounting import Phase
from dpsgd_explorer.accounting.core.root_finding import first_safe
from dpsgd_explorer.web.figures.svg import Picture, Plot, small
from dpsgd_explorer.web.hub.examples.default_run import default_plan, noise_for
from dpsgd_explorer.web.questions.rounding import limit

TARGET = 1.0  # of one record
DELTA = 1e-5
MOST = 10
SHOWN = (1, 2, 5, 10)
PRECISION = 1e-11  # of ε per record; the bound is on the safe side


def run_phases() -> list[Phase]:
    """Returns the trainer's default run, with the noise for ``TARGET`` per record."""
    plan = default_plan()
    noise = noise_for(TARGET, plan.steps)
    return [Phase(plan.sample_rate, noise, plan.steps)]


@cache
def group_epsilon(records: int) -> float:
    """Returns a bound on ε for ``records`` records of one person, at the same δ.

    The run is the trainer's default, with the noise for ε = ``TARGET`` per record.
    """
    [run] = run_phases()

    def log_excess(epsilon: float) -> float:
        delta = accounting.delta(
            sample_rate=run.sample_rate,
            noise_multiplier=run.noise_multiplier,
            steps=run.steps,
            epsilon=epsilon,
        )
        chained = sum(math.exp(i * epsilon) for i in range(records))
        return math.log(delta * chained / DELTA)

    return records * first_safe(log_excess, 0.0, 10 * TARGET, PRECISION)


def bound_text(records: int) -> str:
    """Returns the bound as text, rounded up."""
    return limit(group_epsilon(records))


@cache
def people_picture() -> Picture:
    """Returns the bound against a person's number of records."""
    return Picture(
        title=(
            f"A promise of ε = {TARGET:g} per record bounds a person with five "
            f"records by {bound_text(5)} only, a person with ten by {bound_text(MOST)}"
        ),
        sub=(
            f"ε for all records of one person at δ = {small(DELTA)}; trainer’s default "
            f"run with the noise for ε = {TARGET:g} per record"
        ),
        wide=_draw((904, 330), narrow=False),
        narrow=_draw((342, 280), narrow=True),
        head=("records of a person", "clipped by record", "clipped by person"),
        rows=tuple((f"{k}", bound_text(k), bound_text(1)) for k in range(1, MOST + 1)),
        kind="computed",
        status="bound",
        note="“By person” samples people and clips the sum of a person’s gradients "
        "once; the number of people equals the number of records in “by record”.",
    )


def _draw(size: tuple[int, int], *, narrow: bool) -> Markup:
    plot = Plot.framed(size, (1, MOST + 0.6), (0.5, 50), log_y=True, right=20)
    plot.y_axis([(y, f"{y:g}") for y in (0.5, 1, 2, 5, 10, 20, 50)], "ε, log scale")
    plot.x_axis([(k, f"{k}") for k in range(1, MOST + 1)], "records of one person")
    line = [(float(k), group_epsilon(k)) for k in range(1, MOST + 1)]
    plot.line([(1.0, line[0][1]), (float(MOST), line[0][1])], "s-good")
    plot.line(line, "s-budget")
    for k in SHOWN[1:]:
        point = line[k - 1]
        plot.dot(point, "f-budget")
        plot.text(point, bound_text(k), "budget halo", "end", (-8, -8))
    plot.dot(line[0], "f-good")
    plot.text((MOST, line[0][1]), "clipped by person", "good halo", "end", (0, 20))
    if not narrow:
        plot.text(
            (7, line[6][1]), "clipped by record", "budget halo", "start", (14, 22)
        )
    return plot.svg(
        f"A line that rises from epsilon {TARGET:g} at one record to "
        f"{bound_text(MOST)} at ten, and a level line for clipping by person."
    )

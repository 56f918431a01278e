"""Group privacy: ε of a person with several records, exactly.

Source: Ganesh (2024), arXiv:2401.10294, by ``accounting.group_epsilon_interval``.
"""

from __future__ import annotations

from functools import cache

from markupsafe import Markup

from dpsgd_explorer import accounting
from dpsgd_explorer.accounting import Phase
from dpsgd_explorer.web.figures.svg import Picture, Plot, small
from dpsgd_explorer.web.hub.examples.default_run import default_plan, noise_for
from dpsgd_explorer.web.questions.rounding import limit

TARGET = 1.0  # of one record
DELTA = 1e-5
MOST = 10
SHOWN = (1, 2, 5, 10)


def run_phases() -> list[Phase]:
    """Returns the trainer's default run, with the noise for ``TARGET`` per record."""
    plan = default_plan()
    noise = noise_for(TARGET, plan.steps)
    return [Phase(plan.sample_rate, noise, plan.steps)]


@cache
def group_epsilon(records: int) -> float:
    """Returns ε of ``records`` records of one person together, at the same δ.

    The run is the trainer's default, with the noise for ε = ``TARGET`` per record.
    """
    return accounting.group_epsilon_interval(run_phases(), DELTA, records).value


@cache
def run_certainty(records: int) -> float:
    """Returns the limit of this run on an attacker's share of right guesses."""
    return (1 + accounting.group_delta_interval(run_phases(), 0.0, records).value) / 2


def epsilon_text(records: int) -> str:
    """Returns ε as text, rounded up."""
    return limit(group_epsilon(records))


@cache
def chained_epsilon(records: int) -> float:
    """Returns the bound on ε that chains the guarantee of one record."""
    return accounting.chained_epsilon(run_phases(), DELTA, records)


def chained_text(records: int) -> str:
    """Returns the chained bound as text, rounded up."""
    return limit(chained_epsilon(records))


@cache
def people_picture() -> Picture:
    """Returns ε against a person's number of records."""
    return Picture(
        title=(
            f"A promise of ε = {TARGET:g} per record is ε = {epsilon_text(5)} for a "
            f"person with five records, and {epsilon_text(MOST)} with ten"
        ),
        sub=(
            f"ε for all records of one person at δ = {small(DELTA)}; trainer’s default "
            f"run with the noise for ε = {TARGET:g} per record"
        ),
        wide=_draw((904, 330), narrow=False),
        narrow=_draw((342, 280), narrow=True),
        head=("records of a person", "clipped by record", "clipped by person"),
        rows=tuple(
            (f"{k}", epsilon_text(k), epsilon_text(1)) for k in range(1, MOST + 1)
        ),
        kind="computed",
        status="exact",
        note="“By person” samples people and clips the mean of a person’s gradients "
        "once; the number of people equals the number of records in “by record”.",
    )


def _draw(size: tuple[int, int], *, narrow: bool) -> Markup:
    plot = Plot.framed(size, (1, MOST + 0.6), (0.5, 50), log_y=True, right=20)
    plot.y_axis([(y, f"{y:g}") for y in (0.5, 1, 2, 5, 10, 20, 50)], "ε, log scale")
    plot.x_axis([(k, f"{k}") for k in range(1, MOST + 1)], "records of one person")
    line = [(float(k), group_epsilon(k)) for k in range(1, MOST + 1)]
    plot.line([(1.0, line[0][1]), (float(MOST), line[0][1])], "s-private")
    plot.line(line, "s-ink")
    for k in SHOWN[1:]:
        point = line[k - 1]
        plot.dot(point, "f-ink")
        plot.text(point, epsilon_text(k), "ink halo", "end", (-8, -8))
    plot.dot(line[0], "f-private")
    plot.text((MOST, line[0][1]), "clipped by person", "private halo", "end", (0, 20))
    if not narrow:
        plot.text((7, line[6][1]), "clipped by record", "ink halo", "start", (14, 22))
    return plot.svg(
        f"A line that rises from epsilon {TARGET:g} at one record to "
        f"{epsilon_text(MOST)} at ten, and a level line for clipping by person."
    )

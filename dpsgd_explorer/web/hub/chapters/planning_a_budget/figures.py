"""Figures of the budget chapter: several uses of a budget, and the best of many runs.

The price of the best of a random number of runs is the bound of Papernot and Steinke
(2022), arXiv:2110.03620, Theorem 2, for a geometric number (shape 1); all other values
are the exact accountant's.
"""

from __future__ import annotations

from functools import cache

from markupsafe import Markup

from dpsgd_explorer import accounting
from dpsgd_explorer.accounting import (
    Odometer,
    Phase,
    RdpCurve,
    RenyiFilter,
    best_of_trials,
)
from dpsgd_explorer.web.figures.frames import Label, ride
from dpsgd_explorer.web.figures.svg import Anchor, Frames, Picture, Plot, Point, small
from dpsgd_explorer.web.hub.examples.default_run import default_plan, noise_for
from dpsgd_explorer.web.hub.widgets.recorded_run.widget import spent_by_half
from dpsgd_explorer.web.questions.rounding import limit

__all__ = [
    "SHOWN_RUNS",
    "SPLIT_HEAD",
    "TOTAL",
    "epsilon_of_all",
    "epsilon_of_best",
    "filtered_steps",
    "fixed_steps",
    "selection_picture",
    "spent_by_half",
    "splits",
]

DELTA = 1e-5
ONE = 1.0  # ε of one run
TOTAL = 3.0
RUNS = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100)
SHOWN_RUNS = 20
SPLIT_HEAD = ("first use, ε", "σ if the ε are added up", "σ counted together", "saved")


@cache
def best(runs: int) -> float:
    """Returns an upper bound on ε of the best of a geometric number of runs."""
    plan = default_plan()
    run = Phase(plan.sample_rate, noise_for(ONE, plan.steps), plan.steps)
    return float(best_of_trials(RdpCurve.of([run]), mean_trials=runs).epsilon(DELTA))


@cache
def all_of_them(runs: int) -> float:
    """Returns the exact ε of ``runs`` runs that are all published."""
    plan = default_plan()
    noise = noise_for(ONE, plan.steps)
    return accounting.epsilon(
        sample_rate=plan.sample_rate,
        noise_multiplier=noise,
        steps=runs * plan.steps,
        delta=DELTA,
    )


def epsilon_of_best() -> str:
    """Returns ε of the best of about ``SHOWN_RUNS`` runs, rounded up."""
    return limit(best(SHOWN_RUNS))


def epsilon_of_all() -> str:
    """Returns ε of ``SHOWN_RUNS`` runs that are all published, rounded up."""
    return limit(all_of_them(SHOWN_RUNS))


def splits() -> list[tuple[str, ...]]:
    """Returns the noise of a second use of a budget, after a first use."""
    plan = default_plan()
    rows: list[tuple[str, ...]] = []
    for first in (0.5, 1.0, 2.0):
        used = Odometer()
        used.add_dp_sgd(plan.sample_rate, noise_for(first, plan.steps), plan.steps)
        added = noise_for(TOTAL - first, plan.steps)
        together = used.noise_multiplier(
            target_epsilon=TOTAL,
            sample_rate=plan.sample_rate,
            steps=plan.steps,
            delta=DELTA,
        )
        cells = (limit(added, 3), limit(together, 3))
        rows.append((f"{first:g}", *cells, f"{100 * (1 - together / added):.0f} %"))
    return rows


def fixed_steps() -> str:
    """Returns the number of steps within the budget if the plan is fixed beforehand."""
    plan = default_plan()
    noise = noise_for(TOTAL, plan.steps)
    most = accounting.steps(
        target_epsilon=TOTAL,
        sample_rate=plan.sample_rate,
        noise_multiplier=noise,
        delta=DELTA,
    )
    return f"{most:,}"


def filtered_steps() -> str:
    """Returns the number of steps within the budget with a filter."""
    plan = default_plan()
    noise = noise_for(TOTAL, plan.steps)
    return f"{RenyiFilter(TOTAL, DELTA).steps_left(plan.sample_rate, noise):,}"


@cache
def selection_picture() -> Picture:
    """Returns the ε of many runs with three methods of publication."""
    return Picture(
        title=_title(SHOWN_RUNS),
        sub=(
            f"ε at δ = {small(DELTA)} of several runs of the trainer’s default, each "
            f"with the noise for ε = {ONE:g}; log scales"
        ),
        wide=_draw((904, 340), narrow=False),
        narrow=_draw((342, 300), narrow=True),
        head=("runs", "added up", "all published", "only the best, number random"),
        rows=tuple(
            (
                f"{runs}",
                f"{runs * ONE:g}",
                limit(all_of_them(runs)),
                limit(best(runs)),
            )
            for runs in RUNS
        ),
        kind="computed",
        status="bound",
        note="“All published” is exact. “Only the best” needs a number of runs that "
        "is random, geometric with the mean below, and stays secret.",
        frames=Frames(
            name="Runs, each at ε = 1",
            places=tuple(f"{runs}" for runs in RUNS),
            titles=tuple(map(_title, RUNS)),
            still=RUNS.index(SHOWN_RUNS),
        ),
    )


def _title(runs: int) -> str:
    """Returns the figure's conclusion at a number of runs."""
    if runs == 1:
        return (
            f"One run costs ε = {limit(all_of_them(1))}; the best of a random number "
            f"of runs, 1 on average, costs ε = {limit(best(1))}"
        )
    return (
        f"The best of about {runs} runs at ε = {ONE:g} costs ε = {limit(best(runs))}; "
        f"publishing all of {runs} costs {limit(all_of_them(runs))}"
    )


def _draw(size: tuple[int, int], *, narrow: bool) -> Markup:
    plot = Plot.framed(size, (1, 100), (0.8, 120), log_x=True, log_y=True, right=20)
    plot.y_axis([(y, f"{y}") for y in (1, 2, 5, 10, 20, 50, 100)], "ε")
    plot.x_axis([(x, f"{x}") for x in (1, 2, 5, 10, 20, 50, 100)], "number of runs")
    added: list[Point] = [(runs, runs * ONE) for runs in RUNS]
    published: list[Point] = [(runs, all_of_them(runs)) for runs in RUNS]
    selected: list[Point] = [(runs, best(runs)) for runs in RUNS]
    plot.line(added, "s-ink thin dashed")
    place = RUNS.index(SHOWN_RUNS)
    drawn: tuple[tuple[list[Point], str, Anchor, Point], ...] = (
        (published, "ink", "end", (-6, -8)),
        (selected, "private", "middle", (0, 22)),
    )
    for line, css, anchor, shift in drawn:
        words = tuple(limit(value) for _, value in line)
        label = Label(words=words, css=f"{css} halo", anchor=anchor, shift=shift)
        ride(plot, line, f"s-{css}", still=place, fill=f"f-{css}", label=label)
    plot.text(added[-1], "added up", "ink halo", "end", (-36, 4))
    plot.text(published[RUNS.index(30)], "all published", "ink halo", "start", (9, 15))
    plot.text(selected[-1], "only the best", "private halo", "end", (0, -9))
    value = epsilon_of_all()
    return plot.svg(
        "Three rising lines over the number of runs: added up is steepest, all "
        f"published is below it, and only the best stays flattest; at {SHOWN_RUNS} "
        f"runs they reach {SHOWN_RUNS * ONE:g}, {value} and {epsilon_of_best()}."
    )


thumbnail = selection_picture

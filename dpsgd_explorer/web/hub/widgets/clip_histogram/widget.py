"""Lengths of a recorded run's gradients, and what every C would do to them.

``record.py`` measured them without noise, so they are not private.  The norm of the
noise is σC √d / (qN), the root of its expected square.

Misconception: “A smaller C is more private”, “a larger C needs a larger σ”, “clipping
    only shortens”, and “one C fits the whole run”
Content: lengths of a recorded run’s gradients at eight steps; for any C one drags to:
    the share cut, the angle between clipped and true mean, the noise next to the mean;
    ε does not move
Source: recorded by `record.py`; bias of clipping: Chen, Wu and Hong 2020,
    arXiv:2006.15429
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from markupsafe import Markup

from dpsgd_explorer.experiments.catalogue import MODELS
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.web.figures.svg import Picture, Plot, Scale, small
from dpsgd_explorer.web.forms.starts import Choices, Span
from dpsgd_explorer.web.hub.widgets.base import Widget
from dpsgd_explorer.web.questions.rounding import (
    limit,
    nearest,
    percent,
    significant,
    whole,
)
from dpsgd_explorer.web.recorded.files import recording

stored = partial(recording, "recorded", Path(__file__).parent)
SHOWN_STEP = 35
COMPARED = 10.0  # second C in the table
PARTS = (10, 20, 40, 100)  # percent: the tallest bar fits below one of these
SHIPPED = ("step", "batch_size", "counts", "lengths", "angles")
WIDEST = 100  # degrees: end of the axis of angles
RATIOS = (0.8, 200.0)  # ends of the axis of noise over mean


@cache
def config() -> TrainingConfig:
    """Returns the settings of the recorded run."""
    return TrainingConfig.parse(stored()["config"])


def bounds() -> tuple[float, ...]:
    """Returns the measured values of C."""
    return tuple(stored()["bounds"])


def numbers() -> tuple[int, ...]:
    """Returns the numbers of the measured steps."""
    return tuple(step["step"] for step in stored()["steps"])


def place_of(bound: float) -> int:
    """Returns the index of a measured C.

    Raises:
        ValueError: ``bound`` was not measured.
    """
    return bounds().index(bound)


def noise_length(bound: float) -> float:
    """Returns the length of the noise on the mean gradient."""
    plan = config().plan
    spread = plan.noise_multiplier * bound / plan.expected_batch_size
    return spread * math.sqrt(stored()["parameters"])


def clipped_share(step: dict[str, Any], bound: float) -> float:
    """Returns the share of a step's gradients that are longer than a measured C."""
    first = stored()["edges"].index(bound)
    part: float = sum(step["counts"][first:]) / step["batch_size"]
    return part


def noise_ratio(step: dict[str, Any], bound: float) -> float:
    """Returns the ratio of the norms of the noise and of the mean clipped gradient."""
    length: float = step["lengths"][place_of(bound)]
    return noise_length(bound) / length


def shown_step() -> dict[str, Any]:
    """Returns the initial step."""
    return next(step for step in stored()["steps"] if step["step"] == SHOWN_STEP)


def bound() -> str:
    """Returns the run's own C."""
    return f"{config().max_grad_norm:g}"


def step() -> str:
    """Returns the number of the shown step."""
    return f"{SHOWN_STEP}"


def steps() -> str:
    """Returns the number of steps of the run."""
    return whole(config().plan.steps)


def degrees() -> str:
    """Returns the angle between the means with and without the run's C."""
    return nearest(shown_step()["angles"][place_of(config().max_grad_norm)], 0)


def share() -> str:
    """Returns the percentage of gradients that the run's C clips in the shown step."""
    return percent(clipped_share(shown_step(), config().max_grad_norm), 0)


def spent() -> str:
    """Returns the ε of the whole run, which does not depend on C."""
    return limit(config().plan.epsilon())


def run_in_words() -> str:
    """Returns the recorded run in words."""
    run = config()
    return (
        f"{run.data.label}, {MODELS[run.model].label.lower()}, {run.plan.steps} steps "
        f"of {run.expected_batch_size} expected records"
    )


@cache
def data() -> dict[str, Any]:
    """Returns lengths and angles of all steps, and the noise at each C."""
    return {
        "bounds": bounds(),
        "edges": stored()["edges"],
        "own": place_of(config().max_grad_norm),
        "first": numbers().index(SHOWN_STEP),
        "steps": [{name: step[name] for name in SHIPPED} for step in stored()["steps"]],
        "noise": [float(f"{noise_length(bound):.4g}") for bound in bounds()],
        "parameters": whole(stored()["parameters"]),
        "widest": WIDEST,
        "ratios": RATIOS,
        "parts": PARTS,
        "epsilon": spent(),
    }


@cache
def picture() -> Picture:
    """Returns lengths, angle and noise of the shown step over C."""
    chosen = config().max_grad_norm
    return Picture(
        title=(
            f"At C = {chosen:g}, {share()} % of the gradients of step {SHOWN_STEP} are "
            f"clipped, and their mean turns by {degrees()}°"
        ),
        sub=(
            f"Lengths of the gradients of one batch; {run_in_words()}; "
            f"ε = {spent()} at δ = {small(config().delta)}"
        ),
        wide=_draw((904, 470), narrow=False),
        narrow=_draw((342, 470), narrow=True),
        head=(
            "step",
            *(
                f"{name} at C = {bound:g}"
                for bound in (chosen, COMPARED)
                for name in ("shortened, %", "turned", "noise over mean")
            ),
        ),
        rows=tuple(
            (f"{step['step']}", *_cells(step, chosen), *_cells(step, COMPARED))
            for step in stored()["steps"]
        ),
        kind="recorded",
        is_private=False,
        note=(
            "Measured without noise, for teaching; ε does not cover it. Another C is "
            f"tried on one step at a time: the run itself used C = {chosen:g}."
        ),
    )


def _cells(step: dict[str, Any], bound: float) -> tuple[str, str, str]:
    return (
        percent(clipped_share(step, bound), 0),
        f"{nearest(step['angles'][place_of(bound)], 0)}°",
        significant(noise_ratio(step, bound)),
    )


def _draw(size: tuple[int, int], *, narrow: bool) -> Markup:
    step, edges = shown_step(), stored()["edges"]
    chosen = config().max_grad_norm
    shares = [100 * count / step["batch_size"] for count in step["counts"]]
    top = next(part for part in PARTS if part >= max(shares))
    plot = Plot.framed(
        size, (edges[0], edges[-1]), (0, top), log_x=True, left=44, bottom=270
    )
    panels = [
        plot,
        replace(plot, y=Scale(0, WIDEST, size[1] - 168, size[1] - 236)),
        replace(plot, y=Scale(*RATIOS, size[1] - 44, size[1] - 112, log=True)),
    ]
    ticks = [10.0**power for power in range(-5, 3, 2 if narrow else 1)]
    plot.y_axis([(0, "0"), (top, f"{top} %")], "gradients, by their length")
    for (start, end), part in zip(pairwise(edges), shares, strict=True):
        plot.bar((start, end), (0, part), "f-twin" if end > chosen else "f-good")
    panels[1].y_axis([(0, "0°"), (90, "90°")], "angle of the clipped to the true mean")
    panels[1].line(list(zip(bounds(), step["angles"], strict=True)), "s-good")
    ratios = [(bound, noise_ratio(step, bound)) for bound in bounds()]
    panels[2].y_axis([(1, "1"), (10, "10"), (100, "100")], "noise ÷ clipped mean")
    panels[2].line(ratios, "s-private")
    for panel in panels:
        panel.path([(chosen, panel.y.low), (chosen, panel.y.high)], "line thin s-ink")
    plot.text((chosen, top), f"C = {chosen:g}", "ink halo", "end", (-6, 12))
    panels[2].x_axis(
        [(x, f"{x:g}".replace("e-0", "e-")) for x in ticks], "length, and C; log scale"
    )
    return plot.svg(
        f"Bars of gradient lengths from {edges[0]:g} to {edges[-1]:g}; bars beyond C "
        "are marked. Below, against C: the angle falls to 0 as C grows, and the "
        "noise over the clipped mean rises."
    )


WIDGET = Widget(
    slug="clip-histogram",
    title="Where to clip",
    picture=picture,
    data=data,
    controls={"bound": "Clipping bound C", "step": "Step of the run"},
    starts={
        "bound": (Span(bounds()[0], bounds()[-1]),),
        "step": (Choices(numbers()),),
    },
)

"""One DP-SGD step on the toy problem, sub-step by sub-step, in a plane."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from functools import cache

from markupsafe import Markup

from dpsgd_explorer.web.figures.svg import Picture, Plot, Scale
from dpsgd_explorer.web.hub.examples import toy_problem as toy
from dpsgd_explorer.web.hub.examples.toy_problem import Vector

SEED = 365  # of the batch
NOISE_SEED = 1
SAMPLE_RATE = 0.5
MAX_GRAD_NORM = 1.0
NOISE_MULTIPLIER = 1.5
DRAWS = 201  # number of draws of the noise; the first is released
EXPECTED_BATCH_SIZE = round(SAMPLE_RATE * toy.SIZE)
AT: Vector = (0.3, 0.3)  # θ half-way to the fitted line


@dataclass(frozen=True)
class Step:
    """Values of one step, in the order of the algorithm; averages are divided by qN.

    Gradients are negated, so they point in the direction of each record's update.
    Draws of the noise are in units of σC; the step releases the first one.
    """

    drawn: list[int]
    gradients: list[Vector]
    clipped: list[Vector]
    true_mean: Vector
    clipped_mean: Vector
    noise: list[Vector]
    releases: list[Vector]

    @property
    def clipped_count(self) -> int:
        """Number of clipped gradients."""
        return sum(toy.norm(g) > MAX_GRAD_NORM for g in self.gradients)

    @property
    def released(self) -> Vector:
        """The noisy mean of the first draw."""
        return self.releases[0]


@cache
def step() -> Step:
    """Returns one step at θ = AT."""
    source = random.Random(SEED)
    drawn = [i for i in range(toy.SIZE) if source.random() < SAMPLE_RATE]
    gradients = [toy.scaled(toy.gradient(AT, toy.records()[i]), -1) for i in drawn]
    clipped = [toy.scaled(g, min(1, MAX_GRAD_NORM / toy.norm(g))) for g in gradients]
    divisor = EXPECTED_BATCH_SIZE
    clipped_sum = toy.total(clipped)
    scale = NOISE_MULTIPLIER * MAX_GRAD_NORM
    chance = random.Random(NOISE_SEED)
    noise = [(chance.gauss(), chance.gauss()) for _ in range(DRAWS)]
    releases = [
        toy.scaled(toy.total([clipped_sum, toy.scaled(draw, scale)]), 1 / divisor)
        for draw in noise
    ]
    true_mean = toy.scaled(toy.total(gradients), 1 / divisor)
    clipped_mean = toy.scaled(clipped_sum, 1 / divisor)
    return Step(drawn, gradients, clipped, true_mean, clipped_mean, noise, releases)


@cache
def microscope_picture() -> Picture:
    """Returns gradients and clipping ball on the left, the averages on the right."""
    now = step()
    bias = toy.angle(now.true_mean, now.clipped_mean)
    noisy = toy.angle(now.true_mean, now.released)
    rows = [
        ("true", now.true_mean),
        ("clipped", now.clipped_mean),
        ("released", now.released),
    ]
    return Picture(
        title=(
            f"Clipping turns the step by {bias:.0f}°; with this draw of noise it is "
            f"off by {noisy:.0f}°"
        ),
        sub=(
            "One DP-SGD step in a plane of two parameters, gradients pointing "
            f"downhill; C = {MAX_GRAD_NORM:g}, σ = {NOISE_MULTIPLIER:g}"
        ),
        wide=_wide(now),
        narrow=_narrow(now),
        head=("average", "length", "turned from the true one"),
        rows=tuple(
            (name, f"{toy.norm(v):.2f}", f"{toy.angle(now.true_mean, v):.0f}°")
            for name, v in rows
        ),
        note=(
            f"{len(now.gradients)} records drawn, {EXPECTED_BATCH_SIZE} expected, "
            f"{now.clipped_count} clipped. Dots: {DRAWS - 1} other draws of the noise. "
            "Made-up records, real arithmetic."
        ),
    )


def _wide(now: Step) -> Markup:
    plot = Plot(904, 400, Scale(0, 1, 0, 1), Scale(0, 1, 0, 1))
    _gradients(plot, now, (0, 40), (404, 344))
    _averages(plot, now, (448, 40), (456, 344))
    return plot.svg(_label(now))


def _narrow(now: Step) -> Markup:
    plot = Plot(342, 680, Scale(0, 1, 0, 1), Scale(0, 1, 0, 1))
    _gradients(plot, now, (0, 34), (342, 284))
    _averages(plot, now, (0, 376), (342, 284))
    return plot.svg(_label(now))


def _label(now: Step) -> str:
    return (
        f"{len(now.gradients)} arrows from one point, {now.clipped_count} of them "
        "cut at a circle; next to it their average, the clipped average and a cloud "
        f"of {DRAWS} noisy averages."
    )


def _panel(
    sheet: Plot, corner: Vector, size: Vector, centre: Vector, reach: float
) -> Plot:
    """Returns a plot on the sheet with equal scales on both axes around a centre."""
    wide, high = size
    sideways = reach * wide / high
    return Plot(
        sheet.width,
        sheet.height,
        Scale(centre[0] - sideways, centre[0] + sideways, corner[0], corner[0] + wide),
        Scale(centre[1] - reach, centre[1] + reach, corner[1] + high, corner[1]),
        sheet.marks,
    )


def _gradients(sheet: Plot, now: Step, corner: Vector, size: Vector) -> None:
    panel = _panel(sheet, corner, size, (-0.6, -0.45), 2.4)
    x, y = panel.x, panel.y
    panel.bar((x.low, x.high), (y.low, y.high), "f-sunken")
    ring = [_on_circle(MAX_GRAD_NORM, i / 36 * math.pi) for i in range(73)]
    panel.path(ring, "f-surface", close=True)
    panel.path(ring, "line thin s-ink", close=True)
    for gradient, clipped in zip(now.gradients, now.clipped, strict=True):
        if gradient != clipped:
            panel.line([clipped, gradient], "thin s-twin dashed")
            panel.speck(gradient, "f-twin", 2.5)
        panel.arrow((0, 0), clipped, "s-private thin", "f-private")
    panel.speck((0, 0), "f-ink", 4)
    title = f"{len(now.gradients)} gradients, clipped to C"
    panel.text((x.low, y.high), title, "strong", shift=(0, -14))
    panel.text(_on_circle(MAX_GRAD_NORM, -2.2), "C", "ink it", "end", (-6, 14))


def _averages(sheet: Plot, now: Step, corner: Vector, size: Vector) -> None:
    centre = toy.scaled(now.true_mean, 0.5)
    panel = _panel(sheet, corner, size, centre, 0.62)
    x, y = panel.x, panel.y
    panel.path(
        [(x.low, y.low), (x.high, y.low), (x.high, y.high), (x.low, y.high)],
        "axis",
        close=True,
    )
    for release in now.releases[1:]:
        if x.low < release[0] < x.high and y.low < release[1] < y.high:
            panel.speck(release, "f-private faint")
    panel.line([(0, 0), now.true_mean], "s-twin dashed")
    panel.arrow((0, 0), now.clipped_mean, "s-good", "f-good")
    panel.arrow((0, 0), now.released, "s-private", "f-private")
    panel.speck((0, 0), "f-ink", 4)
    panel.text((x.low, y.high), "Their average over qN", "strong", shift=(0, -14))
    panel.text(now.true_mean, "true", "twin halo", "start", (8, 4))
    panel.text(now.clipped_mean, "clipped", "good halo", "start", (8, 4))
    panel.text(now.released, "released", "private halo", "start", (8, 4))


def _on_circle(radius: float, angle: float) -> Vector:
    return radius * math.cos(angle), radius * math.sin(angle)

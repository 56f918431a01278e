"""δ as an area: two worlds that differ in one record, released with Gaussian noise.

Without the record the outcome is N(0, σ²), with it N(1, σ²), in units of the
sensitivity.  p(x) exceeds e^ε q(x) right of x = 1/2 + ε σ², and the area between them
there is δ(ε).

Source: Balle and Wang (2018), arXiv:1805.06530; the values are accounting's.
"""

from __future__ import annotations

import math
from functools import cache

from markupsafe import Markup

from dpsgd_explorer.accounting import gaussian_delta, gaussian_epsilon
from dpsgd_explorer.web.figures.svg import Picture, Plot
from dpsgd_explorer.web.questions.rounding import limit

SIGMA = 1.0
EPSILON = 1.0
DELTA = 1e-5
BAND = 0.05  # height at which the band is drawn
SHOWN = (0.0, 0.5, 1.0, 2.0, 3.0, 4.0)


def density(x: float, mean: float, sigma: float = SIGMA) -> float:
    """Returns the density of the outcome at x."""
    z = (x - mean) / sigma
    return math.exp(-z * z / 2) / sigma / math.sqrt(2 * math.pi)


@cache
def tail_picture() -> Picture:
    """Returns the two worlds at σ = 1 with the area beyond the band at ε = 1."""
    area = gaussian_delta(epsilon=EPSILON, noise_multiplier=SIGMA)
    needed = limit(gaussian_epsilon(delta=DELTA, noise_multiplier=SIGMA))
    rows = [
        (f"{e:g}", limit(gaussian_delta(epsilon=e, noise_multiplier=SIGMA), 4))
        for e in SHOWN
    ]
    return Picture(
        title=(
            f"δ is the area beyond the ε-band: {limit(area, 3)} at ε = {EPSILON:g}, "
            f"and at most {DELTA:.5f} from ε = {needed} on"
        ),
        sub=(
            "Density of what is released, Gaussian noise with σ = "
            f"{SIGMA:g} times the sensitivity, one release"
        ),
        wide=_draw((904, 330), narrow=False),
        narrow=_draw((342, 270), narrow=True),
        head=("ε", "δ"),
        rows=(*rows, (needed, f"{DELTA:.5f}")),
        status="exact",
        note=Markup(
            "Add or remove one record. In the ε-band neither world makes an outcome "
            "more than e<sup>ε</sup> times as likely as the other. Shaded: what “with "
            "you” has beyond e<sup>ε</sup> times “without you”."
        ),
    )


def _draw(size: tuple[int, int], *, narrow: bool) -> Markup:
    plot = Plot.framed(size, (-3.2, 4.8), (0.0, 1.16), left=12, top=20)
    edge = 0.5 + EPSILON * SIGMA**2
    other_edge = 0.5 - EPSILON * SIGMA**2
    steps = [edge + (plot.x.high - edge) * i / 50 for i in range(51)]
    upper = [(x, density(x, 1)) for x in steps]
    lower = [(x, _scaled(x)) for x in reversed(steps)]
    plot.path([*upper, *lower], "f-wash-attack", close=True)
    plot.x_axis([(x, f"{x}") for x in range(-3, 5)], "outcome, in units of sensitivity")
    plot.curve(lambda x: density(x, 0), "s-private thin dashed")
    plot.curve(_scaled, "s-budget thin")
    plot.curve(lambda x: density(x, 1), "s-private")
    plot.path([(edge, 0), (edge, density(edge, 1))], "axis")
    plot.path([(other_edge, 0), (other_edge, _scaled(other_edge))], "axis")
    plot.path([(other_edge, BAND), (edge, BAND)], "line thin s-budget")
    plot.text((0.5, BAND), "the ε-band", "budget halo", "middle", (0, -6))
    plot.text((0, density(0, 0)), "without you", "private halo", "middle", (0, -8))
    plot.text((0.62, _scaled(0.62)), "e^ε × without you", "budget halo", shift=(10, 4))
    if narrow:
        plot.text((1.5, density(1.5, 1)), "with you", "private halo", shift=(10, 0))
        plot.text(
            (2.7, 0.12), f"δ = {limit(_delta(), 3)}", "strong halo", shift=(6, -8)
        )
    else:
        plot.text((1.75, density(1.75, 1)), "with you", "private halo", shift=(12, 0))
        plot.text(
            (2.5, 0.11), f"δ = {limit(_delta(), 3)}", "strong halo", shift=(40, -8)
        )
    return plot.svg(
        "Bell curve of the outcome with you, and e to the epsilon times the one "
        "without you. Far right, beyond the band, the first curve is above the "
        f"second by an area of {limit(_delta(), 3)}."
    )


def _scaled(x: float) -> float:
    return math.exp(EPSILON) * density(x, 0)


def _delta() -> float:
    return gaussian_delta(epsilon=EPSILON, noise_multiplier=SIGMA)

"""Errors of private linear regression against ε, read at one budget.

Misconception: "SGD is the way to train privately", and "a private answer is better than
    none"
Content: errors of AdaSSP, SSP and two noisy descents at any ε, next to always answering
    the mean and least squares without privacy; of 1,000 releases, the median and the
    band from 10% to 90%
Source: recorded by ``record.py`` from the data; Wang 2018, arXiv:1803.02596
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from markupsafe import Markup

from dpsgd_explorer.experiments.california_housing.descents import PreparedHousing
from dpsgd_explorer.regression.comparison import EPSILONS
from dpsgd_explorer.web.figures.svg import Picture, Plot, round_ticks
from dpsgd_explorer.web.forms.starts import Choices
from dpsgd_explorer.web.hub.widgets.base import Widget
from dpsgd_explorer.web.labs.regression.error_axes import (
    COLOURS,
    DASHES,
    ERROR_NAME,
    ErrorAxes,
)
from dpsgd_explorer.web.labs.regression.results import NAMES, REGIMES
from dpsgd_explorer.web.questions.rounding import nearest, significant, whole
from dpsgd_explorer.web.recorded.files import recording

SHOWN = tuple(round(epsilon, 4) for epsilon in EPSILONS)
FIRST_EPSILON = SHOWN[0]
REPETITIONS = 1_000  # recorded releases per method and ε
DIGITS = 4  # decimals of plotted errors
KNOWN_DIGITS = 3  # significant digits of a quantile of these releases
LABELS = {name: f"descent, σ = {noise:g}" for name, noise in REGIMES.items()}
# Fill of each band.  That of SSP leaves the axes at every ε, so only its lower edge is
# drawn.
WASHES = {
    "adassp": "f-area",
    "ssp": "",
    "large_noise": "f-wash-good",
    "small_noise": "f-wash-good",
}
EPSILON_TICKS = 5
WIDE, NARROW = (816, 340), (342, 240)
KEY_WIDTH, KEY_SAMPLE, KEY_GAP = 190, 24, 17  # px, of the key inside the plot


@cache
def recorded() -> dict[str, Any]:
    """Returns the recorded errors: quantiles of each method at each ε."""
    return recording("recorded", Path(__file__).parent)


def median_at(method: str, epsilon: float) -> float:
    """Returns the recorded median error of a method at one of the ε."""
    medians: list[float] = recorded()["methods"][method]["median"]
    return medians[SHOWN.index(epsilon)]


def data() -> dict[str, Any]:
    """Returns axes, colours, and each method's median error and band at each ε.

    A value above the axis of errors is None in a median, and cut to it in a band.
    """
    evaluation_set, axes = PreparedHousing().evaluation_set, _axes()
    return {
        "epsilons": SHOWN,
        "first": 0,
        "axes": axes.for_script(),
        "epsilonTicks": round_ticks((0, axes.epsilon), EPSILON_TICKS),
        "mean": round(evaluation_set.trivial_mse, DIGITS),
        "baselines": {
            "mean": nearest(evaluation_set.trivial_mse),
            "least": nearest(evaluation_set.mse),
        },
        "sub": _sub(),
        "key": {"width": KEY_WIDTH, "sample": KEY_SAMPLE, "gap": KEY_GAP},
        "methods": [_method(name, axes) for name in recorded()["methods"]],
    }


def picture() -> Picture:
    """Returns the error of all methods against ε, as at the first ε."""
    methods = data()["methods"]
    shown = sorted(methods, key=lambda method: float(method["texts"][0]))
    medians = ", ".join(f"{one['name']} ({one['texts'][0]})" for one in shown)
    title = f"Median errors at ε = {FIRST_EPSILON}: {medians}"
    return Picture(
        title=title,
        sub=_sub(),
        wide=_drawn(WIDE, methods, title),
        narrow=_drawn(NARROW, methods, title),
        head=("ε", *(f"{one['name']}, 10 – 90 %" for one in methods)),
        rows=tuple(
            (
                f"{SHOWN[i]:g}",
                *(f"{one['texts'][i]} ({one['bands'][i]})" for one in methods),
            )
            for i in (0, 5, 10, 20, 30, 40, len(SHOWN) - 1)
        ),
        kind="recorded",
        status="exact",
        note="ε is counted exactly. The errors are computed from the data and are not "
        "private. SSP and AdaSSP are released again at each ε. A descent is a single "
        "run that spends ε step by step.",
        is_private=False,
    )


def _sub() -> str:
    return (
        f"Mean squared error in (100,000 $)² of {whole(REPETITIONS)} "
        "releases at each ε: line: median; band: 10 to 90 %. Measured on the records "
        "themselves. Learning rate of the descents: from public bounds"
    )


def _axes() -> ErrorAxes:
    return ErrorAxes.of(PreparedHousing(), SHOWN[-1])


def _method(name: str, axes: ErrorAxes) -> dict[str, Any]:
    quantiles = recorded()["methods"][name]
    low, median, high = (quantiles[key] for key in ("low", "median", "high"))
    top = axes.error[1]
    return {
        "slug": name,
        "name": NAMES[name],
        "label": LABELS.get(name, NAMES[name]),
        "colour": COLOURS[name],
        "wash": WASHES[name],
        "dash": DASHES.get(name, ""),
        "medians": [round(x, DIGITS) if x <= top else None for x in median],
        "lows": [round(min(x, top), DIGITS) for x in low],
        "highs": [round(min(x, top), DIGITS) for x in high],
        "texts": [significant(x, KNOWN_DIGITS) for x in median],
        "bands": [
            f"{significant(a, KNOWN_DIGITS)} – {significant(b, KNOWN_DIGITS)}"
            for a, b in zip(low, high, strict=True)
        ],
    }


def _drawn(size: tuple[int, int], methods: list[dict[str, Any]], title: str) -> Markup:
    axes = _axes()
    plot = Plot.framed(size, (0, axes.epsilon), axes.error, left=38, right=14)
    plot.y_axis(axes.ticks, f"{ERROR_NAME}, (100,000 $)²")
    plot.x_axis(round_ticks((0, axes.epsilon), EPSILON_TICKS), "ε spent")
    for one in methods:
        upper = list(zip(SHOWN, one["highs"], strict=True))
        lower = list(zip(SHOWN, one["lows"], strict=True))
        if one["wash"]:
            plot.path([*upper, *lower[::-1]], f"band {one['wash']}", close=True)
        else:
            plot.line(lower, f"thin s-{one['colour']}{one['dash']}")
    for level in axes.baselines:
        ends = [(plot.x.low, level.error), (plot.x.high, level.error)]
        plot.line(ends, f"thin dashed s-{level.colour}")
        shift = (0, -6 if level.is_at_end else 15)
        plot.text(ends[1], level.words, f"{level.colour} halo", "end", shift)
    for one in methods:
        css = f"s-{one['colour']}{one['dash']}"
        pairs = zip(SHOWN, one["medians"], strict=True)
        plot.line([(x, y) for x, y in pairs if y is not None], css)
    _draw_key(plot, methods)
    return plot.svg(f"{title}. Lines of the medians against ε, with bands.")


def _draw_key(plot: Plot, methods: list[dict[str, Any]]) -> None:
    """Draws a sample and the name of each line, in the empty corner of the plot."""
    per_px = (plot.x.high - plot.x.low) / (plot.x.end - plot.x.start)
    start = plot.x.high - KEY_WIDTH * per_px
    mean = next(line.error for line in _axes().baselines if line.is_at_end)
    for i, one in enumerate(methods, start=1):
        shift = KEY_GAP * i
        height = mean - shift * (plot.y.high - plot.y.low) / abs(
            plot.y.end - plot.y.start
        )
        sample = [(start, height), (start + KEY_SAMPLE * per_px, height)]
        plot.line(sample, f"s-{one['colour']}{one['dash']}")
        css = f"{one['colour']} halo"
        plot.text(sample[1], one["label"], css, "start", (6, 4))


WIDGET = Widget(
    slug="regression-errors",
    title="Errors of private regression",
    picture=picture,
    data=data,
    controls={"epsilon": "ε"},
    starts={"epsilon": (Choices(SHOWN),)},
)

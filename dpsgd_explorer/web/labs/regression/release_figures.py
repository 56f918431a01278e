"""Smaller figures of the linear regression lab: released coefficients, and a budget."""

from __future__ import annotations

import numpy as np
from markupsafe import Markup

from dpsgd_explorer.experiments.vocabulary import RELATIONS
from dpsgd_explorer.regression.checks import Array
from dpsgd_explorer.regression.perturbation import LABELS
from dpsgd_explorer.web.figures.svg import Anchor, Picture, Plot, round_ticks
from dpsgd_explorer.web.forms.fields import text_of
from dpsgd_explorer.web.labs.regression.error_axes import COLOURS
from dpsgd_explorer.web.labs.regression.question import METHODS
from dpsgd_explorer.web.labs.regression.results import View, epsilon_text
from dpsgd_explorer.web.questions.rounding import limit, need

WIDE, NARROW = (816, 300), (342, 280)


def cloud_picture(view: View) -> Picture:
    """Returns the figure of coefficients in repeated releases."""
    question, cloud = view.question, view.cloud
    exact = view.evaluation_set.theta[view.columns]
    low, high = np.quantile(cloud[:, 0], (0.05, 0.95), method="inverted_cdf")
    return Picture(
        title=f"{question.first} is {signed(exact[0])} without privacy; nine in ten "
        f"releases are between {signed(low)} and {signed(high)}",
        sub=f"{len(cloud)} releases by {METHODS[question.method]} at ε = "
        f"{epsilon_text(question.epsilon)}; one coefficient across, one up",
        wide=_cloud(view, WIDE, narrow=False),
        narrow=_cloud(view, NARROW, narrow=True),
        head=("coefficient", "non-private", "5 %", "median", "95 %"),
        rows=tuple(
            _quantiles(name, exact[i], cloud[:, i])
            for i, name in enumerate((question.first, question.second))
        ),
        kind="computed",
        status="exact",
        note="A release publishes one of these dots at random. The labeled dot is "
        "the non-private solution; a ridge pulls releases towards zero.",
        is_private=False,
    )


def percent(share: float, digits: int = 0) -> str:
    """Returns a share in percent as text."""
    return f"{100 * share:.{digits}f} %"


def signed(value: float) -> str:
    """Returns a coefficient with two decimals and a typographic minus sign."""
    return f"{value:.2f}".replace("-", "−")


def _quantiles(name: str, exact: float, values: Array) -> tuple[str, ...]:
    low, middle, high = np.quantile(values, (0.05, 0.5, 0.95), method="inverted_cdf")
    return (name, *(f"{value:.3g}" for value in (exact, low, middle, high)))


def _cloud(view: View, size: tuple[int, int], *, narrow: bool) -> Markup:
    exact = view.evaluation_set.theta[view.columns]
    ranges = [_window(view.cloud[:, i], exact[i]) for i in range(2)]
    plot = Plot.framed(size, ranges[0], ranges[1], left=52, top=30)
    plot.y_axis(round_ticks(ranges[1], 5), view.question.second)
    plot.x_axis(round_ticks(ranges[0], 4 if narrow else 7), view.question.first)
    shown = 0
    for point in view.cloud.tolist():
        if all(a <= v <= b for v, (a, b) in zip(point, ranges, strict=True)):
            plot.speck(
                (point[0], point[1]), f"f-{COLOURS[view.question.method]} soft", 4
            )
            shown += 1
    plot.dot((exact[0], exact[1]), "f-ink", 5)
    is_right = 2 * exact[0] > sum(ranges[0])
    side: Anchor = "end" if is_right else "start"
    shift = (-10 if is_right else 10, -8)
    plot.text((exact[0], exact[1]), "non-private", "ink halo", side, shift)
    if shown < len(view.cloud):
        away = f"{len(view.cloud) - shown} of {len(view.cloud)} lie outside"
        plot.text((plot.x.high, plot.y.high), away, "halo", "end", (0, -12))
    return plot.svg(
        f"A cloud of {shown} dots around the non-private coefficients of "
        f"{view.question.first} and {view.question.second}."
    )


def _window(values: Array, exact: float) -> tuple[float, float]:
    """Returns a range with the middle of the cloud and the exact value."""
    low, high = np.quantile(values, (0.08, 0.92), method="inverted_cdf")
    low, high = min(low, exact), max(high, exact)
    room = 0.25 * (high - low) or 1.0
    return float(low - room), float(high + room)


def budget_picture(view: View) -> Picture:
    """Returns the figure of the budget's split between the released statistics."""
    budget, method = view.budget, METHODS[view.question.method]
    largest = max(budget.shares, key=lambda name: budget.shares[name])
    return Picture(
        title=f"{LABELS[largest]} takes {percent(budget.shares[largest])} of "
        f"{method}’s budget; all of it is one Gaussian with ε = "
        f"{limit(budget.epsilon, 4)}",
        sub="Share of 1/σ², the quantity that adds up over releases",
        wide=_bar(view, (816, 96)),
        narrow=_bar(view, (342, 96)),
        head=("released", "share", "σ", "sensitivity", "noise std"),
        rows=tuple(
            (
                LABELS[part.name],
                percent(budget.shares[part.name], 1),
                need(budget.noise_multipliers[part.name]),
                f"{part.sensitivity:.4g}",
                need(budget.noise_stds[part.name]),
            )
            for part in budget.parts
        ),
        kind="computed",
        status="exact",
        note=f"{RELATIONS[view.question.neighboring_relation].capitalize()}; δ = "
        f"{text_of(view.question.delta)}.",
    )


def _bar(view: View, size: tuple[int, int]) -> Markup:
    plot = Plot.framed(size, (0, 1), (0, 1), left=2, right=2, top=30, bottom=22)
    begin = 0.0
    fills = {"xtx": "f-private", "xty": "f-area", "lambda_min": "f-faint"}
    for name, share in view.budget.shares.items():
        plot.bar((begin, begin + share), (0, 1), fills[name])
        plot.text((begin, 1), LABELS[name], "ink", "start", (2, -8))
        if share > 0.12:
            plot.text((begin, 0), percent(share), "", "start", (2, 17))
        begin += share
    return plot.svg(
        "A bar of the budget: "
        + ", ".join(f"{LABELS[n]} {percent(s)}" for n, s in view.budget.shares.items())
    )

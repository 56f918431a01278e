"""Randomised response: a survey that protects each answer, and its error.

Each person tells the truth with probability p = e^ε / (1 + e^ε), else the opposite.
For a true share λ of n people, the share of recorded yes is y with mean
λ (2p - 1) + 1 - p, so (y - (1 - p)) / (2p - 1) estimates λ without bias.

Source: Warner (1965), "Randomized response: a survey technique for eliminating
evasive answer bias"; the error is the standard deviation of a mean of n coins.
"""

from __future__ import annotations

import math
from functools import cache

from markupsafe import Markup

from dpsgd_explorer.web.figures.svg import Picture, Plot
from dpsgd_explorer.web.questions.rounding import limit

SURVEY_EPSILON = math.log(3)  # two coins: truth on heads, the second coin on tails
TRUE_SHARE = 0.3


def truth_probability(epsilon: float) -> float:
    """Returns the probability that the recorded answer is true."""
    return 1 / (1 + math.exp(-epsilon))


def standard_error(epsilon: float, people: int, share: float = TRUE_SHARE) -> float:
    """Returns the standard deviation of the estimated share."""
    p = truth_probability(epsilon)
    recorded = share * (2 * p - 1) + 1 - p
    return math.sqrt(recorded * (1 - recorded) / people) / (2 * p - 1)


def noise_error(epsilon: float, people: int, noise_on: str) -> float:
    """Returns the standard deviation that the noise alone gives the estimated share.

    The people asked are fixed, so who was asked adds nothing to it.  ``noise_on`` is

    - "each answer": every recorded answer is the truth with probability p, else the
      opposite; a coin of variance p (1 - p) on each;
    - "the total": a trusted curator adds Laplace noise to the count once.  One person
      added or removed changes the count by 1, so the scale is 1/ε and the standard
      deviation √2/ε; the number of people counts as public.

    Raises:
        KeyError: ``noise_on`` has another value.
    """
    p = truth_probability(epsilon)
    return {
        "each answer": math.sqrt(p * (1 - p) / people) / (2 * p - 1),
        "the total": math.sqrt(2) / epsilon / people,
    }[noise_on]


@cache
def answers_picture() -> Picture:
    """Returns the chart of recorded answers, by true answer."""
    p = truth_probability(SURVEY_EPSILON)
    ratio = math.exp(SURVEY_EPSILON)
    return Picture(
        title=(
            f"A recorded yes is {ratio:.0f} times as likely if yes is the truth, "
            "and it never proves it"
        ),
        sub="Probability, %, of each recorded answer, by the true answer",
        wide=_bars((904, 250), p, narrow=False),
        narrow=_bars((342, 250), p, narrow=True),
        head=("true answer", "recorded yes, %", "recorded no, %"),
        rows=(
            ("yes", f"{100 * p:.0f}", f"{100 - 100 * p:.0f}"),
            ("no", f"{100 - 100 * p:.0f}", f"{100 * p:.0f}"),
        ),
        status="exact",
        note=(
            f"ε = ln {ratio:.0f} = {limit(SURVEY_EPSILON)} when rounded up, δ = 0, "
            "for one answer replaced by the other."
        ),
    )


def _bars(size: tuple[int, int], p: float, *, narrow: bool) -> Markup:
    plot = Plot.framed(size, (0, 2), (0, 1), bottom=32)
    plot.y_axis([(y / 100, f"{y}") for y in (0, 25, 50, 75, 100)], "%")
    truths = (("yes", -1, "f-private", "private"), ("no", 1, "f-faint", "ink"))
    for recorded_as, place in (("yes", 0.5), ("no", 1.5)):
        for truth, side, fill, words in truths:
            chance = p if truth == recorded_as else 1 - p
            left, right = sorted((place + 0.03 * side, place + 0.22 * side))
            plot.bar((left, right), (0, chance), fill)
            middle = ((left + right) / 2, chance)
            share = f"{100 * chance:.0f} %"
            label = share if narrow else f"truth: {truth}, {share}"
            plot.text(middle, label, f"{words} halo", "middle", (0, -8))
            if narrow:
                plot.text(middle, truth, f"{words} halo", "middle", (0, -24))
    plot.x_axis([(0.5, "recorded yes"), (1.5, "recorded no")], "")
    return plot.svg(
        f"Bars: a true yes is recorded as yes in {100 * p:.0f} percent of cases, a "
        f"true no in {100 - 100 * p:.0f} percent."
    )

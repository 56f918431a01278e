"""The share card: an SVG of a run with its ε in odds, 1200 by 630 px.

The file has no style sheet, so it contains literal colours.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from markupsafe import Markup, escape

from dpsgd_explorer.web.figures.svg import Scale, small
from dpsgd_explorer.web.questions.odds import EPSILON_ALONE, percent_at_most

WIDTH, HEIGHT = 1200, 630
# The tokens of the light theme.
PAPER, INK, SOFT, RULE = "#fbfaf6", "#1a2026", "#454d55", "#e1dcd1"
LINE, WALL, WASH, ALARM = "#0072b2", "#d55e00", "#faebdd", "#8e3480"
SANS = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif"
SERIF = "Charter, 'Iowan Old Style', Cambria, 'Noto Serif', Georgia, serif"
PLOT = (668, 190, 1136, 492)  # left, top, right, bottom


@dataclass(frozen=True, kw_only=True)
class Card:
    """Contents of a card.

    Attributes:
        title: Model and data set.
        accuracy: Test accuracy as text, "" if unknown.
        epsilon: ε as text, rounded up; "∞" without a guarantee.
        spent: ε as a number; None without a guarantee.
        status: Status of ε, such as "exact" or "bound".
        points: ε spent, or steps without a guarantee, and test accuracy (0 to 1).
        budget: Maximum ε, None without a budget.
        is_own: If True, the test records come from a visitor's table.
        axis: Label of the horizontal axis.
        choice: Sentence on a choice that ε covers, "" without one.
        audit: Sentence on the ε that the run's audit proves, "" without one.
        limits: Maximum share of right guesses about the use of one record, each with
            its name; "" if only the limit of ε alone is known.
    """

    title: str
    accuracy: str
    epsilon: str
    spent: float | None
    delta: float
    status: str
    points: list[tuple[float, float]]
    budget: float | None
    is_own: bool = False
    axis: str = "ε spent"
    choice: str = ""
    audit: str = ""
    limits: str = ""


def share_card(card: Card) -> Markup:
    """Returns the card as SVG."""
    label = f"{card.title}: {card.accuracy} at ε = {card.epsilon}"
    parts = [
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="{PAPER}"/>',
        text(64, 96, card.title, 40, family=SERIF),
        text(64, 226, card.accuracy or "no result", 104, weight=600),
        text(64, 268, _tested(card), 26, SOFT),
        text(64, 372, f"ε = {card.epsilon}", 64, weight=600, fill=_colour(card)),
        text(64, 408, _terms(card), 22, SOFT),
        *([text(64, 438, card.audit, 22, SOFT)] if card.audit else []),
        *(text(64, 480 + 34 * i, line, 25) for i, line in enumerate(_odds(card))),
        *_curve(card),
        text(64, 590, "DP-SGD Explorer", 24, SOFT, family=SERIF),
        text(WIDTH - 64, 590, "add or remove one record", 20, SOFT, anchor="end"),
    ]
    return Markup(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'width="{WIDTH}" height="{HEIGHT}" role="img" '
        f'aria-label="{escape(label)}">{"".join(parts)}</svg>'
    )


def _tested(card: Card) -> str:
    if card.is_own:
        return "of own test records right: not private"
    return "of unseen records right"


def _colour(card: Card) -> str:
    return LINE if card.spent is not None else ALARM


def _terms(card: Card) -> str:
    if card.spent is None:
        return "no noise: not private"
    choice = f", {card.choice}" if card.choice else ""
    return f"at δ = {small(card.delta)}, {card.status}{choice}"


def _odds(card: Card) -> list[str]:
    """Returns lines of text on the best guess of an attacker at this ε."""
    if card.spent is None:
        return ["Nothing bounds what an attacker", "can learn about a record."]
    alone = f"{EPSILON_ALONE}: {percent_at_most(card.spent, card.delta)} %"
    return [
        "A guess whether one record was used",
        "is right at most (a coin: 50 %)",
        card.limits or alone,
    ]


def _curve(card: Card) -> list[str]:
    """Returns the SVG elements of accuracy against spent ε, up to the budget."""
    left, top, right, bottom = PLOT
    axis = card.axis if card.spent is not None else "step"
    marks = [
        f'<path d="M{left} {bottom}H{right}" stroke="{SOFT}" fill="none"/>',
        text(right, bottom + 34, axis, 20, SOFT, anchor="end"),
        text(left, top - 18, "test accuracy", 20, SOFT),
    ]
    if not card.points:
        return marks
    end = max(card.budget or 0.0, card.points[-1][0])
    x = Scale(0, 1.08 * end or 1.0, left, right)
    y = Scale(*_range([value for _, value in card.points]), bottom, top)
    if card.budget is not None:
        wall = x(card.budget)
        marks += [
            f'<rect x="{wall:.1f}" y="{top}" width="{right - wall:.1f}" '
            f'height="{bottom - top}" fill="{WASH}"/>',
            f'<path d="M{wall:.1f} {top}V{bottom}" stroke="{WALL}" stroke-width="4"/>',
        ]
    shown = [point for point in card.points if point[1] >= y.low]
    places = [f"{x(a):.1f} {y(b):.1f}" for a, b in shown]
    marks.append(
        f'<path d="M{"L".join(places)}" fill="none" stroke="{_colour(card)}" '
        'stroke-width="5" stroke-linejoin="round"/>'
    )
    last_x, last_y = places[-1].split()
    marks.append(f'<circle cx="{last_x}" cy="{last_y}" r="10" fill="{_colour(card)}"/>')
    ends = (y.low, y.high)
    return marks + [
        text(left - 12, round(y(value)) + 7, f"{100 * value:g} %", 20, SOFT, "end")
        for value in ends
    ]


def _range(values: list[float]) -> tuple[float, float]:
    """Returns ends of the axis, multiples of 5%, around the last three quarters."""
    late = values[len(values) // 4 :]
    low = max(0.0, math.floor(20 * min(late)) / 20)
    high = min(1.0, math.ceil(20 * max(late)) / 20)
    return low, high if high > low else low + 0.05


def text(
    x: float,
    y: float,
    words: str,
    size: int,
    fill: str = INK,
    anchor: str = "start",
    *,
    weight: int = 400,
    family: str = SANS,
) -> str:
    """Returns an SVG text; ``anchor`` aligns its start, middle or end with x."""
    return (
        f'<text x="{x}" y="{y}" font-family="{family}" font-size="{size}" '
        f'font-weight="{weight}" fill="{fill}" text-anchor="{anchor}">'
        f"{escape(words)}</text>"
    )

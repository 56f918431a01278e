"""Each digit's accuracy at one level of privacy, with one digit made rare.

The figure and the widget show the same recorded runs, each level at its tuned rate.

Misconception: "Half a point of accuracy on average is half a point for everyone", and
    "clipping must cost the rare class"
Content: one digit of ten made rare: the accuracy of each digit next to the average
    without privacy, clipped only, at ε = 3 and 1, each at the rate tuned on average,
    and the same digit when frequent; four of its test pictures that only privacy
    misreads, with the answer of each level
Source: our own recorded runs (`tools/record/fairness.py`, `misread.py`); Bagdasaryan,
    Poursaeed and Shmatikov 2019, arXiv:1905.12101
"""

from __future__ import annotations

from functools import cache
from statistics import fmean
from typing import Any

from dpsgd_explorer.web.figures.svg import Picture, small
from dpsgd_explorer.web.forms.starts import Choices
from dpsgd_explorer.web.hub.widgets.base import Widget
from dpsgd_explorer.web.hub.widgets.rare_class import readings
from dpsgd_explorer.web.questions.rounding import nearest

CLASSES = range(10)
AXIS = (60, 100)  # percent: no run of the widget is below, and no guess
SAID = {
    readings.ORDINARY: "Without privacy",
    readings.CLIPPED: "Clipped only, not private",
}


def places() -> tuple[int, ...]:
    """Returns the numbers of the levels in links, from 1."""
    return tuple(range(1, len(readings.levels()) + 1))


def name(level: str) -> str:
    """Returns the name of a level as a choice."""
    return f"{level}, not private" if level in SAID else level


def gap(level: str) -> float:
    """Returns the gap between the average and the rare digit, in points."""
    rare, average = _rare(level), _shares("rare", level, None)
    return fmean(average) - fmean(rare)


def conclusion(level: str) -> str:
    """Returns a level's readings in a sentence."""
    rare, average = _rare(level), _shares("rare", level, None)
    return (
        f"{SAID.get(level, f'At {level}')}: {_mean(rare)} of the rare "
        f"{readings.rare_digit()}s are read right, {_mean(average)} on average, "
        f"a gap of about {nearest(gap(level), 0)} points"
    )


def change(level: str) -> str:
    """Returns a sentence that compares the means of a level with ordinary training."""
    label = readings.rare_digit()
    if level == readings.ORDINARY:
        frequent = _shares("whole", level, label)
        points = nearest(fmean(frequent) - fmean(_rare(level)), 1)
        return f"Without privacy, being rare costs this digit {points} points."
    return (
        "Compared with ordinary training: the average "
        f"{_moved('rare', level, None)}, the rare {label} "
        f"{_moved('rare', level, label)}, the same digit when frequent "
        f"{_moved('whole', level, label)}."
    )


def misread(level: str) -> str:
    """Returns a sentence about the shown pictures and all test pictures, one run."""
    run = readings.misread()
    answers = [picture["answers"][level] for picture in run["pictures"]]
    wrong = sum(answer != readings.rare_digit() for answer in answers)
    return (
        f"{wrong or 'None'} of these {len(answers)} misread, and "
        f"{run['misread'][level]} of all {run['records']} "
        f"{readings.rare_digit()}s (seed {run['seed']})"
    )


def settings() -> str:
    """Returns the shared settings of all runs, in words."""
    runs = readings.stored()
    return (
        f"Right predictions of each digit on the whole test set, %; wavelet features "
        f"and a linear layer on MNIST, {runs['steps']} steps, "
        f"{readings.record_count('rare')} training pictures of an "
        f"{readings.rare_digit()}; where there is an ε, δ = {small(runs['delta'])}, "
        "one record added or removed"
    )


@cache
def data() -> dict[str, Any]:
    """Returns means, seeds (in percent) and sentences of every level."""
    label, levels = readings.rare_digit(), readings.levels()
    return {
        "settings": settings(),
        "seeds": len(readings.stored()["seeds"]),
        "axis": AXIS,
        "rare": label,
        "frequent": (
            f"the same {label} with {readings.record_count('whole'):,} pictures"
        ),
        "first": levels.index(readings.LEAST),
        "pictures": [one["shades"] for one in readings.misread()["pictures"]],
        "levels": [
            {
                "name": name(level),
                "conclusion": conclusion(level),
                "change": change(level),
                "misread": misread(level),
                "answers": [
                    one["answers"][level] for one in readings.misread()["pictures"]
                ],
                "average": _reading(_shares("rare", level, None)),
                "digits": [
                    _reading(_shares("rare", level, digit)) for digit in CLASSES
                ],
                "frequent": _reading(_shares("whole", level, label)),
            }
            for level in levels
        ],
    }


def table() -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Returns headings and rows of the table: each digit at each level."""
    head = ("training", "average", *map(str, CLASSES))
    rows = [
        (level["name"], *(r["words"] for r in (level["average"], *level["digits"])))
        for level in data()["levels"]
    ]
    return head, rows


def picture() -> Picture:
    """Returns the rare digit, the same when frequent, and the others at all levels."""
    return readings.rare_picture()


def _rare(level: str) -> list[float]:
    return _shares("rare", level, readings.rare_digit())


def _shares(records: str, level: str, label: int | None) -> list[float]:
    return readings.rights(records, level, label, readings.tuned_factor(records, level))


def _mean(shares: list[float]) -> str:
    return f"{nearest(fmean(shares), 1)}\N{NO-BREAK SPACE}%"


def _moved(records: str, level: str, label: int | None) -> str:
    """Returns the difference of a mean from ordinary training, in words."""
    before = _shares(records, readings.ORDINARY, label)
    by = fmean(_shares(records, level, label)) - fmean(before)
    return f"{'lower' if by < 0 else 'higher'} by {nearest(abs(by), 1)} points"


def _reading(shares: list[float]) -> dict[str, Any]:
    return {
        "mean": round(fmean(shares), 2),
        "each": [round(share, 2) for share in shares],
        "words": nearest(fmean(shares), 1),
    }


WIDGET = Widget(
    slug="rare-class",
    title="A rare digit",
    picture=picture,
    data=data,
    controls={"level": "Operation, by its position"},
    starts={"level": (Choices(places(), by_place=False),)},
    helpers={"table": table, "least": lambda: readings.LEAST},
)

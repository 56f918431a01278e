"""The controls of each widget that a teacher's link may hide, lock or set.

Templates mark them by ``limits.attributes(name)``, scripts by ``control`` of a grip.
"""

from __future__ import annotations

from dpsgd_explorer.web.figures.chapters import by_digit, unfold
from dpsgd_explorer.web.figures.regression import errors as regression_errors
from dpsgd_explorer.web.forms.starts import Choices, Rules, Span
from dpsgd_explorer.web.hub.widgets.odd_record import RECORD
from dpsgd_explorer.web.widgets import (
    accountant_race,
    clip_histogram,
    recorded_run,
    three_way_twin,
    two_worlds,
)

CONTROLS: dict[str, dict[str, str]] = {
    "two-worlds": {
        "noise": "Noise multiplier σ",
        "bound": "Clipping bound C",
        "record": "The odd record",
        "rate": "Sampling rate q",
        "count": "Trainings per world",
        "again": "Draw others",
        "threshold": "The attacker’s threshold",
    },
    "microscope": {
        "bound": "Clipping bound C",
        "noise": "Noise multiplier σ",
        "draws": "New noise and new batches",
    },
    "clip-histogram": {"bound": "Clipping bound C", "step": "Step of the run"},
    "accountant-race": {"course": "Run, by its number of steps", "play": "Play"},
    "recorded-run": {"run": "Run, by its position", "play": "Play"},
    "three-way-twin": {"rate": "Learning rate of all models, 0: each has its own"},
    "regression-errors": {"epsilon": "ε"},
    "unfolded": {
        "way": "Result: 1 the output, 2 the gradient",
        "place": "Position of the kernel, or its entry",
    },
    "rare-class": {"level": "Operation, by its position"},
    "membership-game": {
        "model": "The model: 1 without privacy, 2 to 4 with ε = 1, 2, 4",
        "again": "New game",
    },
}
#: What controls that hold a value can start at.
STARTS: dict[str, dict[str, Rules]] = {
    "two-worlds": {
        "noise": (Choices(two_worlds.NOISE),),
        "bound": (Span(0.25, 4, doublings=True),),
        "record": RECORD,
        "rate": (Choices(two_worlds.RATES),),
        "count": (Choices(two_worlds.COUNTS, by_place=False),),
        "threshold": (Span(-5, 5),),  # standard deviations
    },
    "microscope": {
        "bound": (Span(0.25, 4, doublings=True),),
        "noise": (Span(0.25, 4, doublings=True),),
    },
    "clip-histogram": {
        "bound": (Span(clip_histogram.bounds()[0], clip_histogram.bounds()[-1]),),
        "step": (Choices(clip_histogram.numbers()),),
    },
    "accountant-race": {
        "course": (Choices(tuple(one.steps for one in accountant_race.courses())),),
    },
    "recorded-run": {"run": (Choices(recorded_run.places(), by_place=False),)},
    "three-way-twin": {"rate": (Choices(three_way_twin.shared_rates()),)},
    "regression-errors": {"epsilon": (Choices(regression_errors.SHOWN),)},
    "unfolded": {
        "way": (Choices((1, 2)),),
        "place": (Choices(unfold.places()),),
    },
    "rare-class": {"level": (Choices(by_digit.places(), by_place=False),)},
    "membership-game": {"model": (Choices((1, 2, 3, 4), by_place=False),)},
}

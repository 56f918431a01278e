"""The controls of each widget that a teacher's link may hide, lock or set.

Templates mark them by ``limits.attributes(name)``, scripts by ``control`` of a grip.
"""

from __future__ import annotations

from dpsgd_explorer.web.figures.chapters import by_digit, unfold
from dpsgd_explorer.web.figures.regression import errors as regression_errors
from dpsgd_explorer.web.forms.starts import Choices, Rules

CONTROLS: dict[str, dict[str, str]] = {
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
    "regression-errors": {"epsilon": (Choices(regression_errors.SHOWN),)},
    "unfolded": {
        "way": (Choices((1, 2)),),
        "place": (Choices(unfold.places()),),
    },
    "rare-class": {"level": (Choices(by_digit.places(), by_place=False),)},
    "membership-game": {"model": (Choices((1, 2, 3, 4), by_place=False),)},
}

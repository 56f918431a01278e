"""Widget on a picture that one gradient contains, until noise hides it.

Misconception: "a gradient is a number, it says nothing about my picture"
Content: a handwritten digit, what one division finds in the noisy gradient of a linear
    model, and ε of that one release
Source: Geiping et al. 2020; the lab of reconstruction, with its recording
"""

from __future__ import annotations

import base64
import math
from functools import cache
from typing import Any

import numpy as np
from markupsafe import Markup

from dpsgd_explorer.accounting import gaussian_delta
from dpsgd_explorer.web.figures.svg import Picture, small
from dpsgd_explorer.web.forms.starts import Choices
from dpsgd_explorer.web.hub.widgets.base import Widget
from dpsgd_explorer.web.labs.attack.grey_picture import grey_picture
from dpsgd_explorer.web.labs.reconstruct.releases import (
    DELTA,
    NOISE,
    epsilons,
    stored,
)
from dpsgd_explorer.web.questions.rounding import certainty_limit

LABEL = 9
BOUND = 1.0
CLASSES = 10
SEED, DRAWS = 0, 25


@cache
def _record() -> np.ndarray:
    """Returns the bytes (784,) of the picture."""
    pixels = np.frombuffer(base64.b64decode(stored()["pictures"]), np.uint8)
    labels: list[int] = stored()["labels"]
    record: np.ndarray = pixels.reshape(len(labels), -1)[labels.index(LABEL)]
    return record


def data() -> dict[str, Any]:
    """Returns the picture, and the noise multipliers with ε of one release each."""
    return {
        "picture": base64.b64encode(_record().tobytes()).decode(),
        "label": LABEL,
        "bound": BOUND,
        "noise": NOISE,
        "epsilons": [row["known"] for row in epsilons()],
        "delta": small(DELTA),
        "right": [certainty_limit(_right(noise)) for noise in NOISE],
    }


def _right(noise: float) -> float:
    """Returns how often an attacker at even odds is right at most about the record."""
    if noise == 0:
        return 1.0
    return (1 + gaussian_delta(epsilon=0.0, noise_multiplier=noise)) / 2


@cache
def correlations() -> list[float]:
    """Returns the median correlation of the best row and the record, by noise."""
    record = _record() / 255
    errors = np.full(CLASSES, 1 / CLASSES)
    errors[LABEL] -= 1
    rows = np.outer(errors, np.append(record, 1.0))
    rows *= min(1.0, BOUND / np.linalg.norm(rows))
    draws = np.random.default_rng(SEED).normal(size=(DRAWS, *rows.shape))
    found = []
    for multiplier in NOISE:
        noisy = rows + multiplier * BOUND * draws
        quotients = noisy[..., :-1] / noisy[..., -1:]
        best = [
            max(np.corrcoef(row, record)[0, 1] for row in of_draw)
            for of_draw in quotients
        ]
        found.append(float(np.median(best)))
    return found


@cache
def picture() -> Picture:
    """Returns the record, with the correlation and ε at each noise."""
    drawn = _draw()
    return Picture(
        title=(
            "Without noise, one division reads the picture off the gradient: "
            f"r = {correlations()[0]:.2f}"
        ),
        sub="A handwritten digit, from the gradient of a linear model",
        wide=drawn,
        narrow=drawn,
        head=("noise multiplier σ", f"r, median of {DRAWS} draws", "ε of one step"),
        rows=tuple(
            (f"{noise:g}", f"{correlation:.2f}", row["known"])
            for noise, correlation, row in zip(
                NOISE, correlations(), epsilons(), strict=True
            )
        ),
        kind="computed",
        status="exact",
        note=(
            "A linear model before its first step, one record, clipping bound "
            f"{BOUND:g}. ε at δ = {small(DELTA)}, if the attacker knows which record "
            "was drawn. r: correlation of the record with the most similar of "
            f"{CLASSES} rows. The picture is public."
        ),
        is_private=False,
    )


def _draw() -> Markup:
    side = math.isqrt(_record().size)
    rows = [row.tobytes().hex()[::2] for row in _record().reshape(side, side)]
    return Markup('<div class="one-picture">{}</div>').format(
        grey_picture(rows, f"A handwritten {LABEL}, as found in the gradient")
    )


WIDGET = Widget(
    slug="picture-in-gradient",
    title="A picture in a gradient",
    picture=picture,
    data=data,
    controls={"noise": "Noise multiplier"},
    starts={"noise": (Choices(NOISE),)},
)

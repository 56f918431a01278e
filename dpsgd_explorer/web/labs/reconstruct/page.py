"""The lab of reconstruction: an image from one gradient, with and without noise.

The browser computes gradients, noise and images; the server computes every ε.
"""

from __future__ import annotations

import base64
import math
from functools import cache, partial
from pathlib import Path
from typing import Any

from flask import Response, render_template
from markupsafe import Markup

from dpsgd_explorer.accounting import epsilon
from dpsgd_explorer.web.api.answer_cache import cached_page
from dpsgd_explorer.web.labs.attack.grey_picture import grey_picture
from dpsgd_explorer.web.labs.base import Lab
from dpsgd_explorer.web.questions.rounding import limit
from dpsgd_explorer.web.recorded.files import recording

stored = partial(recording, "recorded", Path(__file__).parent)
NOISE = (0.0, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
BOUNDS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
BATCHES = (1, 2, 4, 8)
RECORDS = 60_000  # number of records in the data of a secret batch
DELTA = 1e-6
START = {"noise": 2, "bound": 2, "batch": 0}  # indices of the initial values
WHOLE_FROM = 100.0  # larger ε have no decimals


def reconstruct() -> Response:
    """Shows the lab, which has no settings for the server."""
    return cached_page(
        lambda: render_template(
            "labs/reconstruct.html",
            noise=NOISE,
            bounds=BOUNDS,
            batches=BATCHES,
            start=START,
            records=RECORDS,
            delta=DELTA,
            table=epsilons(),
            page_data={
                "recorded": stored(),
                "noise": NOISE,
                "bounds": BOUNDS,
                "batches": BATCHES,
                "epsilons": epsilons(),
            },
        )
    )


@cache
def epsilons() -> list[dict[str, Any]]:
    """Returns the ε of one release at each noise multiplier, as text.

    ``known`` assumes that the attacker knows the records of the batch (q = 1).
    ``secret`` assumes a batch drawn with q = batch / ``RECORDS``, one value for each of
    ``BATCHES``.
    """
    return [
        {
            "noise": f"{noise:g}",
            "known": _spent(1.0, noise),
            "secret": [_spent(batch / RECORDS, noise) for batch in BATCHES],
        }
        for noise in NOISE
    ]


def _spent(sample_rate: float, noise_multiplier: float) -> str:
    if noise_multiplier == 0:
        return "∞"
    value = epsilon(
        sample_rate=sample_rate, noise_multiplier=noise_multiplier, steps=1, delta=DELTA
    )
    return f"{math.ceil(value):,}" if value >= WHOLE_FROM else limit(value)


def first_picture() -> Markup:
    """Returns the first recorded digit as the lab finds it in a gradient."""
    pixels = base64.b64decode(stored()["pictures"])
    side = math.isqrt(len(pixels) // len(stored()["labels"]))
    return grey_picture(
        [pixels[y * side : (y + 1) * side].hex()[::2] for y in range(side)],
        "A handwritten digit",
    )


LAB = Lab(
    slug="reconstruct",
    title="Reconstruct a picture",
    question="What does one gradient give away?",
    summary=(
        "One division recovers a picture from the first layer’s gradient. Add "
        "records, clip, add noise, and watch it drown, next to the ε of that release."
    ),
    page=reconstruct,
)

"""The lab of reconstruction: an image from one gradient, with and without noise.

The browser computes gradients, noise and images; the server computes every ε.
"""

from __future__ import annotations

import base64
import math

from flask import Response, render_template
from markupsafe import Markup

from dpsgd_explorer.web.api.answer_cache import cached_page
from dpsgd_explorer.web.labs.attack.grey_picture import grey_picture
from dpsgd_explorer.web.labs.base import Lab
from dpsgd_explorer.web.labs.reconstruct.releases import (
    BATCHES,
    DELTA,
    NOISE,
    RECORDS,
    epsilons,
    stored,
)

BOUNDS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
START = {"noise": 2, "bound": 2, "batch": 0}  # indices of the initial values


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

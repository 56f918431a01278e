"""Randomised response on oneself: two coins, one sheet, and what a crowd still tells.

The visitor's answer stays in the browser.  ε and the limit of a belief come from here.

Misconception: “Hiding the answers spoils the survey”, and “a random answer protects
    only if nobody knows the coins’ law”
Content: one’s own answer behind two coins, the conclusions that a sheet allows, and
    twenty crowds whose estimates gather round the truth
Source: Warner 1965; the factor 3 is p/(1 − p) of two fair coins, ε = ln 3
"""

from __future__ import annotations

import math
from typing import Any

from dpsgd_explorer.web.figures.svg import Picture
from dpsgd_explorer.web.forms.starts import Choices
from dpsgd_explorer.web.hub.widgets.base import Widget
from dpsgd_explorer.web.hub.widgets.randomised_response import survey as response
from dpsgd_explorer.web.questions.odds import posterior
from dpsgd_explorer.web.questions.rounding import limit, percent, percent_limit

COINS = (0, 1, 2, 3)  # not tossed; heads; tails, then heads; tails, then tails
PEOPLE = (100, 1_000, 10_000)
CROWDS = 20  # number of simulated surveys
SEED = 7


def picture() -> Picture:
    """Returns the chart of recorded answers, by true answer."""
    return response.answers_picture()


def data() -> dict[str, Any]:
    """Returns probabilities of answers, posterior beliefs, and errors of surveys."""
    epsilon = response.SURVEY_EPSILON
    truth = response.truth_probability(epsilon)
    return {
        "truth_probability": truth,
        "factor": f"{math.exp(epsilon):.0f}",
        "epsilon": limit(epsilon),
        "belief": percent_limit(posterior(epsilon, 0.5), 0),
        "true_share": response.TRUE_SHARE,
        "surveys": [
            {
                "people": people,
                "error": round(response.standard_error(epsilon, people), 5),
                "error_words": percent(response.standard_error(epsilon, people)),
            }
            for people in PEOPLE
        ],
        "crowds": CROWDS,
        "seed": SEED,
    }


WIDGET = Widget(
    slug="randomised-response",
    title="A survey on yourself",
    picture=picture,
    data=data,
    controls={
        "answer": "The visitor’s answer",
        "coins": "The coins",
        "people": "People asked",
        "again": "Ask another crowd",
    },
    starts={"coins": (Choices(COINS),), "people": (Choices(PEOPLE),)},
)

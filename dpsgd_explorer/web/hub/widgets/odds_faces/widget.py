"""A hundred faces for odds: how many of 100 statements of an attacker are right.

An attacker makes the statement "took part" about 100 people, one by one.  At prior odds
o, the expected share of true statements is at most o e^ε / (1 + o e^ε).

Misconception: “ε = 1 is one percent of something”, and “private means that nobody can
    tell”
Content: how many of an attacker’s 100 statements can be right at each ε, from three
    beliefs before, in faces and in odds
Source: Dwork and Roth 2014; the odds form of Bayes’ rule with the definition; counts
    rounded up
"""

from __future__ import annotations

import math
from typing import Any

from dpsgd_explorer.web.figures.odds import odds_picture
from dpsgd_explorer.web.figures.svg import Picture
from dpsgd_explorer.web.forms.starts import Choices
from dpsgd_explorer.web.hub.widgets.base import Widget
from dpsgd_explorer.web.questions.odds import EPSILON_ALONE, posterior
from dpsgd_explorer.web.questions.rounding import (
    certainty_limit,
    limit,
    percent,
    percent_limit,
)

EPSILONS = (0.0, 0.1, 0.2, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)
PRIORS = (0.01, 0.1, 0.5)
SHOWN_EPSILON, SHOWN_PRIOR = 1.0, 0.5
FINE = 0.99  # larger shares get more decimals, so none is rounded to 100%


def picture() -> Picture:
    """Returns the curve of the limit against ε, at even odds."""
    return odds_picture()


def data() -> dict[str, Any]:
    """Returns the limits of an attacker at each ε, for each prior belief."""
    return {
        "epsilons": EPSILONS,
        "factors": [limit(math.exp(epsilon)) for epsilon in EPSILONS],
        "name": EPSILON_ALONE,
        "first": {
            "epsilon": EPSILONS.index(SHOWN_EPSILON),
            "prior": PRIORS.index(SHOWN_PRIOR),
        },
        "priors": [
            {
                "before": int(percent(prior, 0)),
                "limits": [_limits(posterior(epsilon, prior)) for epsilon in EPSILONS],
            }
            for prior in PRIORS
        ],
    }


def _limits(share: float) -> dict[str, Any]:
    exact = certainty_limit if share > FINE else percent_limit
    return {"right": int(percent_limit(share, 0)), "percent": exact(share)}


WIDGET = Widget(
    slug="odds-faces",
    title="A hundred faces for odds",
    picture=picture,
    data=data,
    controls={
        "epsilon": "ε",
        "prior": "Right without the release",
    },
    starts={
        "epsilon": (Choices(EPSILONS),),
        "prior": (Choices(PRIORS),),
    },
)

"""What a blind search costs, beside one of its trials and beside trials all shown."""

from __future__ import annotations

import math
from functools import lru_cache

from pydantic import BaseModel

from dpsgd_explorer.accounting.core.intervals import Interval
from dpsgd_explorer.experiments.search_config import SearchConfig
from dpsgd_explorer.web.questions.looked_at import composed
from dpsgd_explorer.web.questions.privacy import Epsilon, PrivacyTerms
from dpsgd_explorer.web.questions.privacy_models import DEFAULT_ACCOUNTANT
from dpsgd_explorer.web.questions.rounding import percent_limit

SELECTION_ACCOUNTANT = "rdp"
CACHED = 128


class SearchPrice(BaseModel):
    """What the winner of a search costs, and what it is to be compared with.

    ``shown`` trials that are all looked at spend ``all_shown``, null where too many
    different steps were planned for an answer.  ``trainings`` is the number that is
    carried out, whatever number of trials is drawn; ``none_percent`` is the probability
    that there is no trial, rounded up.
    """

    winner: Epsilon
    trial: Epsilon | None
    all_shown: Epsilon | None
    shown: int
    mean_trials: float
    trainings: int
    none_percent: str


@lru_cache(maxsize=CACHED)
def search_price(config: SearchConfig) -> SearchPrice:
    """Return the price of a search.

    Raises:
        ConfigError: no noise reaches the target, or no number of trainings will do.
    """
    price = config.price
    shown = math.ceil(price.mean_trials)
    terms = PrivacyTerms.of(SELECTION_ACCOUNTANT, price.delta, status="bound")
    return SearchPrice(
        winner=Epsilon.spent(price.epsilon, terms),
        trial=_composed(config, 1),
        all_shown=_composed(config, shown),
        shown=shown,
        mean_trials=price.mean_trials,
        trainings=price.trainings,
        none_percent=percent_limit(price.none, 3),
    )


def _composed(config: SearchConfig, trials: int) -> Epsilon | None:
    """Return the ε of so many trials that are all shown."""
    steps: dict[tuple[float, float], int] = {}
    for phase in config.plan.phases:
        rates = (phase.sample_rate, phase.noise_multiplier)
        steps[rates] = steps.get(rates, 0) + trials * phase.steps
    interval: Interval | None = composed(frozenset(steps.items()), config.delta)
    if interval is None:
        return None
    terms = PrivacyTerms.of(DEFAULT_ACCOUNTANT, config.delta, status=interval.status)
    return Epsilon.spent(interval.value, terms)

"""ε of one release of a gradient, for each noise multiplier of the lab."""

from __future__ import annotations

import math
from functools import cache, partial
from pathlib import Path
from typing import Any

from dpsgd_explorer.accounting import epsilon
from dpsgd_explorer.web.questions.rounding import limit
from dpsgd_explorer.web.recorded.files import recording

stored = partial(recording, "recorded", Path(__file__).parent)
NOISE = (0.0, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
BATCHES = (1, 2, 4, 8)
RECORDS = 60_000  # number of records in the data of a secret batch
DELTA = 1e-6
WHOLE_FROM = 100.0  # larger ε have no decimals


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

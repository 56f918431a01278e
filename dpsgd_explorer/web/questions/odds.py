"""The odds of an attacker under (ε, δ)-differential privacy.

An attacker says "in" or "out", knowing every record but yours.  The promise, for the
outcomes at which he says "in" and for those at which he says "out", reads

    TPR <= e^ε FPR + δ    and    1 - FPR <= e^ε (1 - TPR) + δ.

Their sum bounds his right guesses at an even chance, (TPR + 1 - FPR) / 2, by
(e^ε + δ) / (1 + e^ε).
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Decimal


def attacker_accuracy(epsilon: float, delta: float = 0.0) -> float:
    """Return the largest share of right guesses, from 1/2 to 1."""
    odds = math.exp(-epsilon)
    return min((1 + delta * odds) / (1 + odds), 1.0)


def percent_at_most(epsilon: float, delta: float = 0.0) -> str:
    """Return the bound in percent, rounded up, fine enough not to read 100."""
    share = Decimal(repr(attacker_accuracy(epsilon, delta))) * 100
    digits = 1 if share < 99 else 2 if share < Decimal("99.99") else 4
    rounded = share.quantize(Decimal(1).scaleb(-digits), rounding=ROUND_CEILING)
    return f"{rounded:f}"

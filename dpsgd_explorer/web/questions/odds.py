"""The odds of an attacker under (ε, δ)-differential privacy.

An attacker says "in" or "out", knowing every record but yours.  The promise, for the
outcomes at which he says "in" and for those at which he says "out", reads

    TPR <= e^ε FPR + δ    and    1 - FPR <= e^ε (1 - TPR) + δ.

Their sum bounds his right guesses at an even chance, (TPR + 1 - FPR) / 2, by
(e^ε + δ) / (1 + e^ε).
"""

from __future__ import annotations

import math

from dpsgd_explorer.web.questions.rounding import certainty_limit


def attacker_accuracy(epsilon: float, delta: float = 0.0) -> float:
    """Return the largest share of right guesses, from 1/2 to 1."""
    odds = math.exp(-epsilon)
    return min((1 + delta * odds) / (1 + odds), 1.0)


def posterior(epsilon: float, prior: float) -> float:
    """Return the highest belief that a prior belief can turn into (δ = 0)."""
    odds = prior / (1 - prior) * math.exp(epsilon)
    return odds / (1 + odds)


def epsilon_of(certainty: float) -> float:
    """Return the least ε at which an attacker at even odds may get so certain."""
    return math.log(certainty / (1 - certainty))


def percent_at_most(epsilon: float, delta: float = 0.0) -> str:
    """Return the bound in percent, rounded up, fine enough not to read 100."""
    return certainty_limit(attacker_accuracy(epsilon, delta))

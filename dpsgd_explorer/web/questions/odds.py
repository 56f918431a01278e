"""Two upper limits on an attacker's share of right guesses, each with a name.

The attacker starts at even odds, knows every record except yours, sees everything that
is released, and guesses "in" or "out".  Two limits hold for the share of right guesses:

* this run: (1 + δ(0)) / 2, where δ(0) is the smallest δ of the run at ε = 0.  It
  follows from the run's own trade-off curve (Dong, Roth and Su 2019,
  arXiv:1905.02383v3, Proposition 2.5), so it is tight for this mechanism.
* ε alone: (e^ε + δ) / (1 + e^ε), which holds for any procedure with this (ε, δ).  The
  guarantee, for the outcomes with the guess "in" and for those with the guess "out", is

      TPR <= e^ε FPR + δ    and    1 - FPR <= e^ε (1 - TPR) + δ,

  and the limit is the sum of both bounds on (TPR + 1 - FPR) / 2.

The first limit is never larger, and often much smaller.  Every page that prints a limit
prints its name; tests check all pages for it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from dpsgd_explorer.accounting import (
    ACCOUNTANTS,
    NeighboringRelation,
    Phase,
)
from dpsgd_explorer.accounting.batches import QUICK
from dpsgd_explorer.accounting.core.phase import has_slots
from dpsgd_explorer.web.questions.limits import check_size
from dpsgd_explorer.web.questions.rounding import certainty_limit

THIS_RUN = "this run"
EPSILON_ALONE = "ε alone"
EXACT = ACCOUNTANTS["exact"]
RELATION = NeighboringRelation.ADD_OR_REMOVE_ONE


@dataclass(frozen=True)
class Limits:
    """Both limits on the share of right guesses, from 1/2 to 1.

    Attributes:
        run: Limit of this run.
        alone: Limit of ε alone.
    """

    run: float
    alone: float

    @classmethod
    def of(cls, phases: Sequence[Phase], epsilon: float, delta: float) -> Limits:
        """Return both limits of a run that spends ``epsilon`` at ``delta``."""
        alone = attacker_accuracy(epsilon, delta)
        return cls(min(run_accuracy(tuple(phases)), alone), alone)

    @property
    def percents(self) -> dict[str, str]:
        """Each limit in percent, rounded up, by its name."""
        return {
            THIS_RUN: certainty_limit(self.run),
            EPSILON_ALONE: certainty_limit(self.alone),
        }

    def __str__(self) -> str:
        """Return both limits as text."""
        return "; ".join(f"{name}: {value} %" for name, value in self.percents.items())


@lru_cache(maxsize=256)
def run_accuracy(phases: tuple[Phase, ...]) -> float:
    """Return the limit of this run on the share of right guesses, from 1/2 to 1."""
    check_size("exact", phases)
    accountant = QUICK if has_slots(phases) else EXACT
    [at_zero] = accountant.delta_bounds(phases, [0.0], RELATION)
    return (1 + at_zero.value) / 2


def attacker_accuracy(epsilon: float, delta: float = 0.0) -> float:
    """Return the limit of ε alone on the share of right guesses, from 1/2 to 1."""
    odds = math.exp(-epsilon)
    return min((1 + delta * odds) / (1 + odds), 1.0)


def most_hits(false_alarms: float, epsilon: float, delta: float) -> float:
    """Return the largest true positive rate at a false positive rate, by ε alone."""
    rising = math.exp(epsilon) * false_alarms + delta
    falling = 1 - math.exp(-epsilon) * (1 - delta - false_alarms)
    return min(1.0, rising, falling)


def posterior(epsilon: float, prior: float) -> float:
    """Return the highest posterior belief for a prior belief (δ = 0)."""
    odds = prior / (1 - prior) * math.exp(epsilon)
    return odds / (1 + odds)


def epsilon_of(certainty: float) -> float:
    """Return the smallest ε at which an attacker at even odds can reach a certainty."""
    return math.log(certainty / (1 - certainty))


def percent_at_most(epsilon: float, delta: float = 0.0) -> str:
    """Return the limit of ε alone in percent, rounded up."""
    return certainty_limit(attacker_accuracy(epsilon, delta))

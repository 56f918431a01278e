"""The audit of one run: what its canaries prove, next to what was promised."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dpsgd_explorer.accounting.auditing.error_rates import Scores
from dpsgd_explorer.accounting.auditing.exact_family import (
    exact_family_epsilon,
    usual_thresholds,
)
from dpsgd_explorer.accounting.auditing.gaussian import (
    gaussian_dp_epsilon,
    gaussian_pair_epsilon,
)
from dpsgd_explorer.accounting.auditing.one_run import (
    f_dp_one_run_epsilon,
    one_run_epsilon,
)
from dpsgd_explorer.accounting.core import validation
from dpsgd_explorer.accounting.core.accountant import Phase
from dpsgd_explorer.accounting.registry import ACCOUNTANTS

#: Of the canaries, in the bounds that count guesses.
GUESSED_SHARES = (0.1, 0.5)
CONFIDENCE = 0.95


@dataclass(frozen=True)
class AuditResult:
    """What an audit proves about a run.

    Attributes:
        epsilon_lower: Lower bound on ε, at ``confidence``; 0 where nothing is proven.
        epsilon_promised: ε of the accountant.
        delta: δ of both.
        confidence: Probability that the bound is below the true ε, at least.
        canaries: Number of canaries.
        steps: Number of steps that they went through.
        method: Name of the bound.
        others: {name: lower bound} of other methods, each at ``confidence``; empty
            before the first step.
    """

    epsilon_lower: float
    epsilon_promised: float
    delta: float
    confidence: float
    canaries: int
    steps: int
    method: str
    others: dict[str, float]

    @property
    def exceeds_promise(self) -> bool:
        """Whether more was proven than promised.

        The canaries are the worst case itself, so an honest run gives this with
        probability up to 1 - ``confidence``.
        """
        return self.epsilon_lower > self.epsilon_promised


def audit(
    scores: Scores,
    phases: Sequence[Phase],
    delta: float,
    confidence: float = CONFIDENCE,
) -> AuditResult:
    """Return what canaries prove about the steps that they went through.

    Args:
        scores: Log-likelihood ratios over all steps.
        phases: The steps, as promised.
        delta: δ, above 0 and below 1.
        confidence: Above 0 and below 1.

    Raises:
        AccountingError: a number is outside its domain.
    """
    delta = validation.delta(delta)
    if delta == 0:
        validation.refuse("delta", "above 0", delta)
    confidence = validation.finite("confidence", confidence)
    if not 0 < confidence < 1:
        validation.refuse("confidence", "above 0 and below 1", confidence)
    steps, error = sum(phase.steps for phase in phases), 1 - confidence
    done = [phase for phase in phases if phase.steps]
    count = len(scores.members) + len(scores.others)
    proven, promised, others = 0.0, 0.0, {}
    if done:
        thresholds = usual_thresholds(done)
        guessed = [math.floor(share * count) for share in GUESSED_SHARES]
        proven = exact_family_epsilon(scores, thresholds, done, delta, error)
        promised = float(ACCOUNTANTS["exact"].epsilons(done, [steps], delta)[0])
        others = {
            "Gaussian pair": gaussian_pair_epsilon(scores, delta, error),
            "Gaussian DP": gaussian_dp_epsilon(scores, thresholds, delta, error),
            "f-DP, one run": f_dp_one_run_epsilon(scores, guessed, delta, error),
            "one run": one_run_epsilon(scores, guessed, delta, error),
        }
    return AuditResult(
        epsilon_lower=proven,
        epsilon_promised=promised,
        delta=delta,
        confidence=confidence,
        canaries=count,
        steps=steps,
        method="exact family",
        others=others,
    )

"""The audit of one run: what its canaries prove, next to what was promised."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context

from dpsgd_explorer.accounting.auditing.changed_run import (
    PlanScores,
    changed_run_epsilon,
    whole_error,
)
from dpsgd_explorer.accounting.auditing.error_rates import Scores
from dpsgd_explorer.accounting.auditing.exact_family import (
    can_prove,
    usual_thresholds,
)
from dpsgd_explorer.accounting.auditing.gaussian import (
    gaussian_dp_epsilon,
    gaussian_pair_epsilon,
)
from dpsgd_explorer.accounting.auditing.noise_groups import grouped
from dpsgd_explorer.accounting.auditing.one_run import (
    f_dp_one_run_epsilon,
    one_run_epsilon,
)
from dpsgd_explorer.accounting.core import validation
from dpsgd_explorer.accounting.core.neighboring_relation import (
    ADD_OR_REMOVE_ONE,
    NeighboringRelation,
)
from dpsgd_explorer.accounting.core.phase import Phase, require_poisson
from dpsgd_explorer.accounting.registry import ACCOUNTANTS
from dpsgd_explorer.accounting.rounding import round_up
from dpsgd_explorer.accounting.schedules import MAX_PHASES

#: Name of the method whose bound is reported as ``epsilon_lower``.
METHOD = "exact family"
#: Shares of the canaries that are guessed, in the bounds that count right guesses.
GUESSED_SHARES = (0.1, 0.5)
DEFAULT_CONFIDENCE = 0.95
FLOOR_CONTEXT = Context(prec=3, rounding=ROUND_FLOOR)


@dataclass(frozen=True)
class Unscored:
    """Steps of a run without a canary of the audit.

    Attributes:
        steps: Number of steps.
        reason: End of a sentence that starts with "3 steps".
    """

    steps: int
    reason: str


@dataclass(frozen=True)
class AuditResult:
    """What an audit proves about a run.

    Attributes:
        epsilon_lower: Lower bound on ε, at ``confidence``; 0 where nothing is proven.
        epsilon_promised: ε of the accountant.
        delta: δ of both values of ε.
        confidence: Least probability that the bound is below the true ε.
        canaries: Number of canaries.
        steps: Number of steps with canaries.
        method: Name of the bound.
        others: {name: lower bound} of other methods, each at ``confidence``; empty
            before the first step.
        neighboring_relation: Neighbouring relation of the canaries.
        too_few_canaries: If True, this number of canaries proves nothing for any
            scores.
        unscored: Steps of the run that are not among ``steps``.  They only add to ε, so
            ``epsilon_lower`` also holds for the whole run; ``epsilon_promised`` covers
            ``steps`` alone.
    """

    epsilon_lower: float
    epsilon_promised: float
    delta: float
    confidence: float
    canaries: int
    steps: int
    method: str
    others: dict[str, float]
    neighboring_relation: NeighboringRelation
    too_few_canaries: bool
    unscored: tuple[Unscored, ...] = ()

    def __str__(self) -> str:
        """Returns sentences on the proven ε, the number of steps and the promised ε."""
        left_out = ", ".join(f"{x.steps} steps {x.reason}" for x in self.unscored)
        return self._proven() + (f" Not scored: {left_out}." if left_out else "")

    def _proven(self) -> str:
        share = f"{100 * self.confidence:.10g} %"
        of_steps = f"the {self.steps} steps done"
        if not self.steps:
            verb = "had canaries" if self.unscored else "was done"
            return f"Nothing is proven: no step {verb}."
        promise = f"Promised: {round_up(self.epsilon_promised)}."
        if self.epsilon_lower:
            least = FLOOR_CONTEXT.create_decimal_from_float(self.epsilon_lower)
            return (
                f"ε of {of_steps} is {least} or more, at {share} confidence and "
                f"δ = {self.delta:g}, by {self.canaries} canaries. {promise}"
            )
        why = (
            f"{self.canaries} canaries are too few for any bound above 0"
            if self.too_few_canaries
            else f"the scores of {self.canaries} canaries prove too little"
        )
        return (
            f"Nothing is proven about {of_steps} at {share} confidence: {why}. "
            f"{promise}"
        )

    @property
    def exceeds_promise(self) -> bool:
        """If True, a larger ε was proven than promised.

        The canaries are the worst case, so this happens for an honest run with a
        probability of up to 1 - ``confidence``.
        """
        return self.epsilon_lower > self.epsilon_promised


def audit(
    scores: Scores,
    phases: Sequence[Phase],
    delta: float,
    confidence: float = DEFAULT_CONFIDENCE,
    *,
    promised: Sequence[Phase] | None = None,
    relation: NeighboringRelation = ADD_OR_REMOVE_ONE,
    unscored: Sequence[Unscored] = (),
    plans: Sequence[PlanScores] = (),
) -> AuditResult:
    """Returns lower bounds on ε of the steps with canaries.

    Args:
        scores: Log-likelihood ratios over all steps.
        phases: The steps, with the noise along a canary's coordinate.
        delta: δ, above 0 and below 1.
        confidence: Above 0 and below 1.
        promised: The steps as the accountant counts them, if the run releases something
            else too, such as counts; None means ``phases``.
        relation: Neighbouring relation of the canaries.
        unscored: Steps of the run that are not among ``phases``.
        plans: Scores and steps of each plan, where the run's plan changed.

    Raises:
        AccountingError: a number is outside its domain.
    """
    require_poisson([*phases, *(promised or ())], "an audit with canaries")
    delta = validation.delta(delta)
    confidence = validation.share("confidence", confidence)
    done = [phase for phase in phases if phase.steps]
    bounds: dict[str, float] = {}
    too_few = False
    if done:
        thresholds = usual_thresholds(done, relation)
        error = 1 - confidence
        whole = PlanScores(scores, done)
        bounds = _bounds(whole, thresholds, plans, delta, error, relation)
        run_error = whole_error(error, plans)
        too_few = not (bounds[METHOD] or can_prove(scores, thresholds, run_error))
    return AuditResult(
        epsilon_lower=bounds.pop(METHOD, 0.0),
        epsilon_promised=_promise(promised or done, delta, relation),
        delta=delta,
        confidence=confidence,
        canaries=len(scores.members) + len(scores.others),
        steps=sum(phase.steps for phase in done),
        method=METHOD,
        others=bounds,
        neighboring_relation=relation,
        too_few_canaries=too_few,
        unscored=tuple(unscored),
    )


def _bounds(
    whole: PlanScores,
    thresholds: Sequence[float],
    plans: Sequence[PlanScores],
    delta: float,
    error: float,
    relation: NeighboringRelation,
) -> dict[str, float]:
    """Returns {method: lower bound on ε}."""
    scores = whole.scores
    count = len(scores.members) + len(scores.others)
    guessed = [math.floor(share * count) for share in GUESSED_SHARES]
    return {
        METHOD: changed_run_epsilon(whole, thresholds, plans, delta, error, relation),
        "Gaussian pair": gaussian_pair_epsilon(scores, delta, error),
        "Gaussian DP": gaussian_dp_epsilon(scores, thresholds, delta, error),
        "f-DP, one run": f_dp_one_run_epsilon(scores, guessed, delta, error),
        "one run": one_run_epsilon(scores, guessed, delta, error),
    }


def _promise(
    phases: Sequence[Phase], delta: float, relation: NeighboringRelation
) -> float:
    """Returns ε of the steps by the exact accountant, rounded up."""
    run = grouped(phases, MAX_PHASES, min) if phases else []
    steps = sum(phase.steps for phase in run)
    if not steps:
        return 0.0
    return float(ACCOUNTANTS["exact"].epsilons(run, [steps], delta, relation)[0])

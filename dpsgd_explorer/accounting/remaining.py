"""What is left of a budget: the noise, steps or rate of what is still to be done.

``calibration`` and ``rates`` answer for one run with unchanging settings.  Here a run
may be several phases, such as a schedule of noise, and others may come before it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from dpsgd_explorer.accounting.core import validation as domains
from dpsgd_explorer.accounting.core.accountant import Accountant, Phase
from dpsgd_explorer.accounting.core.neighboring_relation import ADD_OR_REMOVE_ONE
from dpsgd_explorer.accounting.core.phase_limits import SEARCH, check_count
from dpsgd_explorer.accounting.core.root_finding import (
    PRECISION,
    confirmed,
    least_noise,
    most_steps,
    unreachable,
)
from dpsgd_explorer.accounting.core.validation import MAX_NOISE_MULTIPLIER, MAX_STEPS
from dpsgd_explorer.accounting.rates import LEAST_RATE
from dpsgd_explorer.accounting.registry import accountant_and_relation


def noise_scale(
    target_epsilon: float,
    phases: Sequence[Phase],
    delta: float,
    accountant: str = "exact",
    neighboring_relation: str = ADD_OR_REMOVE_ONE,
    *,
    before: Sequence[Phase] = (),
) -> float:
    """Return the least factor on the noise of all phases that keeps to the target.

    Args:
        target_epsilon: Of the phases and those before, greater than 0.
        phases: Whose noise is scaled; each has some, and one has a step.
        delta: In (0, 1).
        accountant: Name in ACCOUNTANTS, or "all".
        neighboring_relation: What one record may change.
        before: Phases that are done, and not scaled.

    Returns:
        A factor whose ε is at most the target, near the least one.

    Raises:
        AccountingError: an argument is outside its domain, or no noise reaches the
            target, as where the phases before exceed it alone.
    """
    if not any(phase.steps for phase in phases):
        domains.refuse("phases", "one or more, with a step", list(phases))
    if not all(phase.noise_multiplier for phase in phases):
        domains.refuse("phases", "all with noise, which is scaled", list(phases))

    def scaled(factor: float) -> list[Phase]:
        return [*before, *(_scaled(phase, factor) for phase in phases)]

    terms = (target_epsilon, delta, accountant, neighboring_relation)
    return _least(scaled, 1.0, *terms)


def noise_after(
    before: Sequence[Phase],
    target_epsilon: float,
    sample_rate: float,
    steps: int,
    delta: float,
    accountant: str = "exact",
    neighboring_relation: str = ADD_OR_REMOVE_ONE,
) -> float:
    """Return the least noise multiplier of further steps that keeps to the target.

    Args and Raises: as ``calibration.noise_multiplier``, and ``noise_scale``.
    """
    run = Phase(sample_rate, 1.0, domains.steps(steps, least=1))
    terms = (delta, accountant, neighboring_relation)
    return noise_scale(target_epsilon, [run], *terms, before=before)


def rate_after(
    before: Sequence[Phase],
    target_epsilon: float,
    noise_multiplier: float,
    steps: int,
    delta: float,
    accountant: str = "exact",
    neighboring_relation: str = ADD_OR_REMOVE_ONE,
) -> float:
    """Return the largest sample rate of further steps that keeps to the target.

    Args and Raises: as ``rates.sample_rate``, and ``noise_scale``.
    """
    run = Phase(1.0, noise_multiplier, domains.steps(steps, least=1))

    def sampled(rarity: float) -> list[Phase]:
        rate = max(min(1 / rarity, 1.0), LEAST_RATE)
        return [*before, Phase(rate, run.noise_multiplier, run.steps)]

    terms = (target_epsilon, delta, accountant, neighboring_relation)
    return min(max(1 / _least(sampled, 100.0, *terms), LEAST_RATE), 1.0)


def steps_after(
    before: Sequence[Phase],
    target_epsilon: float,
    sample_rate: float,
    noise_multiplier: float,
    delta: float,
    accountant: str = "exact",
    neighboring_relation: str = ADD_OR_REMOVE_ONE,
) -> int:
    """Return how many further steps keep to the target, 0 where none does.

    Args and Raises: as ``calibration.steps``.
    """
    chosen, relation = accountant_and_relation(accountant, neighboring_relation)
    target, slack = domains.target_epsilon(target_epsilon), domains.delta(delta)
    done = sum(phase.steps for phase in before)
    phases = [*before, Phase(sample_rate, noise_multiplier, MAX_STEPS)]
    few = [*before, Phase(sample_rate, noise_multiplier, 1)]  # as it may turn out
    check_count([chosen], few, relation, **SEARCH)

    def excess(one: Accountant, count: int) -> float:
        total = [done + count]
        spent = one.epsilons(phases, total, slack, relation)[0]
        return math.log(spent / target) if spent > 0 else -math.inf

    return confirmed(
        chosen.searchers(relation),
        lambda one: most_steps(lambda x: excess(one, x), 1000.0, MAX_STEPS),
        lambda one, count: excess(one, count) <= 0,
    )


def _scaled(phase: Phase, factor: float) -> Phase:
    noise = min(phase.noise_multiplier * factor, MAX_NOISE_MULTIPLIER)
    return Phase(phase.sample_rate, noise, phase.steps)


def _least(
    phases: Callable[[float], list[Phase]],
    start: float,
    target_epsilon: float,
    delta: float,
    accountant: str,
    neighboring_relation: str,
) -> float:
    """Return the least number whose phases keep to the target; more of it spends less.

    Raises:
        AccountingError: an argument is outside its domain, or none does.
    """
    chosen, relation = accountant_and_relation(accountant, neighboring_relation)
    target, slack = domains.target_epsilon(target_epsilon), domains.delta(delta)
    check_count([chosen], phases(start), relation, **SEARCH)

    def spent(one: Accountant, number: float) -> float:
        asked = phases(number)
        total = sum(phase.steps for phase in asked)
        return float(one.epsilons(asked, [total], slack, relation)[0])

    def excess(one: Accountant, number: float) -> float:
        loss = spent(one, number)
        return 1.0 if math.isinf(loss) else (loss - target) / max(loss, target)

    def keeps(one: Accountant, number: float) -> bool:
        return math.isfinite(number) and spent(one, number) <= target

    number = confirmed(
        chosen.searchers(relation),
        lambda one: least_noise(lambda x: excess(one, x), start, PRECISION),
        keeps,
    )
    if math.isinf(number) or spent(chosen, number) > target:
        raise unreachable(target_epsilon, spent(chosen, MAX_NOISE_MULTIPLIER))
    return number

"""The rest of a budget: noise, sample rate or steps of what follows other phases.

``calibration`` answers for one run with unchanging settings.  Here a run may be several
phases, such as a schedule of noise, and others may come before it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from dpsgd_explorer.accounting.calibration import LEAST_RATE
from dpsgd_explorer.accounting.core import validation
from dpsgd_explorer.accounting.core.accountant import Phase
from dpsgd_explorer.accounting.core.neighboring_relation import ADD_OR_REMOVE_ONE
from dpsgd_explorer.accounting.core.root_finding import (
    PRECISION,
    least_noise,
    most_steps,
    unreachable,
)
from dpsgd_explorer.accounting.core.validation import MAX_NOISE_MULTIPLIER, MAX_STEPS
from dpsgd_explorer.accounting.target import Target


def noise_scale(
    target_epsilon: float,
    phases: Sequence[Phase],
    delta: float,
    accountant: str = "exact",
    neighboring_relation: str = ADD_OR_REMOVE_ONE,
    *,
    before: Sequence[Phase] = (),
) -> float:
    """Return the least factor on the noise of all phases that meets the target.

    Args:
        target_epsilon: ε of the phases and those before, greater than 0.
        phases: Phases to scale; each has noise, and one has a step.
        delta: In (0, 1).
        accountant: Name in ACCOUNTANTS, or "all" for the exact one.
        neighboring_relation: "add_or_remove_one" or "replace_one".
        before: Completed phases, which are not scaled.

    Returns:
        A factor whose ε is at most the target, near the least one.

    Raises:
        AccountingError: an argument is outside its domain, or no noise reaches the
            target, as where the phases before exceed it alone.
    """
    if not any(phase.steps for phase in phases):
        validation.refuse("phases", "one or more, with a step", list(phases))
    if not all(phase.noise_multiplier for phase in phases):
        validation.refuse("phases", "all with noise, which is scaled", list(phases))

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
    """Return the least noise multiplier of further steps that meets the target.

    Args and Raises: as ``calibration.noise_multiplier``, and ``noise_scale``.
    """
    run = Phase(sample_rate, 1.0, validation.steps(steps, least=1))
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
    """Return the largest sample rate of further steps that meets the target.

    Args and Raises: as ``calibration.sample_rate``, and ``noise_scale``.
    """
    run = Phase(1.0, noise_multiplier, validation.steps(steps, least=1))

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
    """Return the number of further steps that meet the target, 0 where none does.

    Args and Raises: as ``calibration.steps``.
    """
    target = Target.of(target_epsilon, delta, accountant, neighboring_relation)
    done = sum(phase.steps for phase in before)
    phases = [*before, Phase(sample_rate, noise_multiplier, MAX_STEPS)]
    # The answer may be few steps, so that the search is checked as that of one.
    target.check_count([*before, Phase(sample_rate, noise_multiplier, 1)])
    return target.search(
        lambda searcher: most_steps(
            lambda x: target.log_excess(searcher, phases, done + x), 1000.0, MAX_STEPS
        ),
        lambda searcher, steps: target.spent(searcher, phases, done + steps),
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
    """Return the least number whose phases meet the target; ε falls with it.

    Raises:
        AccountingError: an argument is outside its domain, or no number meets it.
    """
    target = Target.of(target_epsilon, delta, accountant, neighboring_relation)
    target.check_count(phases(start))
    number = target.search(
        lambda searcher: least_noise(
            lambda x: target.excess(searcher, phases(x)), start, PRECISION
        ),
        lambda searcher, x: target.spent(searcher, phases(x)),
    )
    exact = target.accountant
    if math.isinf(number) or target.spent(exact, phases(number)) > target.epsilon:
        least = target.spent(exact, phases(MAX_NOISE_MULTIPLIER))
        raise unreachable(target_epsilon, least)
    return number

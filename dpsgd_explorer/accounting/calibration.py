"""The noise, steps or sample rate of a run that meets a target ε and never exceeds it.

Each function solves for one run with constant settings, alone or after other phases.
``noise_scale`` solves for several phases, such as a noise schedule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dpsgd_explorer.accounting.core import validation
from dpsgd_explorer.accounting.core.accountant import Accountant, Phase
from dpsgd_explorer.accounting.core.initial_guesses import rate_guess
from dpsgd_explorer.accounting.core.neighboring_relation import ADD_OR_REMOVE_ONE
from dpsgd_explorer.accounting.core.phase import AllocationPhase
from dpsgd_explorer.accounting.core.root_finding import most_steps
from dpsgd_explorer.accounting.core.validation import MAX_NOISE_MULTIPLIER, MAX_STEPS
from dpsgd_explorer.accounting.exact.accountant import ExactAccountant
from dpsgd_explorer.accounting.exact.initial_noise import noise_start, steps_start
from dpsgd_explorer.accounting.target import Target

#: Steps tried beyond the result of a search: its grids of losses are coarser than the
#: final accountant's, so a few more steps may be within the target.
MAX_EXTRA_STEPS = 4
#: Smallest sample rate that a search returns.
MIN_SAMPLE_RATE = 1e-9


def noise_multiplier(
    *,
    target_epsilon: float,
    sample_rate: float,
    steps: int,
    delta: float,
    accountant: str = "exact",
    neighboring_relation: str = ADD_OR_REMOVE_ONE,
    before: Sequence[Phase] = (),
) -> float:
    """Returns the least noise multiplier with which all steps spend at most the target.

    >>> sigma = noise_multiplier(
    ...     target_epsilon=2.0, sample_rate=0.01, steps=1000, delta=1e-5
    ... )
    >>> round(sigma, 4)
    0.9591

    Args:
        target_epsilon: ε of the steps and the phases before, greater than 0.
        sample_rate: Poisson inclusion probability q per step, in (0, 1].
        steps: At least 1.
        delta: In (0, 1).
        accountant: Name in ACCOUNTANTS, or "all" for the exact one.
        neighboring_relation: "add_or_remove_one" or "replace_one".
        before: Completed phases on the same records.

    Returns:
        A noise multiplier whose ``epsilon`` is at most the target.  Where ε is exact,
        it is within 1e-9 of the least such multiplier; elsewhere it is as close as the
        bound on ε allows.

    Raises:
        AccountingError: an argument is outside its domain, or no noise reaches the
            target, for example because the phases before exceed it alone.

    Source: as ``epsilon``.
    """
    target = Target.of(target_epsilon, delta, accountant, neighboring_relation)
    return noise_for(target, sample_rate, steps, before)


def noise_for(
    target: Target, sample_rate: float, steps: int, before: Sequence[Phase] = ()
) -> float:
    """Returns the least noise multiplier with which all steps meet a target."""
    steps, rate = validation.steps(steps, least=1), validation.sample_rate(sample_rate)
    start = steepness = 1.0
    if not before:
        terms = (target.delta, target.relation)
        start, steepness = noise_start(target.epsilon, rate, steps, *terms)
    return target.least(
        lambda noise: [*before, Phase(sample_rate, noise, steps)], start, steepness
    )


def noise_scale(
    *,
    target_epsilon: float,
    phases: Sequence[Phase],
    delta: float,
    accountant: str = "exact",
    neighboring_relation: str = ADD_OR_REMOVE_ONE,
    before: Sequence[Phase] = (),
) -> float:
    """Returns the least factor on the noise of all phases that meets the target.

    Two parts of a run, the second with half the noise:

    >>> parts = [Phase(0.01, 1.0, 500), Phase(0.01, 0.5, 500)]
    >>> factor = noise_scale(target_epsilon=2.0, phases=parts, delta=1e-5)
    >>> round(factor, 4)
    1.7251

    Args:
        target_epsilon: ε of the phases and those before, greater than 0.
        phases: Phases to scale.  All have noise, and at least one has a step.
        delta: In (0, 1).
        accountant: Name in ACCOUNTANTS, or "all" for the exact one.
        neighboring_relation: "add_or_remove_one" or "replace_one".
        before: Completed phases, which are not scaled.

    Returns:
        A factor with which ε is at most the target, close to the least such factor.

    Raises:
        AccountingError: as ``noise_multiplier``.

    Source: as ``epsilon``.
    """
    target = Target.of(target_epsilon, delta, accountant, neighboring_relation)
    return scale_for(target, phases, before)


def scale_for(
    target: Target, phases: Sequence[Phase], before: Sequence[Phase] = ()
) -> float:
    """Returns the least factor on the noise of all phases that meets a target."""
    if not any(phase.steps for phase in phases):
        validation.refuse("phases", "one or more, with a step", list(phases))
    if not all(phase.noise_multiplier for phase in phases):
        validation.refuse("phases", "all with noise, which is scaled", list(phases))

    def scaled(phase: Phase, factor: float) -> Phase:
        noise = min(phase.noise_multiplier * factor, MAX_NOISE_MULTIPLIER)
        return replace(phase, noise_multiplier=noise)

    return target.least(lambda x: [*before, *(scaled(phase, x) for phase in phases)])


def steps(
    *,
    target_epsilon: float,
    sample_rate: float,
    noise_multiplier: float,
    delta: float,
    accountant: str = "exact",
    neighboring_relation: str = ADD_OR_REMOVE_ONE,
    most: int = MAX_STEPS,
    before: Sequence[Phase] = (),
) -> int:
    """Returns the largest number of steps that spends at most the target.

    >>> steps(target_epsilon=2.0, sample_rate=0.01, noise_multiplier=1.1, delta=1e-5)
    1725

    Args:
        target_epsilon: ε of the steps and the phases before, greater than 0.
        sample_rate: Poisson inclusion probability q per step, in (0, 1].
        noise_multiplier: Noise std over the clipping bound; 0 allows no step.
        delta: In (0, 1).
        accountant: Name in ACCOUNTANTS, or "all" for the exact one.
        neighboring_relation: "add_or_remove_one" or "replace_one".
        most: Largest number of steps to return.
        before: Completed phases on the same records.

    Returns:
        From 0 to most.

    Raises:
        AccountingError: an argument is outside its domain.

    Source: as ``epsilon``.
    """
    target = Target.of(target_epsilon, delta, accountant, neighboring_relation)
    most = validation.whole("most", most, 0, MAX_STEPS)
    run = Phase(sample_rate, noise_multiplier, MAX_STEPS)
    count = steps_for(target, run, most, before)
    if target.accountant.searchers(target.relation)[-1] is target.accountant:
        return count
    phases, done = [*before, run], sum(phase.steps for phase in before)
    for _ in range(MAX_EXTRA_STEPS):
        if count >= most:
            break
        if target.spent(target.accountant, phases, done + count + 1) > target.epsilon:
            break
        count += 1
    return count


def steps_for(
    target: Target, run: Phase, most: int, before: Sequence[Phase] = ()
) -> int:
    """Returns the largest number of a run's steps that meets a target in a search."""
    phases, done = [*before, run], sum(phase.steps for phase in before)

    def find(searcher: Accountant) -> int:
        start = 1000.0
        if not before:
            setting = (run.sample_rate, run.noise_multiplier)
            terms = (target.delta, target.relation)
            start = min(steps_start(target.epsilon, *setting, *terms), most)
        return most_steps(
            lambda x: target.log_excess(searcher, phases, done + x), start, most
        )

    return target.search(find, lambda x, y: target.spent(x, phases, done + y))


def allocated_noise(target: Target, slots: int, steps: int) -> float:
    """Returns the least noise multiplier of random allocation that meets a target."""
    run = AllocationPhase(slots=slots, noise_multiplier=1.0, steps=steps)
    setting = (run.sample_rate, max(run.steps, 1))
    start, steepness = noise_start(
        target.epsilon, *setting, target.delta, target.relation
    )
    return target.least(
        lambda noise: [replace(run, noise_multiplier=noise)], start, steepness
    )


def allocated_steps(target: Target, phases: Sequence[Phase], slots: int) -> int:
    """Returns the largest number of steps of random allocation that meets a target.

    Args:
        target: The target.
        phases: Phases of random allocation.
        slots: Steps of an epoch, with which the search starts.
    """
    total = sum(phase.steps for phase in phases)
    return _most_allocated(target, phases, slots, total)


def allocated_epochs(target: Target, run: AllocationPhase) -> int:
    """Returns the largest number of whole epochs of a run that meets a target."""
    return _most_allocated(target, [run], 1, run.steps // run.slots, run.slots)


def _most_allocated(
    target: Target, phases: Sequence[Phase], start: int, most: int, length: int = 1
) -> int:
    """Returns the largest multiple of a number of steps that meets a target.

    ε is computed on the first grids only, so that a few more steps may be within the
    target.
    """

    def excess(accountant: Accountant, number: int) -> float:
        return target.log_excess(accountant, phases, number * length)

    coarse, fine = ExactAccountant(1), ExactAccountant(2)
    near = most_steps(lambda x: excess(coarse, x), start, most)
    return most_steps(lambda x: excess(fine, x), near + 1, most)


def sample_rate(
    *,
    target_epsilon: float,
    noise_multiplier: float,
    steps: int,
    delta: float,
    accountant: str = "exact",
    neighboring_relation: str = ADD_OR_REMOVE_ONE,
    before: Sequence[Phase] = (),
) -> float:
    """Returns the largest sample rate with which all steps spend at most the target.

    >>> rate = sample_rate(
    ...     target_epsilon=2.0, noise_multiplier=1.1, steps=1000, delta=1e-5
    ... )
    >>> round(rate, 4)
    0.0129

    Args:
        target_epsilon: ε of the steps and the phases before, greater than 0.
        noise_multiplier: Noise std over the clipping bound, greater than 0.
        steps: At least 1.
        delta: In (0, 1).
        accountant: Name in ACCOUNTANTS, or "all" for the exact one.
        neighboring_relation: "add_or_remove_one" or "replace_one".
        before: Completed phases on the same records.

    Returns:
        From 1e-9 to 1; ``epsilon`` of it is at most the target.

    Raises:
        AccountingError: an argument is outside its domain, or no sample rate of at
            least 1e-9 reaches the target.

    Source: as ``epsilon``.
    """
    target = Target.of(target_epsilon, delta, accountant, neighboring_relation)
    steps = validation.steps(steps, least=1)
    noise = validation.noise_multiplier(noise_multiplier)
    if not noise:
        validation.refuse("noise_multiplier", "greater than 0", noise_multiplier)

    def run(rarity: float) -> list[Phase]:
        """Returns the phases at a sample rate of 1 / rarity: ε falls as it rises."""
        rate = min(max(1 / rarity, MIN_SAMPLE_RATE), 1.0)
        return [*before, Phase(rate, noise, steps)]

    start = 100.0
    if not before:
        if target.spent(target.accountant, run(1.0)) <= target.epsilon:
            return 1.0
        guess = rate_guess(target.epsilon, noise, steps, target.delta)
        start = 1 / max(guess, MIN_SAMPLE_RATE)
    rarity = target.least(run, start, setting="sample rate")
    return min(max(1 / rarity, MIN_SAMPLE_RATE), 1.0)

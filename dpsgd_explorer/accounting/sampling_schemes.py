"""The sampling schemes: the accountants and strategies of noise that apply to each.

| sampling | neighbouring relation | accountants |
|---|---|---|
| poisson | one record added or removed, or replaced | every accountant |
| full_batch | as poisson | every accountant, at sample rate 1 |
| fixed_size | one record replaced | exact and Rényi, in ``fixed_size`` |
| truncated_poisson | as poisson | the exact accountant, in ``truncated_poisson`` |
| random_allocation | one record added or removed | the exact accountant |
| shuffled | | none; ``shuffled_interval`` has wide bounds |
"""

from __future__ import annotations

from collections.abc import Sequence

from dpsgd_explorer.accounting.core import validation
from dpsgd_explorer.accounting.core.accountant import Accountant, Phase
from dpsgd_explorer.accounting.core.neighboring_relation import (
    REPLACE_ONE,
    NeighboringRelation,
)
from dpsgd_explorer.accounting.core.phase import AllocationPhase
from dpsgd_explorer.accounting.correlated.strategies import ToeplitzStrategy

POISSON, FULL_BATCH, FIXED_SIZE = "poisson", "full_batch", "fixed_size"
TRUNCATED_POISSON, SHUFFLED = "truncated_poisson", "shuffled"
RANDOM_ALLOCATION = "random_allocation"
#: Of a ``Plan`` only: each record once per epoch, always in the same slot.
FIXED_SLOTS = "fixed_slots"
SAMPLINGS = (
    POISSON,
    FULL_BATCH,
    FIXED_SIZE,
    TRUNCATED_POISSON,
    RANDOM_ALLOCATION,
    SHUFFLED,
)
#: Largest relative distance of a sample rate from 1 / slots.
SLOTS_TOLERANCE = 1e-9
#: Rule for the number of canaries of a run with random allocation.
NO_CANARIES = (
    "must be 0 with random allocation: the scores of canaries assume Poisson "
    "sampling. Choose Poisson sampling, or no canaries"
)
SHUFFLED_REASON = (
    "sampling must draw each batch independently, got 'shuffled': no accountant here "
    "has a tight bound for batches of shuffled records. Their ε can be far above the "
    "ε of Poisson sampling with the same noise (Chua et al. 2024); it is at most the "
    "ε of one Gaussian step per epoch. Call shuffled_interval for both bounds. Use "
    "'random_allocation', which also uses each record once per epoch, or 'poisson'; "
    "the chapter on privacy accounting explains the reason."
)


def allocation_of(phase: Phase) -> AllocationPhase:
    """Returns the steps of random allocation with the sample rate 1 / slots.

    >>> allocation_of(Phase(1 / 234, 1.1, 2340))
    AllocationPhase(noise_multiplier=1.1, steps=2340, slots=234)

    Raises:
        AccountingError: the sample rate is not 1 / t for a whole number t.
    """
    slots = round(1 / phase.sample_rate)
    if abs(slots * phase.sample_rate - 1) > SLOTS_TOLERANCE:
        rule = f"1/t for t slots, such as 1/{slots}, for sampling {RANDOM_ALLOCATION!r}"
        validation.refuse("sample_rate", rule, phase.sample_rate)
    noise, steps = phase.noise_multiplier, phase.steps
    return AllocationPhase(slots=slots, noise_multiplier=noise, steps=steps)


def fixed_size_reason(relation: NeighboringRelation) -> str:
    """Returns the reason why batches of fixed size have no bound, or ""."""
    if relation == REPLACE_ONE:
        return ""
    return (
        f"neighboring_relation must be {REPLACE_ONE!r} for batches of fixed size, "
        "because adding or removing a record would change their size, got "
        f"{relation!r}."
    )


def why_not(
    accountant: Accountant,
    phases: Sequence[Phase],
    sampling: str,
    relation: NeighboringRelation,
) -> str:
    """Returns the reason why an accountant does not apply to a sampling scheme, or "".

    Raises:
        AccountingError: the sampling is unknown.
    """
    validation.one_of("sampling", sampling, SAMPLINGS)
    if sampling == SHUFFLED:
        return SHUFFLED_REASON
    if sampling == FIXED_SIZE and (reason := fixed_size_reason(relation)):
        return reason
    if sampling == FIXED_SIZE:
        return (
            "accountant must be 'exact' or 'rdp' for batches of fixed size, because "
            f"only these have bounds for replaced records, got {accountant.name!r}."
        )
    if sampling == TRUNCATED_POISSON and not accountant.counts_truncated_batches:
        return (
            "accountant must be 'exact' for Poisson batches with a maximum size, got "
            f"{accountant.name!r}."
        )
    if sampling == TRUNCATED_POISSON:
        return (
            "max_batch_size and sample_size must be given for Poisson batches with a "
            "maximum size. Call truncated_poisson_epsilon, which takes both and uses "
            "the exact accountant."
        )
    if sampling == RANDOM_ALLOCATION:
        return _why_not_allocated(accountant, phases, relation)
    if sampling == FULL_BATCH and any(phase.sample_rate < 1 for phase in phases):
        return f"sample_rate must be 1 for sampling {FULL_BATCH!r}, got a smaller rate."
    return accountant.why_not(phases)


def _why_not_allocated(
    accountant: Accountant, phases: Sequence[Phase], relation: NeighboringRelation
) -> str:
    if relation == REPLACE_ONE:
        return (
            "neighboring_relation must be 'add_or_remove_one' for random allocation, "
            f"because no bound for a replaced record is proven, got {relation!r}."
        )
    return accountant.why_not([allocation_of(phase) for phase in phases])


def check_strategy(
    strategy: object, *, sampling: str, steps: int, most_bands: int, has_schedule: bool
) -> None:
    """Checks that the strategy of the noise fits the other settings of a plan.

    Args:
        strategy: Strategy of correlated noise; None for independent noise.
        sampling: Sampling of the plan.
        steps: Steps of the plan.
        most_bands: Largest number of groups of records.
        has_schedule: If True, the noise follows a schedule.

    Raises:
        AccountingError: it does not fit.
    """
    if has_schedule and sampling == FIXED_SLOTS:
        rule = f"None with sampling {FIXED_SLOTS!r}, whose ε assumes constant noise"
        validation.refuse("noise_schedule", rule, "a schedule")
    if strategy is not None:
        _check_one(strategy, sampling, steps, most_bands, has_schedule)


def _check_one(
    strategy: object, sampling: str, steps: int, most_bands: int, has_schedule: bool
) -> None:
    name = "noise_correlation"
    if not isinstance(strategy, ToeplitzStrategy):
        validation.refuse(name, "a ToeplitzStrategy or None", strategy)
    if sampling not in (POISSON, FIXED_SLOTS):
        rule = (
            f"None with sampling {sampling!r}, for which its ε is not known. Use "
            f"sampling {POISSON!r} or {FIXED_SLOTS!r}"
        )
        validation.refuse(name, rule, strategy)
    if has_schedule:
        validation.refuse(name, "None with a noise_schedule", strategy)
    if strategy.steps != steps:
        rule = f"a strategy of {steps} steps, as the plan has"
        validation.refuse(name, rule, f"{strategy.steps} steps")
    if sampling == POISSON:
        _check_bands(strategy, most_bands)
    elif min(strategy.coefficients) < 0:
        rule = f"without negative coefficients, with sampling {FIXED_SLOTS!r}"
        validation.refuse(name, rule, min(strategy.coefficients))


def _check_bands(strategy: ToeplitzStrategy, most_bands: int) -> None:
    name = "noise_correlation"
    if strategy.inverse is not None:
        rule = (
            f"a banded strategy with sampling {POISSON!r}, because C and not its "
            f"inverse must be banded there. Use sampling {FIXED_SLOTS!r}"
        )
        validation.refuse(name, rule, f"the inverse column {strategy.inverse}")
    if strategy.bands > most_bands:
        rule = (
            f"a strategy of at most {most_bands} bands, because each group must have "
            "a batch's expected number of records. Use fewer bands or smaller "
            "batches"
        )
        validation.refuse(name, rule, f"{strategy.bands} bands")

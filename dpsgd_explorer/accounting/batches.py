"""ε of a run under any sampling scheme, with the sizes that the scheme needs.

``sampling_schemes`` has the accountants that apply to each scheme.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from dpsgd_explorer.accounting.core import validation
from dpsgd_explorer.accounting.core.accountant import Accountant, Phase
from dpsgd_explorer.accounting.core.intervals import Interval
from dpsgd_explorer.accounting.core.neighboring_relation import (
    ADD_OR_REMOVE_ONE,
    REPLACE_ONE,
)
from dpsgd_explorer.accounting.exact.accountant import ExactAccountant
from dpsgd_explorer.accounting.fixed_size import fixed_size_interval
from dpsgd_explorer.accounting.queries import Answer, all_epsilons, epsilon_interval
from dpsgd_explorer.accounting.rdp.fixed_size import fixed_size_rdp_epsilon
from dpsgd_explorer.accounting.registry import (
    DECIDING_ACCOUNTANT,
    accountant_and_relation,
    deciding_name,
)
from dpsgd_explorer.accounting.sampling_schemes import (
    FIXED_SIZE,
    RANDOM_ALLOCATION,
    SAMPLINGS,
    TRUNCATED_POISSON,
    allocation_of,
    why_not,
)
from dpsgd_explorer.accounting.truncated_poisson import (
    MAX_RECORDS,
    truncated_poisson_epsilon,
)
from dpsgd_explorer.errors import AccountingError


@dataclass(frozen=True)
class Batches:
    """A sampling scheme with the sizes that it needs, checked on creation.

    Attributes:
        sampling: One of SAMPLINGS.
        sample_size: Records N of the larger of two neighbouring data sets, for
            "truncated_poisson"; else None.
        max_batch_size: Maximum number B of records in a batch, for
            "truncated_poisson"; else None.

    Raises:
        AccountingError: the sampling is unknown, or a size is missing or not used by
            the scheme; the message names the size.
    """

    sampling: str = SAMPLINGS[0]
    sample_size: int | None = None
    max_batch_size: int | None = None

    def __post_init__(self) -> None:
        validation.one_of("sampling", self.sampling, SAMPLINGS)
        is_truncated = self.sampling == TRUNCATED_POISSON
        for name in ("sample_size", "max_batch_size"):
            size = getattr(self, name)
            if is_truncated and size is None:
                rule = f"given for sampling {TRUNCATED_POISSON!r}"
                validation.refuse(name, rule, size)
            if size is not None and not is_truncated:
                rule = f"left out, sampling {self.sampling!r} takes none"
                validation.refuse(name, rule, size)
            if size is not None:
                checked = validation.whole(name, size, 1, MAX_RECORDS)
                object.__setattr__(self, name, checked)


POISSON = Batches()
#: Exact accountant that needs at most about a second for random allocation.  Its bounds
#: are wider for little noise.
QUICK = ExactAccountant(refinements=3, max_points=1 << 18)


def batches_interval(
    run: Phase,
    delta: float,
    accountant: str,
    neighboring_relation: str = ADD_OR_REMOVE_ONE,
    batches: Batches = POISSON,
    allocation: Accountant | None = None,
) -> Interval:
    """Returns the interval of ε of a run.

    Args:
        run: The run.
        delta: In (0, 1).
        accountant: Name in ACCOUNTANTS, or "all" for the exact one.
        neighboring_relation: "add_or_remove_one" or "replace_one".
        batches: The sampling scheme.
        allocation: Accountant that answers for random allocation, such as QUICK; None
            for the accountant of the name.

    Raises:
        AccountingError: an argument is outside its domain, or the accountant does not
            apply to the sampling scheme.
    """
    chosen, relation = accountant_and_relation(accountant, neighboring_relation)
    if batches.sampling == TRUNCATED_POISSON and chosen.counts_truncated_batches:
        return _truncated(run, delta, relation, batches)
    if (batches.sampling, relation) == (FIXED_SIZE, REPLACE_ONE):
        settings = asdict(run)
        if deciding_name(accountant) == DECIDING_ACCOUNTANT:
            return fixed_size_interval(**settings, delta=delta)
        if deciding_name(accountant) == "rdp":
            return Interval.one_sided(fixed_size_rdp_epsilon(**settings, delta=delta))
    if reason := why_not(chosen, [run], batches.sampling, relation):
        raise AccountingError(reason, field=reason.split(" ", 1)[0])
    if batches.sampling == RANDOM_ALLOCATION:
        chosen = chosen if allocation is None else allocation
        target = validation.delta(delta)
        return chosen.bounds([allocation_of(run)], [run.steps], target, relation)[0]
    return epsilon_interval([run], delta, accountant, relation)


def batches_answers(
    run: Phase,
    delta: float,
    neighboring_relation: str = ADD_OR_REMOVE_ONE,
    batches: Batches = POISSON,
) -> dict[str, Answer]:
    """Returns the answer of each accountant for a run, by the accountant's name.

    Raises:
        AccountingError: an argument is outside its domain.
    """
    answers = all_epsilons(
        sample_rate=run.sample_rate,
        noise_multiplier=run.noise_multiplier,
        steps=run.steps,
        delta=delta,
        sampling=batches.sampling,
        neighboring_relation=neighboring_relation,
    )
    if batches.sampling == TRUNCATED_POISSON:
        interval = _truncated(run, delta, neighboring_relation, batches)
        answers[DECIDING_ACCOUNTANT] = Answer(interval.status, interval.value)
    return answers


def _truncated(run: Phase, delta: float, relation: str, batches: Batches) -> Interval:
    assert batches.sample_size is not None
    assert batches.max_batch_size is not None
    return truncated_poisson_epsilon(
        sample_rate=run.sample_rate,
        noise_multiplier=run.noise_multiplier,
        steps=run.steps,
        delta=delta,
        sample_size=batches.sample_size,
        max_batch_size=batches.max_batch_size,
        neighboring_relation=relation,
    )

"""ε of one run, however its batches are drawn, with the sizes that the drawing needs.

``sampling`` says who answers for which way.
"""

from __future__ import annotations

from dataclasses import dataclass

from dpsgd_explorer.accounting.comparison import Answer, all_epsilons
from dpsgd_explorer.accounting.core import validation as domains
from dpsgd_explorer.accounting.core.accountant import Phase
from dpsgd_explorer.accounting.exact.accountant import ExactAccountant
from dpsgd_explorer.accounting.intervals import RELATION, Sides, epsilon_sides
from dpsgd_explorer.accounting.rdp.fixed_size import fixed_size_epsilon
from dpsgd_explorer.accounting.registry import DECIDING, accountant_for, deciding
from dpsgd_explorer.accounting.sampling_schemes import SAMPLINGS, check_answerable
from dpsgd_explorer.accounting.truncated_poisson import truncated_poisson_epsilon

TRUNCATED = "truncated_poisson"
FIXED = ("fixed_size", "replace_one", "rdp")  # sampling, relation, who answers


@dataclass(frozen=True)
class Batches:
    """How batches are drawn; an instance that exists is complete.

    Attributes:
        sampling: One of SAMPLINGS.
        sample_size: Records N of the larger of two neighbouring data sets, where
            batches are cut; else None.
        max_batch_size: Records B that a batch may hold, likewise.

    Raises:
        AccountingError: there is no such sampling; or names a size that is missing, or
            that the sampling does not look at.
    """

    sampling: str = SAMPLINGS[0]
    sample_size: int | None = None
    max_batch_size: int | None = None

    def __post_init__(self) -> None:
        if self.sampling not in SAMPLINGS:
            domains.refuse("sampling", f"one of {', '.join(SAMPLINGS)}", self.sampling)
        for name in ("sample_size", "max_batch_size"):
            self._check(name, getattr(self, name))

    def _check(self, name: str, size: int | None) -> None:
        is_cut = self.sampling == TRUNCATED
        if is_cut and size is None:
            domains.refuse(name, f"given for sampling {TRUNCATED!r}", size)
        if size is not None and not is_cut:
            rule = f"left out, sampling {self.sampling!r} takes none"
            domains.refuse(name, rule, size)


POISSON = Batches()


def batches_sides(
    run: Phase,
    delta: float,
    accountant: str,
    neighboring_relation: str = RELATION,
    batches: Batches = POISSON,
) -> Sides:
    """Return the ε that a run spends, from below and from above.

    Raises:
        AccountingError: an argument is outside its domain, or the accountant says
            nothing of batches that are drawn so.
    """
    chosen = accountant_for(accountant, neighboring_relation)
    if batches.sampling == TRUNCATED and isinstance(chosen, ExactAccountant):
        return _truncated(run, delta, neighboring_relation, batches)
    asked = (batches.sampling, neighboring_relation, deciding(accountant))
    if asked == FIXED:
        q, sigma = run.sample_rate, run.noise_multiplier
        spent = fixed_size_epsilon(q, sigma, run.steps, delta)
        return Sides(spent, None, spent, "bound")
    check_answerable(chosen, [run], batches.sampling, neighboring_relation)
    return epsilon_sides([run], delta, accountant, neighboring_relation)


def batches_answers(
    run: Phase,
    delta: float,
    neighboring_relation: str = RELATION,
    batches: Batches = POISSON,
) -> dict[str, Answer]:
    """Return what each accountant says of a run, by its name.

    Raises:
        AccountingError: an argument is outside its domain.
    """
    answers = all_epsilons(
        run.sample_rate,
        run.noise_multiplier,
        run.steps,
        delta,
        sampling=batches.sampling,
        neighboring_relation=neighboring_relation,
    )
    if batches.sampling == TRUNCATED:
        found = _truncated(run, delta, neighboring_relation, batches)
        answers[DECIDING] = Answer(found.status, found.value)
    return answers


def _truncated(run: Phase, delta: float, relation: str, batches: Batches) -> Sides:
    assert batches.sample_size is not None
    assert batches.max_batch_size is not None
    return truncated_poisson_epsilon(
        run.sample_rate,
        run.noise_multiplier,
        run.steps,
        delta,
        sample_size=batches.sample_size,
        max_batch_size=batches.max_batch_size,
        neighboring_relation=relation,
    )

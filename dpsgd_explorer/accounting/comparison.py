"""One run, counted by every accountant; who cannot says why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dpsgd_explorer.accounting.core import validation as domains
from dpsgd_explorer.accounting.core.accountant import Accountant, Phase
from dpsgd_explorer.accounting.core.phase_limits import check_count
from dpsgd_explorer.accounting.exact.accountant import ExactAccountant
from dpsgd_explorer.accounting.rdp.fixed_size import fixed_size_epsilon
from dpsgd_explorer.accounting.registry import ACCOUNTANTS
from dpsgd_explorer.accounting.sampling_schemes import why_not

DOES_NOT_APPLY = "does not apply"


@dataclass(frozen=True)
class Answer:
    """What one accountant says.

    Attributes:
        status: "exact", "bound", "approximation" or "does not apply".
        epsilon: None where it does not apply; may be infinite.
        reason: Why it does not apply, "" where it does.
    """

    status: str
    epsilon: float | None = None
    reason: str = ""


def all_epsilons(
    sample_rate: float,
    noise_multiplier: float,
    steps: int,
    delta: float,
    *,
    sampling: str = "poisson",
    neighboring_relation: str = "add_or_remove_one",
) -> dict[str, Answer]:
    """Return what each accountant says of DP-SGD at delta, by its name.

    Args:
        sample_rate: Probability q with which a record joins a step; batch over N for
            batches of fixed size.
        noise_multiplier: Noise std over the clipping bound; 0 gives infinity.
        steps: Steps done.
        delta: In (0, 1).
        sampling: One of SAMPLINGS.
        neighboring_relation: What one record may change.

    Raises:
        AccountingError: an argument is outside its domain.
    """
    run = Phase(sample_rate, noise_multiplier, steps)
    slack = domains.delta(delta)
    answers = all_answers([run], slack, sampling, neighboring_relation)
    if (sampling, neighboring_relation) == ("fixed_size", "replace_one"):
        q, sigma = run.sample_rate, run.noise_multiplier
        spent = fixed_size_epsilon(q, sigma, run.steps, slack)
        answers["rdp"] = Answer("bound", spent)
    return answers


def all_answers(
    phases: Sequence[Phase],
    delta: float,
    sampling: str = "poisson",
    neighboring_relation: str = "add_or_remove_one",
) -> dict[str, Answer]:
    """Return what each accountant says of all phases at delta, by its name.

    Raises:
        AccountingError: there is no such sampling.
    """
    able = [
        one
        for one in ACCOUNTANTS.values()
        if not why_not(one, phases, sampling, neighboring_relation)
    ]
    check_count(able, phases, neighboring_relation)
    return {
        name: _answer(one, phases, delta, sampling, neighboring_relation)
        for name, one in ACCOUNTANTS.items()
    }


def _answer(
    accountant: Accountant,
    phases: Sequence[Phase],
    delta: float,
    sampling: str,
    relation: str,
) -> Answer:
    if reason := why_not(accountant, phases, sampling, relation):
        return Answer(DOES_NOT_APPLY, reason=reason)
    total = [sum(phase.steps for phase in phases)]
    if isinstance(accountant, ExactAccountant):
        found = accountant.bounds(phases, total, delta, relation)
        status = "exact" if found.meet[0] else "bound"
        return Answer(status, float(found.upper[0]))
    value = accountant.epsilons(phases, total, delta, relation)[0]
    return Answer(accountant.status, float(value))

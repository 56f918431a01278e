"""One run, counted by every accountant; who cannot says why."""

from __future__ import annotations

from dataclasses import dataclass

from dpsgd_explorer.accounting import domains
from dpsgd_explorer.accounting.accountant import Phase
from dpsgd_explorer.accounting.exact import ExactAccountant
from dpsgd_explorer.accounting.sampling import fixed_size_epsilon, why_not
from dpsgd_explorer.accounting.table import ACCOUNTANTS

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
    return {
        name: _answer(name, run, slack, sampling, neighboring_relation)
        for name in ACCOUNTANTS
    }


def _answer(
    name: str, run: Phase, delta: float, sampling: str, relation: str
) -> Answer:
    accountant = ACCOUNTANTS[name]
    if (name, sampling, relation) == ("rdp", "fixed_size", "replace_one"):
        q, sigma = run.sample_rate, run.noise_multiplier
        return Answer("bound", fixed_size_epsilon(q, sigma, run.steps, delta))
    if reason := why_not(accountant, [run], sampling, relation):
        return Answer(DOES_NOT_APPLY, reason=reason)
    if isinstance(accountant, ExactAccountant):
        found = accountant.bounds([run], [run.steps], delta, relation)
        status = "exact" if found.meet[0] else "bound"
        return Answer(status, float(found.upper[0]))
    value = accountant.epsilons([run], [run.steps], delta, relation)[0]
    return Answer(accountant.status, float(value))

"""How batches are drawn is part of the question, and not every way has an answer.

| sampling | what is compared | who answers |
|---|---|---|
| poisson | one record added or removed, or replaced | every accountant |
| full_batch | the same | every accountant, at sample rate 1 |
| fixed_size | one record replaced | a Rényi bound, in ``fixed_size`` |
| truncated_poisson | as poisson | the exact accountant, in ``truncated`` |
| shuffled | | nobody: refused |
"""

from __future__ import annotations

from collections.abc import Sequence

from dpsgd_explorer.accounting.core import validation as domains
from dpsgd_explorer.accounting.core.accountant import Accountant, Phase
from dpsgd_explorer.accounting.exact.accountant import ExactAccountant
from dpsgd_explorer.errors import AccountingError

SAMPLINGS = ("poisson", "full_batch", "fixed_size", "truncated_poisson", "shuffled")
SHUFFLED = (
    "sampling must be drawn afresh for each step, got 'shuffled': no accountant here "
    "covers batches dealt from a shuffled deck, whose ε can be far above that of "
    "Poisson sampling with the same noise (Chua et al. 2024). Sample by Poisson; the "
    "lesson on privacy accounting tells why."
)


def why_not(
    accountant: Accountant, phases: Sequence[Phase], sampling: str, relation: str
) -> str:
    """Return why an accountant says nothing of batches drawn like this, "" if it does.

    Raises:
        AccountingError: there is no such sampling.
    """
    if sampling not in SAMPLINGS:
        rule = f"one of {', '.join(SAMPLINGS)}"
        domains.refuse("sampling", rule, sampling)
    if sampling == "shuffled":
        return SHUFFLED
    if sampling == "fixed_size" and relation != "replace_one":
        return (
            "neighboring_relation must be 'replace_one' for batches of fixed size, "
            f"which hold no record more or less, got {relation!r}."
        )
    if sampling == "fixed_size":
        return (
            "accountant must be 'rdp' for batches of fixed size, by its bound for "
            f"replaced records, got {accountant.label!r}."
        )
    if sampling == "truncated_poisson":
        return _why_not_cut(accountant)
    if sampling == "full_batch" and any(phase.sample_rate < 1 for phase in phases):
        return "sample_rate must be 1 for sampling 'full_batch', got less."
    if relation not in accountant.neighboring_relations:
        return (
            f"neighboring_relation must be one of "
            f"{', '.join(accountant.neighboring_relations)}, got {relation!r}."
        )
    return accountant.why_not(phases)


def _why_not_cut(accountant: Accountant) -> str:
    if not isinstance(accountant, ExactAccountant):
        return (
            "accountant must be 'exact' for Poisson batches that are cut, got "
            f"{accountant.label!r}."
        )
    return (
        "max_batch_size and sample_size must be known for Poisson batches that are "
        "cut. Ask truncated_poisson_epsilon, the exact accountant's answer."
    )


def check_answerable(
    accountant: Accountant, phases: Sequence[Phase], sampling: str, relation: str
) -> None:
    """Refuse what an accountant says nothing about.

    Raises:
        AccountingError: with the reason.
    """
    if reason := why_not(accountant, phases, sampling, relation):
        raise AccountingError(reason, field=reason.split(" ", 1)[0])

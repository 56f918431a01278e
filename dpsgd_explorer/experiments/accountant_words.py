"""The words without which an ε means nothing, for people."""

from __future__ import annotations

from dpsgd_explorer.accounting.core.neighboring_relation import (
    ADD_OR_REMOVE_ONE,
    REPLACE_ONE,
)
from dpsgd_explorer.accounting.registry import ACCOUNTANTS
from dpsgd_explorer.accounting.sampling_schemes import (
    FIXED_SIZE,
    FULL_BATCH,
    POISSON,
    TRUNCATED_POISSON,
)

RELATIONS: dict[str, str] = {
    ADD_OR_REMOVE_ONE: "adding or removing one record",
    REPLACE_ONE: "replacing one record",
}
SAMPLED = {
    POISSON: "Poisson sampling at rate {:.6g}",
    FULL_BATCH: "full batches, rate {:.6g}",
    FIXED_SIZE: "batches of fixed size, {:.6g} of the records",
    TRUNCATED_POISSON: "Poisson sampling at rate {:.6g}, batches with a maximum size",
}


def claim(accountant: str, status: str) -> str:
    """Return the accountant's label and the status of its answer."""
    label = ACCOUNTANTS[accountant].label
    return label if label.lower() == status else f"{label}: {status}"


def terms_of(
    rate: float,
    delta: float,
    relation: str = ADD_OR_REMOVE_ONE,
    sampling: str = POISSON,
) -> str:
    """Return δ, relation and sampling, without which an ε means nothing."""
    drawn = SAMPLED[sampling].format(rate) if sampling in SAMPLED else sampling
    return f"δ = {delta:g}, {RELATIONS[relation]}, {drawn}"

"""The table of accountants: one line per accountant."""

from __future__ import annotations

from dpsgd_explorer.accounting.core import validation
from dpsgd_explorer.accounting.core.accountant import Accountant
from dpsgd_explorer.accounting.core.neighboring_relation import NeighboringRelation
from dpsgd_explorer.accounting.exact.accountant import ExactAccountant, GlwAccountant
from dpsgd_explorer.accounting.rdp.accountant import RdpAccountant
from dpsgd_explorer.accounting.rdp.moments import MomentsAccountant
from dpsgd_explorer.accounting.theorems.composition_theorems import (
    AdvancedAccountant,
    BasicAccountant,
    OptimalAccountant,
)
from dpsgd_explorer.accounting.theorems.gdp import GdpAccountant
from dpsgd_explorer.accounting.theorems.zcdp import ZcdpAccountant

ACCOUNTANTS: dict[str, Accountant] = {
    accountant.name: accountant
    for accountant in (
        ExactAccountant(),
        RdpAccountant(),
        GlwAccountant(),
        MomentsAccountant(),
        GdpAccountant(),
        ZcdpAccountant(),
        OptimalAccountant(),
        AdvancedAccountant(),
        BasicAccountant(),
    )
}
ALL = "all"
DECIDING = "exact"  # accountant whose ε counts for "all"
NAMES = (*ACCOUNTANTS, ALL)


def deciding(name: str) -> str:
    """Return the accountant whose ε counts: the name itself, "exact" for "all".

    "all" calibrates and answers with the exact accountant; ``queries.all_answers``
    gives the others' ε of the same run.
    """
    return DECIDING if name == ALL else name


def accountant_for(name: str) -> Accountant:
    """Return the accountant of this name, the exact one for "all".

    Raises:
        AccountingError: there is none of this name.
    """
    return ACCOUNTANTS[deciding(validation.one_of("accountant", name, NAMES))]


def accountant_and_relation(
    name: str, neighboring_relation: str
) -> tuple[Accountant, NeighboringRelation]:
    """Return the accountant and the neighbouring relation of these names.

    Raises:
        AccountingError: there is none of such a name.
    """
    return accountant_for(name), NeighboringRelation.of(neighboring_relation)

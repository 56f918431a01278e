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
#: Name for all accountants together.
ALL = "all"
#: Name of the accountant that decides if the name is "all".
DECIDING_ACCOUNTANT = "exact"
NAMES = (*ACCOUNTANTS, ALL)


def deciding_name(name: str) -> str:
    """Returns the name of the accountant that decides: "exact" for "all".

    "all" calibrates and answers with the exact accountant; ``queries.all_answers``
    computes ε of the run by every accountant.
    """
    return DECIDING_ACCOUNTANT if name == ALL else name


def accountant_for(name: str) -> Accountant:
    """Returns the accountant of this name, the exact one for "all".

    Raises:
        AccountingError: the name is unknown.
    """
    return ACCOUNTANTS[deciding_name(validation.one_of("accountant", name, NAMES))]


def accountant_and_relation(
    name: str, neighboring_relation: str
) -> tuple[Accountant, NeighboringRelation]:
    """Returns the accountant and the neighbouring relation of these names.

    Raises:
        AccountingError: a name is unknown.
    """
    return accountant_for(name), NeighboringRelation.of(neighboring_relation)

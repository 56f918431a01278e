"""The accountants: one file each, one line here."""

from __future__ import annotations

from dpsgd_explorer.accounting.core import validation
from dpsgd_explorer.accounting.core.accountant import Accountant
from dpsgd_explorer.accounting.exact.accountant import ExactAccountant
from dpsgd_explorer.accounting.exact.glw import GlwAccountant
from dpsgd_explorer.accounting.rdp.accountant import RdpAccountant
from dpsgd_explorer.accounting.rdp.moments import MomentsAccountant
from dpsgd_explorer.accounting.theorems.advanced import AdvancedAccountant
from dpsgd_explorer.accounting.theorems.basic import BasicAccountant
from dpsgd_explorer.accounting.theorems.gdp import GdpAccountant
from dpsgd_explorer.accounting.theorems.optimal import OptimalAccountant
from dpsgd_explorer.accounting.theorems.zcdp import ZcdpAccountant
from dpsgd_explorer.errors import AccountingError

ACCOUNTANTS: dict[str, Accountant] = {
    "exact": ExactAccountant(),
    "rdp": RdpAccountant(),
    "glw": GlwAccountant(),
    "moments": MomentsAccountant(),
    "gdp": GdpAccountant(),
    "zcdp": ZcdpAccountant(),
    "optimal": OptimalAccountant(),
    "advanced": AdvancedAccountant(),
    "basic": BasicAccountant(),
}
ALL = "all"
DECIDING = "exact"  # who answers where all are asked
NAMES = (*ACCOUNTANTS, ALL)


def deciding(name: str) -> str:
    """Return whose answer counts: the name itself, "exact" for "all".

    "all" calibrates and answers with the exact accountant; what the others say of the
    same run stands beside it, by ``comparison.all_answers``.
    """
    return DECIDING if name == ALL else name


def accountant_for(
    name: str, neighboring_relation: str = "add_or_remove_one"
) -> Accountant:
    """Return the accountant of this name, the exact one for "all".

    Raises:
        AccountingError: there is none of this name, or not for this relation; the
            message names what there is.
    """
    chosen = ACCOUNTANTS[deciding(validation.one_of("accountant", name, NAMES))]
    relations = chosen.neighboring_relations
    if neighboring_relation not in relations:
        raise AccountingError(
            f"neighboring_relation must be one of {', '.join(relations)} for "
            f"accountant {name!r}, got {neighboring_relation!r}.",
            field="neighboring_relation",
        )
    return chosen

"""The neighbouring relation: how the two data sets of a privacy claim differ."""

from __future__ import annotations

from enum import StrEnum

from dpsgd_explorer.accounting.core import validation


class NeighboringRelation(StrEnum):
    """How two neighbouring data sets differ.

    In JSON and in arguments a member is written as its value, such as "replace_one".

    >>> NeighboringRelation.of("replace_one").sensitivity
    2.0
    >>> [*NeighboringRelation]
    ['add_or_remove_one', 'replace_one']
    """

    ADD_OR_REMOVE_ONE = "add_or_remove_one"
    REPLACE_ONE = "replace_one"

    def __repr__(self) -> str:
        """Returns the quoted name, as arguments and messages write it."""
        return str.__repr__(self)

    @classmethod
    def of(cls, name: object) -> NeighboringRelation:
        """Returns the relation of this name.

        Raises:
            AccountingError: the name is unknown.
        """
        return cls(validation.one_of("neighboring_relation", name, list(cls)))

    @property
    def sensitivity(self) -> float:
        """L2 sensitivity of the clipped sum of a step, in clipping bounds."""
        return 2.0 if self is NeighboringRelation.REPLACE_ONE else 1.0


ADD_OR_REMOVE_ONE = NeighboringRelation.ADD_OR_REMOVE_ONE
REPLACE_ONE = NeighboringRelation.REPLACE_ONE

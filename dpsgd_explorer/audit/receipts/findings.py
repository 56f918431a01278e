"""Results of a check: figures stated and recomputed, and figures left unchecked."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from dpsgd_explorer.errors import ExplorerError

#: Largest relative difference of two numbers that rounding on two machines explains.
MAX_RELATIVE_DIFFERENCE = 1e-6


@dataclass(frozen=True)
class Figure:
    """One figure of a receipt, as stated and as recomputed.

    Attributes:
        path: Place in the receipt, such as "told.steps".
        stated: Value in the receipt.
        recomputed: Value from the other figures, or the rule for it in words.
        fits: If True, the two agree; numbers, up to one part in a million.

    Example:
        >>> findings = Findings()
        >>> findings.compare("told.steps", 20, 21)
        >>> findings.wrong
        [Figure(path='told.steps', stated=20, recomputed=21, fits=False)]
    """

    path: str
    stated: Any
    recomputed: Any
    fits: bool


@dataclass
class Findings:
    """The result of ``verify_receipt``: each figure of a receipt, checked or not.

    Attributes:
        figures: The figures that follow from others, in the order of the checks.
        unchecked: {place: why it follows from no other figure}.

    Example:
        >>> findings = Findings()
        >>> findings.compare("epsilon", 1.3, 1.3 + 1e-9)  # rounded by another machine
        >>> findings.leave("seed", "chosen by the run")
        >>> findings
        Findings(1 figure fits, 0 do not, 1 unchecked)
        >>> findings.unchecked
        {'seed': 'chosen by the run'}
    """

    figures: list[Figure] = field(default_factory=list)
    unchecked: dict[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        wrong = len(self.wrong)
        fitting = len(self.figures) - wrong
        figures = "figure fits" if fitting == 1 else "figures fit"
        return (
            f"Findings({fitting} {figures}, {wrong} do not, "
            f"{len(self.unchecked)} unchecked)"
        )

    @property
    def wrong(self) -> list[Figure]:
        """The figures that do not fit."""
        return [figure for figure in self.figures if not figure.fits]

    def compare(self, path: str, stated: Any, recomputed: Any) -> None:
        """Adds a figure, or a table of figures, whose value follows from others."""
        if _are_tables(stated, recomputed):
            for name, value in stated.items():
                self.compare(f"{path}.{name}", value, recomputed[name])
            return
        self._add(path, stated, recomputed, are_equal(stated, recomputed))

    def require(self, path: str, stated: Any, rule: str, fits: bool) -> None:
        """Adds a figure for which the other figures allow several values."""
        self._add(path, stated, rule, fits)

    def recompute(self, path: str, stated: Any, compute: Callable[[], Any]) -> None:
        """Adds a figure by a computation, which may fail because of other figures."""
        try:
            self.compare(path, stated, compute())
        except (ExplorerError, ArithmeticError, ValueError) as error:
            self._add(path, stated, f"cannot be computed: {error}", False)

    def leave(self, path: str, why: str) -> None:
        """Adds a place that follows from no other figure of the receipt."""
        self.unchecked[path] = why

    def _add(self, path: str, stated: Any, recomputed: Any, fits: bool) -> None:
        self.figures.append(Figure(path, stated, recomputed, fits))


def _are_tables(stated: Any, recomputed: Any) -> bool:
    both = isinstance(stated, dict) and isinstance(recomputed, dict)
    return both and stated.keys() == recomputed.keys()


def are_equal(stated: Any, recomputed: Any) -> bool:
    """Returns True if two values are equal; floats, up to rounding on two machines."""
    if isinstance(stated, dict) and isinstance(recomputed, dict):
        return stated.keys() == recomputed.keys() and all(
            are_equal(stated[name], recomputed[name]) for name in stated
        )
    if isinstance(stated, list) and isinstance(recomputed, list):
        pairs = zip(stated, recomputed, strict=False)
        return len(stated) == len(recomputed) and all(
            are_equal(*pair) for pair in pairs
        )
    if isinstance(stated, float) or isinstance(recomputed, float):
        return _close(stated, recomputed)
    return bool(stated == recomputed)


def _close(stated: Any, recomputed: Any) -> bool:
    if not isinstance(stated, int | float) or not isinstance(recomputed, int | float):
        return False
    return math.isclose(stated, recomputed, rel_tol=MAX_RELATIVE_DIFFERENCE)

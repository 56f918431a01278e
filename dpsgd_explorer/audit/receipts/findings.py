"""Results of a check: figures stated and recomputed, and figures left unchecked."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from dpsgd_explorer.errors import ExplorerError

#: Largest relative difference of two equal numbers that two machines rounded.
TOLERANCE = 1e-6


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
        """Add a figure, or each of a table of them, whose value follows from others."""
        if _are_tables(stated, recomputed):
            for name, value in stated.items():
                self.compare(f"{path}.{name}", value, recomputed[name])
            return
        self._add(path, stated, recomputed, same(stated, recomputed))

    def require(self, path: str, stated: Any, rule: str, fits: bool) -> None:
        """Add a figure for which the others leave several values."""
        self._add(path, stated, rule, fits)

    def recompute(self, path: str, stated: Any, compute: Callable[[], Any]) -> None:
        """Add a figure by a computation, which other figures may make impossible."""
        try:
            self.compare(path, stated, compute())
        except (ExplorerError, ArithmeticError, ValueError) as error:
            self._add(path, stated, f"cannot be computed: {error}", False)

    def leave(self, path: str, why: str) -> None:
        """Add a place that follows from nothing else in the receipt."""
        self.unchecked[path] = why

    def _add(self, path: str, stated: Any, recomputed: Any, fits: bool) -> None:
        self.figures.append(Figure(path, stated, recomputed, fits))


def _are_tables(stated: Any, recomputed: Any) -> bool:
    both = isinstance(stated, dict) and isinstance(recomputed, dict)
    return both and stated.keys() == recomputed.keys()


def same(stated: Any, recomputed: Any) -> bool:
    """Whether two values are equal; numbers, up to another machine's rounding."""
    if isinstance(stated, dict) and isinstance(recomputed, dict):
        return stated.keys() == recomputed.keys() and all(
            same(stated[name], recomputed[name]) for name in stated
        )
    if isinstance(stated, list) and isinstance(recomputed, list):
        pairs = zip(stated, recomputed, strict=False)
        return len(stated) == len(recomputed) and all(same(*pair) for pair in pairs)
    if isinstance(stated, float) or isinstance(recomputed, float):
        return _close(stated, recomputed)
    return bool(stated == recomputed)


def _close(stated: Any, recomputed: Any) -> bool:
    if not isinstance(stated, int | float) or not isinstance(recomputed, int | float):
        return False
    return math.isclose(stated, recomputed, rel_tol=TOLERANCE)

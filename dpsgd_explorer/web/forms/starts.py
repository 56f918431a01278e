"""Values that the controls of a widget start at: ``?noise=2&record=1,-2``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.web.forms.limits import WAY_OUT


@dataclass(frozen=True)
class Choices:
    """A few values.

    Attributes:
        values: What can be chosen, in order.
        by_place: Whether the page's input holds the place of a value, from 0, and not
            the value itself.
    """

    values: tuple[float, ...]
    by_place: bool = True

    def __str__(self) -> str:
        """Return the rule in words."""
        return "one of " + ", ".join(f"{value:g}" for value in self.values)

    def position(self, value: float) -> float | None:
        """Return what the page's input holds for a value; None if it is no choice."""
        if value not in self.values:
            return None
        return self.values.index(value) if self.by_place else value


@dataclass(frozen=True)
class Span:
    """All values between two ends.

    Attributes:
        low: Smallest value.
        high: Largest value.
        doublings: Whether the page's input counts doublings.
    """

    low: float
    high: float
    doublings: bool = False

    def __str__(self) -> str:
        """Return the rule in words."""
        return f"from {self.low:g} to {self.high:g}"

    def position(self, value: float) -> float | None:
        """Return what the page's input holds for a value; None if it is outside."""
        if not self.low <= value <= self.high:
            return None
        return math.log2(value) if self.doublings else value


#: What a control can start at: one rule for each of its numbers.
Rules = tuple[Choices | Span, ...]


@dataclass(frozen=True)
class Starts:
    """Values that controls start at.

    Attributes:
        query: The values as an address carries them, by control.
        positions: What the page's inputs hold for them, by control.
    """

    query: Mapping[str, str] = field(default_factory=dict)
    positions: Mapping[str, tuple[float, ...]] = field(default_factory=dict)


USUAL = Starts()


def read_starts(
    given: Mapping[str, str], known: Mapping[str, Rules], subject: str
) -> Starts:
    """Return the starting values that an address gives.

    Args:
        given: Numbers with commas between them, by control.
        known: Rules of each control that can start at a value, by name.
        subject: What has the controls, for messages.

    Raises:
        ConfigError: a name is no such control, or a value is not what its rules allow.
    """
    for name in given.keys() - known.keys():
        raise ConfigError(
            name,
            f"a starting value must be for a control of {subject} "
            f"({', '.join(known) or 'none takes one'}), got {name!r}. {WAY_OUT}",
        )
    values = {name: _numbers(text) for name, text in given.items()}
    positions = {name: _positions(known[name], values[name]) for name in given}
    for name, found in positions.items():
        if found is None:
            rule = ", then ".join(map(str, known[name]))
            raise ConfigError(
                name, f"{name} must be {rule}, got {given[name]!r}. {WAY_OUT}"
            )
    texts = {name: ",".join(f"{one:g}" for one in values[name]) for name in given}
    return Starts(texts, {name: found for name, found in positions.items() if found})


def _numbers(text: str) -> tuple[float, ...]:
    """Return the numbers between commas; none if a part is no number."""
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        return ()


def _positions(rules: Rules, values: tuple[float, ...]) -> tuple[float, ...] | None:
    """Return what the inputs hold; None if a value is missing or not allowed."""
    if len(values) != len(rules):
        return None
    found = tuple(
        rule.position(value) for rule, value in zip(rules, values, strict=True)
    )
    return None if None in found else found  # type: ignore[return-value]

"""Starting values of a widget's controls: ``?noise=2&record=1,-2``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.web.forms.limits import WAY_OUT


@dataclass(frozen=True)
class Choices:
    """A rule that allows a few values.

    Attributes:
        values: The allowed values, in order.
        by_place: If True, the page's input contains the index of a value; otherwise it
            contains the value.
    """

    values: tuple[float, ...]
    by_place: bool = True

    def __str__(self) -> str:
        """Returns the rule in words."""
        return "one of " + ", ".join(f"{value:g}" for value in self.values)

    def position(self, value: float) -> float | None:
        """Returns the input's number for a value; None if the value is not allowed."""
        if value not in self.values:
            return None
        return self.values.index(value) if self.by_place else value


@dataclass(frozen=True)
class Span:
    """A rule that allows all values of an interval.

    Attributes:
        low: Smallest value.
        high: Largest value.
        doublings: If True, the page's input contains the logarithm to base 2.
    """

    low: float
    high: float
    doublings: bool = False

    def __str__(self) -> str:
        """Returns the rule in words."""
        return f"from {self.low:g} to {self.high:g}"

    def position(self, value: float) -> float | None:
        """Returns the input's number for a value; None if the value is outside."""
        if not self.low <= value <= self.high:
            return None
        return math.log2(value) if self.doublings else value


#: Rules of a control's starting values, one per number.
Rules = tuple[Choices | Span, ...]


@dataclass(frozen=True)
class Starts:
    """Starting values of controls.

    Attributes:
        query: Starting values as texts of a query, by control.
        positions: Starting values as numbers of the page's inputs, by control.
    """

    query: Mapping[str, str] = field(default_factory=dict)
    positions: Mapping[str, tuple[float, ...]] = field(default_factory=dict)


USUAL = Starts()


def read_starts(
    query: Mapping[str, str], rules: Mapping[str, Rules], subject: str
) -> Starts:
    """Returns the starting values in a query.

    Args:
        query: Numbers separated by commas, by control.
        rules: Rules of each control that accepts a starting value.
        subject: Owner of the controls, for messages.

    Raises:
        ConfigError: A name is not such a control, or its rules do not allow a value.
    """
    for name in query.keys() - rules.keys():
        raise ConfigError(
            name,
            f"a starting value must be for a control of {subject} "
            f"({', '.join(rules) or 'none takes one'}), got {name!r}. {WAY_OUT}",
        )
    values = {name: _numbers(text) for name, text in query.items()}
    positions = {name: _positions(rules[name], values[name]) for name in query}
    for name, numbers in positions.items():
        if numbers is None:
            rule = ", then ".join(map(str, rules[name]))
            raise ConfigError(
                name, f"{name} must be {rule}, got {query[name]!r}. {WAY_OUT}"
            )
    texts = {name: ",".join(f"{value:g}" for value in values[name]) for name in query}
    return Starts(
        texts, {name: numbers for name, numbers in positions.items() if numbers}
    )


def _numbers(text: str) -> tuple[float, ...]:
    """Returns the numbers between commas; () if a part is not a number."""
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        return ()


def _positions(rules: Rules, values: tuple[float, ...]) -> tuple[float, ...] | None:
    """Returns the inputs' numbers; None if a value is missing or not allowed."""
    if len(values) != len(rules):
        return None
    positions = tuple(
        rule.position(value) for rule, value in zip(rules, values, strict=True)
    )
    return None if None in positions else positions  # type: ignore[return-value]

"""Rules that several layers check alike, each with one wording."""

from __future__ import annotations

from collections.abc import Callable, Collection
from numbers import Integral

from dpsgd_explorer.errors import ConfigError, ExplorerError


def one_of(
    name: str,
    value: object,
    choices: Collection[str],
    error: Callable[[str, str], ExplorerError] = ConfigError,
) -> str:
    """Return the value if it is one of the choices.

    Args:
        name: Subject of the message: an argument, setting or variable.
        value: What came.
        choices: What is allowed, in the order in which the message lists it.
        error: Makes the exception from the name and the message.

    Raises:
        ConfigError: or what ``error`` returns: the value is not among the choices.
    """
    if isinstance(value, str) and value in choices:
        return value
    raise error(name, f"{name} must be one of {', '.join(choices)}, got {value!r}.")


def whole(
    name: str,
    value: object,
    least: int,
    most: int,
    error: Callable[[str, str], ExplorerError] = ConfigError,
) -> int:
    """Return a whole number in a range, as a plain int.

    Args:
        name: Subject of the message.
        value: What came.
        least: Smallest number that is allowed.
        most: Largest number that is allowed.
        error: Makes the exception from the name and the message.

    Raises:
        ConfigError: or what ``error`` returns: the value is no whole number, or
            outside the range.
    """
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise error(name, f"{name} must be a whole number, got {value!r}.")
    number = int(value)
    if not least <= number <= most:
        raise error(name, f"{name} must be from {least} to {most}, got {value!r}.")
    return number

"""Rules that several layers check alike, each with one wording."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Collection
from decimal import Decimal
from difflib import get_close_matches
from numbers import Integral, Rational, Real
from typing import Any, cast

from dpsgd_explorer.errors import ConfigError, ExplorerError

MakeError = Callable[[str, str], ExplorerError]

#: Most characters of a value in a message.
MAX_SHOWN_CHARACTERS = 200


def one_of(
    name: str,
    value: object,
    choices: Collection[str],
    error: MakeError = ConfigError,
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
    raise error(
        name,
        f"{name} must be one of {', '.join(choices)}, got {shown(value)}."
        f"{suggestion(value, choices)}",
    )


def suggestion(value: object, choices: Collection[str]) -> str:
    """Return a question that names the nearest choice, "" if none is near.

    Args:
        value: A value that is not among the choices.
        choices: The allowed values.
    """
    if not isinstance(value, str):
        return ""
    by_case = {choice.casefold(): choice for choice in choices}
    near = get_close_matches(value.casefold(), by_case, n=1)
    return f" Did you mean {by_case[near[0]]!r}?" if near else ""


def shown(value: object) -> str:
    """Return a value as a message shows it, cut after MAX_SHOWN_CHARACTERS.

    Python writes no integer of more than 4,300 digits and raises ValueError instead.
    """
    try:
        text = repr(value)
    except ValueError:
        kind = type(value).__name__
        return f"a value of type {kind} with over {sys.get_int_max_str_digits()} digits"
    is_short = len(text) <= MAX_SHOWN_CHARACTERS
    return text if is_short else f"{text[:MAX_SHOWN_CHARACTERS]}…"


def plain_number(value: Any) -> int | float | None:
    """Return a real scalar as a Python int or float with the same value.

    Scalars of numpy compute in few bits, and those of integers wrap around; so every
    number is converted before it is stored or used.

    Args:
        value: A number of Python, a scalar or 0-d array of numpy, or a 0-d tensor.

    Returns:
        An int if the type is that of integers, or a fraction without a denominator;
        else a float, which may be infinite or NaN.  None if the value is no real
        number: a boolean, a complex number, a string, a duration, a masked value, an
        array.
    """
    if type(value) in (float, int):  # as most are, a hundred times in a calibration
        return cast("int | float", value)
    value = _unwrapped(value)
    if isinstance(value, bool) or not isinstance(value, Real | Decimal):
        return None
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Rational) and value.denominator == 1:
        return int(value.numerator)
    return _as_float(value)


def _as_float(value: Any) -> float:
    """Return the nearest float to a real number, infinite beyond the largest."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    except ValueError:  # a signaling NaN
        return math.nan


def _unwrapped(value: Any) -> Any:
    """Return the Python number in a scalar of numpy or a tensor, anything else as is.

    Durations of numpy are None: they would count as integers.  So are masked values,
    which hold a number that their owner declared missing.
    """
    kind = getattr(getattr(value, "dtype", None), "kind", "")
    if kind and kind in "mM":
        return None
    if getattr(value, "shape", None) != () or not hasattr(value, "item"):
        return value
    if getattr(value, "mask", False):
        return None
    try:
        return value.item()
    except (RuntimeError, ValueError):  # a tensor without a value
        return None


def finite(name: str, value: object, error: MakeError = ConfigError) -> float:
    """Return a real number that is neither NaN nor infinite, as a plain float.

    Args:
        name: Subject of the message.
        value: What came.
        error: Makes the exception from the name and the message.

    Raises:
        ConfigError: or what ``error`` returns: the value is no such number.
    """
    number = plain_number(value)
    if number is None:
        came = f"{shown(value)}.{advice(value)}"
        raise error(name, f"{name} must be a number, got {came}")
    real = _as_float(number)
    if not math.isfinite(real):
        raise error(name, f"{name} must be a finite number, got {shown(value)}.")
    return real


def positive(name: str, value: object, error: MakeError = ConfigError) -> int | float:
    """Return a finite number above 0, as a plain int or float.

    Args:
        name: Subject of the message.
        value: What came.
        error: Makes the exception from the name and the message.

    Raises:
        ConfigError: or what ``error`` returns: the value is no such number.
    """
    number = plain_number(value)
    if number is None or not 0 < _as_float(number) < math.inf:
        raise error(
            name,
            f"{name} must be a finite number above 0, got {shown(value)}."
            f"{advice(value)}",
        )
    return number


def whole(
    name: str,
    value: object,
    least: int,
    most: int,
    error: MakeError = ConfigError,
) -> int:
    """Return a whole number in a range, as a plain int.

    Args:
        name: Subject of the message.
        value: What came; 100.0 is 100.
        least: Smallest number that is allowed.
        most: Largest number that is allowed.
        error: Makes the exception from the name and the message.

    Raises:
        ConfigError: or what ``error`` returns: the value is no whole number, or
            outside the range.
    """
    number = whole_number(value)
    if number is None:
        raise error(
            name, f"{name} must be a whole number, got {shown(value)}.{advice(value)}"
        )
    if not least <= number <= most:
        raise error(name, f"{name} must be from {least} to {most}, got {shown(value)}.")
    return number


def whole_number(value: object) -> int | None:
    """Return a whole number as a plain int, 100 for 100.0; None for anything else.

    A fraction near a whole number has the float of that number, so the two are compared
    exactly.
    """
    number = plain_number(value)
    if isinstance(number, float) and number.is_integer():
        number = int(number) if number == _unwrapped(value) else None
    return number if isinstance(number, int) else None


def advice(value: object) -> str:
    """Return the remedy for an array or a list in place of a number, else ""."""
    is_row = getattr(value, "shape", ()) != () or isinstance(value, list | tuple)
    return " Pass one number per call." if is_row else ""

"""Checks of arguments and settings that several layers share, with one wording each."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Collection
from decimal import Decimal
from difflib import get_close_matches
from numbers import Integral, Rational, Real
from pathlib import Path
from typing import Any, cast

from dpsgd_explorer.errors import ConfigError, ExplorerError

MakeError = Callable[[str, str], ExplorerError]

#: Largest number of characters of a value in a message.
MAX_SHOWN_CHARACTERS = 200


def file_text(name: str, path: str | Path) -> str:
    """Returns the content of a text file.

    Args:
        name: Subject of the message: an option or variable.
        path: Path of the file.

    Raises:
        ConfigError: the file cannot be read, or it is not UTF-8 text.
    """
    try:
        return Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise ConfigError(
            name, f"{name} must be a file that can be read: {path}: {reason}."
        ) from None


def one_of(
    name: str,
    value: object,
    choices: Collection[str],
    error: MakeError = ConfigError,
) -> str:
    """Returns the value if it is one of the choices.

    Args:
        name: Subject of the message: an argument, setting or variable.
        value: Value to check.
        choices: Allowed values, in the order of the message.
        error: Function from the name and the message to the exception.

    Raises:
        ConfigError: the value is not among the choices.  ``error`` may return another
            exception.
    """
    if isinstance(value, str) and value in choices:
        return value
    raise error(
        name,
        f"{name} must be one of {', '.join(choices)}, got {shown(value)}."
        f"{suggestion(value, choices)}",
    )


def suggestion(value: object, choices: Collection[str]) -> str:
    """Returns a question that names the nearest choice, "" if no choice is near.

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
    """Returns a value as text for a message, cut after MAX_SHOWN_CHARACTERS.

    For an integer of more than 4,300 digits ``repr`` raises ValueError; then the text
    states the type and this limit.
    """
    try:
        text = repr(value)
    except ValueError:
        kind = type(value).__name__
        return f"a value of type {kind} with over {sys.get_int_max_str_digits()} digits"
    is_short = len(text) <= MAX_SHOWN_CHARACTERS
    return text if is_short else f"{text[:MAX_SHOWN_CHARACTERS]}…"


def plain_number(value: Any) -> int | float | None:
    """Returns a real scalar as a Python int or float with the same value.

    Numpy scalars have limited precision, and numpy integers wrap around, so every
    number is converted before it is stored or used.

    Args:
        value: A Python number, a numpy scalar or 0-d array, or a 0-d tensor.

    Returns:
        An int for an integer type, or for a fraction with denominator 1; else a float,
        which may be infinite or NaN.  None if the value is no real number: a boolean, a
        complex number, a string, a duration, a masked value or an array.
    """
    if type(value) in (float, int):  # fast path: a calibration calls this 100 times
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
    """Returns the nearest float to a real number, infinite beyond the largest float."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    except ValueError:  # a signaling NaN
        return math.nan


def _unwrapped(value: Any) -> Any:
    """Returns the Python number in a numpy scalar or a tensor, other values unchanged.

    Numpy durations give None, because they would count as integers.  Masked values give
    None, because their number was declared missing.
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
    """Returns a real number that is neither NaN nor infinite, as a plain float.

    Args:
        name: Subject of the message.
        value: Value to check.
        error: Function from the name and the message to the exception.

    Raises:
        ConfigError: the value is no such number.  ``error`` may return another
            exception.
    """
    number = plain_number(value)
    if number is None:
        text = f"{shown(value)}.{advice(value)}"
        raise error(name, f"{name} must be a number, got {text}")
    real = _as_float(number)
    if not math.isfinite(real):
        raise error(name, f"{name} must be a finite number, got {shown(value)}.")
    return real


def positive(name: str, value: object, error: MakeError = ConfigError) -> int | float:
    """Returns a finite number above 0, as a plain int or float.

    Args:
        name: Subject of the message.
        value: Value to check.
        error: Function from the name and the message to the exception.

    Raises:
        ConfigError: the value is no such number.  ``error`` may return another
            exception.
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
    """Returns a whole number in a range, as a plain int.

    Args:
        name: Subject of the message.
        value: Value to check; 100.0 is 100.
        least: Smallest allowed number.
        most: Largest allowed number.
        error: Function from the name and the message to the exception.

    Raises:
        ConfigError: the value is no whole number, or is outside the range.  ``error``
            may return another exception.
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
    """Returns a whole number as a plain int, 100 for 100.0; None for other values.

    A fraction near a whole number has the float of that number, so the float is
    compared exactly with the value.
    """
    number = plain_number(value)
    if isinstance(number, float) and number.is_integer():
        number = int(number) if number == _unwrapped(value) else None
    return number if isinstance(number, int) else None


def advice(value: object) -> str:
    """Returns a remedy if the value is an array or a list in place of a number."""
    is_row = getattr(value, "shape", ()) != () or isinstance(value, list | tuple)
    return " Pass one number per call." if is_row else ""

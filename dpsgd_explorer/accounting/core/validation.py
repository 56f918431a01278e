"""Domains of the quantities of accounting, checked in one place.

Each function returns the accepted value as a plain Python number, or raises
AccountingError with the argument's name in the message and in ``field``.  Callers
compute with the returned value, never with the argument.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from dpsgd_explorer import validation
from dpsgd_explorer.errors import AccountingError

#: Largest number of steps, and largest noise multiplier, that are accepted.
MAX_STEPS = 10**9
MAX_NOISE_MULTIPLIER = 1e12
#: Smallest noise multiplier above 0: its square, and the inverse of that, are floats.
MIN_NOISE_MULTIPLIER = 1e-100
MIN_SAMPLE_RATE = 1e-300
#: Smallest δ: small shares of it are still floats.
MIN_DELTA = 1e-300
#: Largest ε at which δ is computed.
MAX_EPSILON = 1e300
#: Smallest target ε.
MIN_EPSILON = 1e-100
#: Types that are rejected as rows of numbers: text, and types without an order.
NON_ROW_TYPES = (str, bytes, bytearray, Mapping, set, frozenset)


def sample_rate(value: object) -> float:
    """Poisson inclusion probability q of a step."""
    number = finite("sample_rate", value)
    if not 0 < number <= 1:
        refuse("sample_rate", "greater than 0 and at most 1", value)
    if number < MIN_SAMPLE_RATE:
        refuse("sample_rate", f"at least {MIN_SAMPLE_RATE:g}", value)
    return number


def noise_multiplier(value: object) -> float:
    """Noise standard deviation over the sensitivity; 0 is allowed and not private."""
    number = finite("noise_multiplier", value)
    if not 0 <= number <= MAX_NOISE_MULTIPLIER:
        refuse("noise_multiplier", f"from 0 to {MAX_NOISE_MULTIPLIER:g}", value)
    if 0 < number < MIN_NOISE_MULTIPLIER:
        refuse("noise_multiplier", f"0 or at least {MIN_NOISE_MULTIPLIER:g}", value)
    return number


def delta(value: object) -> float:
    """δ of (ε, δ)-differential privacy."""
    number = share("delta", value)
    if number < MIN_DELTA:
        refuse("delta", f"at least {MIN_DELTA:g}", value)
    return number


def epsilon(value: object) -> float:
    """ε at which δ is computed."""
    number = finite("epsilon", value)
    if number < 0:
        refuse("epsilon", "at least 0", value)
    if number > MAX_EPSILON:
        refuse("epsilon", f"at most {MAX_EPSILON:g}", value)
    return number


def target_epsilon(value: object, name: str = "target_epsilon") -> float:
    """Largest ε that a run may spend."""
    number = finite(name, value)
    if number <= 0:
        refuse(name, "greater than 0", value)
    if number < MIN_EPSILON:
        refuse(name, f"at least {MIN_EPSILON:g}", value)
    return number


def steps(value: object, *, least: int = 0) -> int:
    """Number of steps of a run or a phase."""
    return whole("steps", value, least, MAX_STEPS)


def whole(name: str, value: object, least: int, most: int) -> int:
    """Returns a whole number in a range."""
    return validation.whole(name, value, least, most, _error)


def finite(name: str, value: object) -> float:
    """Returns a real number that is neither NaN nor infinite."""
    return validation.finite(name, value, _error)


def share(name: str, value: object) -> float:
    """Returns a number greater than 0 and less than 1."""
    number = finite(name, value)
    if not 0 < number < 1:
        refuse(name, "greater than 0 and less than 1", value)
    return number


def all_steps(values: Iterable[object]) -> list[int]:
    """Returns numbers of steps."""
    _refuse_no_row("steps", values)
    return [steps(value) for value in values]


def step_counts(values: Any) -> npt.NDArray[np.float64]:
    """Returns numbers of steps of all phases together, of any size, [S]."""
    counts = numbers("steps", values)
    is_whole = np.isfinite(counts) & (counts == np.rint(counts)) & (counts >= 0)
    # A fraction near a whole number has the float of that number, and so looks whole.
    exact = isinstance(values, np.ndarray)
    if not exact:
        is_scalar = validation.plain_number(values) is not None
        listed = [values] if is_scalar else values
        exact = all(validation.whole_number(value) is not None for value in listed)
    if not exact or not np.all(is_whole):
        refuse("steps", "whole numbers of at least 0", values)
    return counts


def numbers(name: str, values: Any) -> npt.NDArray[np.float64]:
    """Returns real numbers, which may be infinite, as a new array, [K].

    Shapes: values [K]: an array, a tensor or a list of scalars; a scalar counts as a
    list of one number.
    """
    if validation.plain_number(values) is not None:
        values = [values]
    if np.ma.is_masked(values):
        refuse(name, "a list of numbers, none of them masked", values)
    _refuse_no_row(name, values)
    kind = getattr(getattr(values, "dtype", None), "kind", "O")
    if kind in "fiu":  # real numbers of numpy
        row = np.array(values, dtype=np.float64)
    else:
        try:
            plain = [validation.plain_number(value) for value in values]
            row = np.array(plain, dtype=np.float64)
        except (TypeError, OverflowError):
            refuse(name, "a list of numbers", values)
        if None in plain:
            refuse(name, "a list of numbers", values)
    if row.ndim != 1 or np.isnan(row).any():
        refuse(name, "a list of numbers", values)
    return row


def _refuse_no_row(name: str, values: object) -> None:
    is_row = isinstance(values, Iterable) and not isinstance(values, NON_ROW_TYPES)
    # A scalar of numpy may be iterable, and a table yields the names of its columns.
    if not is_row or getattr(values, "ndim", 1) != 1:
        refuse(name, "a list of numbers", values)


def one_of(name: str, value: object, choices: Collection[str]) -> str:
    """Returns the value if it is one of the choices."""
    return validation.one_of(name, value, choices, _error)


def _error(name: str, message: str) -> AccountingError:
    return AccountingError(message, field=name)


def refuse(name: str, rule: str, value: object) -> NoReturn:
    """Raises AccountingError with the argument's name, the rule and the value."""
    raise _error(name, f"{name} must be {rule}, got {validation.shown(value)}.")

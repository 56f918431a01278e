"""Domains of the quantities of accounting, checked in one place.

Each function returns the value that it accepted, as a plain Python number, or raises
AccountingError with the argument's name in the message and in ``field``.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from numbers import Real
from typing import NoReturn

from dpsgd_explorer import validation
from dpsgd_explorer.errors import AccountingError

MAX_STEPS = 10**9
MAX_NOISE_MULTIPLIER = 1e12
LEAST_NOISE_MULTIPLIER = 1e-100  # whose square, and its inverse, are floats
LEAST_SAMPLE_RATE = 1e-300
LEAST_DELTA = 1e-300  # a share of which still is a float
MAX_EPSILON = 1e300  # of a question for δ
LEAST_EPSILON = 1e-100  # of a target


def sample_rate(value: object) -> float:
    """Poisson inclusion probability q of a step."""
    number = finite("sample_rate", value)
    if not 0 < number <= 1:
        refuse("sample_rate", "greater than 0 and at most 1", value)
    if number < LEAST_SAMPLE_RATE:
        refuse("sample_rate", f"at least {LEAST_SAMPLE_RATE:g}", value)
    return number


def noise_multiplier(value: object) -> float:
    """Noise standard deviation over the sensitivity; 0 is allowed and not private."""
    number = finite("noise_multiplier", value)
    if not 0 <= number <= MAX_NOISE_MULTIPLIER:
        refuse("noise_multiplier", f"from 0 to {MAX_NOISE_MULTIPLIER:g}", value)
    if 0 < number < LEAST_NOISE_MULTIPLIER:
        refuse("noise_multiplier", f"0 or at least {LEAST_NOISE_MULTIPLIER:g}", value)
    return number


def delta(value: object) -> float:
    """δ of (ε, δ)-differential privacy."""
    number = finite("delta", value)
    if not 0 < number < 1:
        refuse("delta", "greater than 0 and less than 1", value)
    if number < LEAST_DELTA:
        refuse("delta", f"at least {LEAST_DELTA:g}", value)
    return number


def epsilon(value: object) -> float:
    """ε at which δ is computed."""
    number = finite("epsilon", value)
    if number < 0:
        refuse("epsilon", "at least 0", value)
    if number > MAX_EPSILON:
        refuse("epsilon", f"at most {MAX_EPSILON:g}", value)
    return number


def target_epsilon(value: object) -> float:
    """Largest ε that a run may spend."""
    number = finite("target_epsilon", value)
    if number <= 0:
        refuse("target_epsilon", "greater than 0", value)
    if number < LEAST_EPSILON:
        refuse("target_epsilon", f"at least {LEAST_EPSILON:g}", value)
    return number


def steps(value: object, *, least: int = 0) -> int:
    """Number of steps of a run or a phase."""
    return whole("steps", value, least, MAX_STEPS)


def whole(name: str, value: object, least: int, most: int) -> int:
    """Return a whole number in a range."""
    return validation.whole(name, value, least, most, _error)


def finite(name: str, value: object) -> float:
    """Return a real number that is neither NaN nor infinite."""
    if isinstance(value, bool) or not isinstance(value, Real):
        refuse(name, "a number", value)
    number = float(value)
    if not math.isfinite(number):
        refuse(name, "a finite number", value)
    return number


def one_of(name: str, value: object, choices: Collection[str]) -> str:
    """Return the value if it is one of the choices."""
    return validation.one_of(name, value, choices, _error)


def _error(name: str, message: str) -> AccountingError:
    return AccountingError(message, field=name)


def refuse(name: str, rule: str, value: object) -> NoReturn:
    """Raise AccountingError: subject, rule, what came."""
    raise _error(name, f"{name} must be {rule}, got {value!r}.")

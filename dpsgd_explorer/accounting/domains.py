"""The domains of the quantities that accounting speaks about, checked in one place.

Each function returns the value that it accepted, as a plain Python number, or raises
AccountingError with the argument's name in the message and in ``field``.
"""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import NoReturn

from dpsgd_explorer.errors import AccountingError

MAX_STEPS = 10**9
MAX_NOISE_MULTIPLIER = 1e12


def sample_rate(value: object) -> float:
    """Poisson inclusion probability q of a step."""
    number = finite("sample_rate", value)
    if not 0 < number <= 1:
        refuse("sample_rate", "greater than 0 and at most 1", value)
    return number


def noise_multiplier(value: object) -> float:
    """Noise standard deviation over the sensitivity; 0 is allowed and not private."""
    number = finite("noise_multiplier", value)
    if not 0 <= number <= MAX_NOISE_MULTIPLIER:
        refuse("noise_multiplier", f"from 0 to {MAX_NOISE_MULTIPLIER:g}", value)
    return number


def delta(value: object) -> float:
    """Probability mass that the epsilon-band may leave out."""
    number = finite("delta", value)
    if not 0 < number < 1:
        refuse("delta", "greater than 0 and less than 1", value)
    return number


def epsilon(value: object) -> float:
    """A privacy loss that delta is asked for."""
    number = finite("epsilon", value)
    if number < 0:
        refuse("epsilon", "at least 0", value)
    return number


def target_epsilon(value: object) -> float:
    """The privacy loss that a whole run may spend."""
    number = finite("target_epsilon", value)
    if number <= 0:
        refuse("target_epsilon", "greater than 0", value)
    return number


def steps(value: object, *, least: int = 0) -> int:
    """Steps of a run, or of a part of one."""
    return whole("steps", value, least, MAX_STEPS)


def whole(name: str, value: object, least: int, most: int) -> int:
    """Return a whole number in a range."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        refuse(name, "a whole number", value)
    number = int(value)
    if not least <= number <= most:
        refuse(name, f"from {least} to {most}", value)
    return number


def finite(name: str, value: object) -> float:
    """Return a real number that is neither NaN nor infinite."""
    if isinstance(value, bool) or not isinstance(value, Real):
        refuse(name, "a number", value)
    number = float(value)
    if not math.isfinite(number):
        refuse(name, "a finite number", value)
    return number


def refuse(name: str, rule: str, value: object) -> NoReturn:
    """Raise AccountingError: subject, rule, what came."""
    raise AccountingError(f"{name} must be {rule}, got {value!r}.", field=name)

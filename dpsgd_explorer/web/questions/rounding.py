"""Conversion of computed numbers to text; the only place that chooses a direction.

Upper limits (of a loss, an attacker, δ) and required values (noise) are rounded up, so
that the printed value holds; lower limits are rounded down.  All other numbers are
rounded to nearest.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal

from dpsgd_explorer.accounting import round_up

Write = Callable[[float], str]
LONGEST = 400  # enough digits for 1.8e308 with decimals
SIGNIFICANT = 12  # significant digits; further digits hold rounding errors


def limit(value: float, digits: int = 2) -> str:
    """Return an upper limit with ``digits`` decimals, rounded up."""
    return round_up(value, digits)


def need(value: float, digits: int = 3) -> str:
    """Return a required noise multiplier, rounded up."""
    return round_up(value, digits)


def proven(value: float, digits: int = 2) -> str:
    """Return a lower limit with ``digits`` decimals, rounded down."""
    return _fixed(Decimal(f"{value:.{SIGNIFICANT}g}"), digits, ROUND_FLOOR)


def nearest(value: float, digits: int = 2) -> str:
    """Return a number with ``digits`` decimals, rounded to nearest; not for limits."""
    return _fixed(Decimal(f"{value:.{SIGNIFICANT}g}"), digits, ROUND_HALF_EVEN)


def significant(value: float, digits: int = 2) -> str:
    """Return a number to ``digits`` significant digits, nearest, without exponent."""
    if value == 0:
        return "0"
    return nearest(value, max(0, digits - 1 - math.floor(math.log10(abs(value)))))


def significant_limit(value: float | Decimal, digits: int) -> str:
    """Return an upper limit to ``digits`` significant digits, rounded up."""
    return str(Context(prec=digits, rounding=ROUND_CEILING).create_decimal(value))


def epsilon_limit(epsilon: float | None) -> str:
    """Return an ε of any size to four significant digits, rounded up; None is "∞"."""
    if epsilon is None:
        return "∞"
    if epsilon == 0:
        return "0"
    value = Decimal(significant_limit(Decimal(f"{epsilon:.9g}"), 4)).normalize()
    if 1e-3 <= value < 1e6:
        return f"{value:,f}"
    mantissa, _, power = f"{value:E}".partition("E")
    return f"{mantissa}e{int(power)}"


def percent(share: float, digits: int = 1) -> str:
    """Return a share in percent without the sign, rounded to nearest."""
    return nearest(100 * share, digits)


def percent_limit(share: float, digits: int = 1) -> str:
    """Return an upper limit of a share in percent without the sign, rounded up."""
    value = Decimal(f"{share:.{SIGNIFICANT}g}") * 100
    return _fixed(value, digits, ROUND_CEILING)


def certainty_limit(share: float) -> str:
    """Return an upper limit of a share in percent, with enough decimals to stay < 100.

    If four decimals are not enough, the text is 100, which is no limit.
    """
    percents = Decimal(repr(share)) * 100
    digits = 1 if percents < 99 else 2 if percents < Decimal("99.99") else 4
    text = _fixed(percents, digits, ROUND_CEILING)
    return "100" if float(text) == 100 else text


def points(share: float) -> str:
    """Return percentage points to two significant digits."""
    return significant(100 * share)


def whole(value: float) -> str:
    """Return the nearest whole number, with thousands separators."""
    return f"{round(value):,}"


def thousands(number: str) -> str:
    """Return a printed whole number with thousands separators."""
    return f"{int(number):,}"


def known_to(value: float, low: float, high: float) -> str:
    """Return a number with as many decimals as its range from low to high supports.

    The last decimal is at least a tenth of the range's width, with at most four
    decimals.
    """
    width = high - low
    if not math.isfinite(value + width):
        return "∞" if math.isinf(value) else significant(value)
    digits = 4 if width <= 0 else min(4, max(0, math.ceil(-math.log10(width))))
    return nearest(value, digits)


def _fixed(value: Decimal, digits: int, rounding: str) -> str:
    context = Context(prec=LONGEST, rounding=rounding)
    return f"{value.quantize(Decimal(1).scaleb(-digits), context=context):f}"

"""Text of ε, which is rounded up."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Context, Decimal

from dpsgd_explorer.accounting.core import validation
from dpsgd_explorer.validation import plain_number

#: Significant digits of ε that count; further digits are round-off.
SIGNIFICANT_DIGITS = 12
#: Digits after the point: the largest float, 1.8e308, still fits into CEILING_CONTEXT.
MAX_DIGITS = 80
#: Significant digits of a number that is smaller than the last decimal place.
SMALL_NUMBER_DIGITS = 2
#: Smallest exponent that is written in decimals; below it with a power of 10, as
#: JavaScript writes numbers.
MIN_DECIMAL_EXPONENT = -6
CEILING_CONTEXT = Context(prec=400, rounding=ROUND_CEILING)
SMALL_NUMBER_CONTEXT = Context(prec=SMALL_NUMBER_DIGITS, rounding=ROUND_CEILING)


def round_up(epsilon: float, digits: int = 2) -> str:
    """Returns ε in decimals, rounded up; "∞" for infinity.

    A number smaller than the last decimal place has two significant digits instead:
    0.00314 is "0.0032" and not "0.01", 1e-7 is "1e-7".

    Only the first 12 significant digits count, as the rest is round-off: 0.1 + 0.2 is
    "0.30", not "0.31".

    >>> round_up(2.3101)
    '2.32'
    >>> round_up(0.1 + 0.2), round_up(0.00314), round_up(float("inf"))
    ('0.30', '0.0032', '∞')

    Args:
        epsilon: At least 0, may be infinite.
        digits: Digits after the point, from 0 to 80.

    Raises:
        AccountingError: epsilon is negative or not a number, or digits is out of range.
    """
    spent = plain_number(epsilon)
    if spent is None or not spent >= 0:
        validation.refuse("epsilon", "at least 0", epsilon)
    digits = validation.whole("digits", digits, 0, MAX_DIGITS)
    if spent == math.inf:
        return "∞"
    spent = validation.finite("epsilon", spent)
    number = Decimal(f"{spent:.{SIGNIFICANT_DIGITS}g}")
    if 0 < number < Decimal(1).scaleb(-digits):
        return _small(number)
    return f"{number.quantize(Decimal(1).scaleb(-digits), context=CEILING_CONTEXT):f}"


def _small(number: Decimal) -> str:
    """Returns a number below 1 to two significant digits, as JavaScript writes it."""
    rounded = SMALL_NUMBER_CONTEXT.plus(number).normalize()
    exponent = rounded.adjusted()
    if exponent >= MIN_DECIMAL_EXPONENT:
        return f"{rounded:f}"
    return f"{rounded.scaleb(-exponent).normalize():f}e{exponent}"

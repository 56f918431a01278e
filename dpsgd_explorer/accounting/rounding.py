"""Text of ε, which is rounded up."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Context, Decimal

from dpsgd_explorer.accounting.core import validation
from dpsgd_explorer.validation import plain_number

SIGNIFICANT = 12
MAX_DIGITS = 80  # after the point: those of the largest float fit into LONGEST
FEW = 2  # significant digits of what is below the last decimal
LEAST_EXPONENT = -6  # of a number in decimals; below, with a power of 10
LONGEST = Context(prec=400, rounding=ROUND_CEILING)  # 1.8e308 and its decimals
SHORT = Context(prec=FEW, rounding=ROUND_CEILING)


def round_up(epsilon: float, digits: int = 2) -> str:
    """Return epsilon in decimals, not below its value; "∞" for infinity.

    What is smaller than the last of these decimals has two significant digits instead:
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
    number = Decimal(f"{spent:.{SIGNIFICANT}g}")
    if 0 < number < Decimal(1).scaleb(-digits):
        return _small(number)
    return f"{number.quantize(Decimal(1).scaleb(-digits), context=LONGEST):f}"


def _small(number: Decimal) -> str:
    """Return a number below 1 to few significant digits, as JavaScript writes it."""
    kept = SHORT.plus(number).normalize()
    exponent = kept.adjusted()
    if exponent >= LEAST_EXPONENT:
        return f"{kept:f}"
    return f"{kept.scaleb(-exponent).normalize():f}e{exponent}"

"""Text of ε, which is rounded up."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Context, Decimal

from dpsgd_explorer.accounting.core.validation import refuse

SIGNIFICANT = 12
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

    Args:
        epsilon: At least 0, may be infinite.
        digits: Digits after the point, at least 0.

    Raises:
        AccountingError: epsilon is negative or not a number.
    """
    if math.isnan(epsilon) or epsilon < 0:
        refuse("epsilon", "at least 0", epsilon)
    if math.isinf(epsilon):
        return "∞"
    number = Decimal(f"{epsilon:.{SIGNIFICANT}g}")
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

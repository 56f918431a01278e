"""The one place where epsilon becomes text: it is rounded up, never down."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Context, Decimal

from dpsgd_explorer.accounting.domains import refuse

SIGNIFICANT = 12
LONGEST = Context(prec=400, rounding=ROUND_CEILING)  # 1.8e308 and its decimals


def round_up(epsilon: float, digits: int = 2) -> str:
    """Return epsilon in decimals, not below its value; "∞" for infinity.

    Only the first 12 significant digits count: beyond them lies the noise of binary
    arithmetic, and 0.1 + 0.2 is "0.30", not "0.31".

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
    return f"{number.quantize(Decimal(1).scaleb(-digits), context=LONGEST):f}"

"""How many different phases one question may have: each costs about half a millisecond.

Steps with the same sample rate and noise are one phase, however many they are.
"""

from __future__ import annotations

from dpsgd_explorer.errors import AccountingError

MOST_PHASES = 3000


def check_count(count: int) -> None:
    """Refuse more different phases than are answered at once, before the work.

    Raises:
        AccountingError: names the bound and what came.
    """
    if count > MOST_PHASES:
        raise AccountingError(
            f"phases must have at most {MOST_PHASES:,} different pairs of sample rate "
            f"and noise multiplier for the exact accountant, got {count:,}. Round the "
            "noise multipliers down to fewer values, which spends no less, or ask "
            "another accountant, as 'rdp'.",
            field="phases",
        )

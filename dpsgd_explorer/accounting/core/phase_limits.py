"""How much one question about different phases may ask for, by counts alone.

A different phase costs about half a millisecond of an answer, and less of each further
one.  Steps with the same sample rate and noise are one phase, however many they are.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpsgd_explorer.accounting.core.accountant import Phase
from dpsgd_explorer.errors import AccountingError

MOST_PHASES = 3000
#: Different phases times answers, such as the points of a curve.
MOST_WORK = 10_000
#: Answers that a search, an attacker's curve and a distribution of losses are worth.
SEARCH, TRADE_OFF, DISTRIBUTION = 60, 20, 90


def check_count(phases: Sequence[Phase], answers: int = 1) -> None:
    """Refuse more different phases than are answered at once, before the work.

    Args:
        phases: What is asked about.
        answers: How many there will be, or how many the question is worth.

    Raises:
        AccountingError: names the bound and what came.
    """
    count = len({(phase.sample_rate, phase.noise_multiplier) for phase in phases})
    most = min(MOST_PHASES, max(MOST_WORK // max(answers, 1), 1))
    if count > most:
        raise AccountingError(
            f"phases must have at most {most:,} different pairs of sample rate and "
            f"noise multiplier where {_asked(answers)}, got {count:,}. Round the noise "
            "multipliers down to fewer values, which spends no less, or ask for less "
            "at once.",
            field="phases",
        )


def _asked(answers: int) -> str:
    return "one number is asked for" if answers == 1 else "so much is asked for"

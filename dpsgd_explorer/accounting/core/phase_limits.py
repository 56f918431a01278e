"""Limits on the size of a question, checked by counts before any work.

Steps with the same sample rate and noise are one phase, however many they are.  Work
is counted in fifths of a millisecond, roughly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dpsgd_explorer.accounting.core.neighboring_relation import NeighboringRelation
from dpsgd_explorer.accounting.core.phase import Phase, different
from dpsgd_explorer.errors import AccountingError

#: ``Accountant.work``, the CPU time of phases, a number of answers and a relation.
Work = Callable[[Sequence[Phase], int, NeighboringRelation], float]
MOST_PHASES = 3000
MOST_ANSWERS = 50_000  # such as the points of a curve
MOST_WORK = 10_000
#: Sizes of a search, a trade-off curve and a privacy loss distribution.
SEARCH = {"questions": 20, "answers": 1}
TRADE_OFF = {"questions": 3, "answers": 10}
DISTRIBUTION = {"questions": 3, "answers": 60}


def check_count(
    works: Sequence[Work],
    phases: Sequence[Phase],
    relation: NeighboringRelation,
    *,
    answers: int = 1,
    questions: int = 1,
) -> None:
    """Refuse too many different phases, or too many answers.

    Args:
        works: Work of each accountant that answers the question.
        phases: Phases of the question.
        relation: The difference between neighbouring data sets.
        answers: Number of answers per question.
        questions: Number of questions, or the number that takes as long.

    Raises:
        AccountingError: the limit is exceeded.
    """
    count = different(phases)
    costs = [work(phases, answers, relation) for work in works]
    work = questions * sum(costs)
    if answers > MOST_ANSWERS or (count == 1 < answers and work > MOST_WORK):
        most = min(MOST_ANSWERS, int(answers * MOST_WORK / max(work, 1.0)))
        raise AccountingError(
            f"steps must be at most {most:,} numbers per call, got {answers:,}. "
            "Request fewer points of the curve.",
            field="steps",
        )
    if count > MOST_PHASES or (count > 1 and work > MOST_WORK):
        most = min(MOST_PHASES, int(count * MOST_WORK / work))
        asked = "one number" if answers * questions == 1 else "this many numbers"
        raise AccountingError(
            f"phases must have at most {most:,} different pairs of sample rate and "
            f"noise multiplier in a call for {asked}, got {count:,}. Round the noise "
            "multipliers down to fewer values, which never understates epsilon, or "
            "request fewer numbers per call.",
            field="phases",
        )

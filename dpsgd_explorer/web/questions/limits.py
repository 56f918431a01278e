"""Limits on the size of a question that a request may ask, checked before any work.

Steps with the same sample rate and noise are one phase, however many they are.  Work
is counted in fifths of a millisecond, roughly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from dpsgd_explorer.accounting import NeighboringRelation, Phase
from dpsgd_explorer.accounting.core.phase import count_settings
from dpsgd_explorer.accounting.registry import deciding_name
from dpsgd_explorer.errors import AccountingError

MOST_PHASES = 3000
MOST_ANSWERS = 50_000  # such as the points of a curve
MOST_WORK = 10_000

#: Work of a phase, per question and per answer, of accountants whose work depends on
#: nothing else.
USUAL = (1.0, 0.2)
COMPOSITION = (6.0, 0.35)
PHASE_WORK = {
    "gdp": (0.1, 0.05),
    "optimal": COMPOSITION,
    "advanced": COMPOSITION,
    "basic": COMPOSITION,
}
RESPONSE_WORK = {"optimal": 2.5}  # per answer, of randomized responses at all shares

# Work of a phase of the Rényi accountants: of a sum, and of one step's divergences.
RENYI = ("rdp", "moments")
SUM_WORK = 0.02
STEP_WORK = {
    NeighboringRelation.ADD_OR_REMOVE_ONE: 4.0,
    NeighboringRelation.REPLACE_ONE: 60.0,
}

# Work of a phase of the exact accountant, per question and per answer, by the expected
# number of steps that one record joins.
EXACT = ("exact", "glw")
RARE, FEW, MANY = 0.1, 30.0, 1000.0
LITTLE_NOISE = 0.4  # noise multiplier below which up to MANY take longer
USUAL_WORK, FEW_WORK = (2.0, 1.0), (2.0, 1.5)
LITTLE_NOISE_WORK, RARE_WORK = (40.0, 3.0), (70.0, 2.0)
MAX_ROOTS = 200  # answers with a contour sum of their own; others are interpolated


def check_size(
    accountant: str,
    phases: Sequence[Phase],
    neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
    *,
    answers: int = 1,
) -> None:
    """Refuse too many different phases, or too many answers.

    Args:
        accountant: Name in NAMES of the accountant that answers the question.
        phases: Phases of the question.
        neighboring_relation: The difference between neighbouring data sets.
        answers: Number of answers.

    Raises:
        AccountingError: the limit is exceeded.
    """
    count = count_settings(phases)
    spent = work(accountant, phases, answers, neighboring_relation)
    if answers > MOST_ANSWERS or (count == 1 < answers and spent > MOST_WORK):
        most = min(MOST_ANSWERS, int(answers * MOST_WORK / max(spent, 1.0)))
        raise AccountingError(
            f"steps must be at most {most:,} numbers per call, got {answers:,}. "
            "Request fewer points of the curve.",
            field="steps",
        )
    if count > MOST_PHASES or (count > 1 and spent > MOST_WORK):
        most = min(MOST_PHASES, int(count * MOST_WORK / spent))
        asked = "one number" if answers == 1 else "this many numbers"
        raise AccountingError(
            f"phases must have at most {most:,} different pairs of sample rate and "
            f"noise multiplier in a call for {asked}, got {count:,}. Round the noise "
            "multipliers down to fewer values, which never understates epsilon, or "
            "request fewer numbers per call.",
            field="phases",
        )


def work(
    accountant: str,
    phases: Sequence[Phase],
    answers: int,
    neighboring_relation: NeighboringRelation,
) -> float:
    """Return about the CPU time of the answers, in fifths of a millisecond."""
    name, count = deciding_name(accountant), count_settings(phases)
    if name in EXACT:
        question, answer = _exact_work(phases)
        roots = min(answers, MAX_ROOTS) + answers / MAX_ROOTS
        return count * (question + answer * roots)
    if name in RENYI:
        return count * (STEP_WORK[neighboring_relation] + SUM_WORK * answers)
    question, answer = PHASE_WORK.get(name, USUAL)
    responses = RESPONSE_WORK.get(name, 0.0) * answers
    return count * (question + answer * answers) + responses


def _exact_work(phases: Sequence[Phase]) -> tuple[float, float]:
    """Return the work of one of the phases, per question and per answer.

    It is larger the more rarely a record joins a step.  Then losses are rare and large:
    contours need many frequencies, or do not serve at all.
    """
    sampled = [phase for phase in phases if phase.sample_rate < 1 and phase.steps]
    expected = math.fsum(phase.sample_rate * phase.steps for phase in sampled)
    least = min((phase.noise_multiplier for phase in sampled), default=math.inf)
    if not sampled or expected >= MANY:
        return USUAL_WORK
    if expected < RARE:
        return RARE_WORK
    if least < LITTLE_NOISE:
        return LITTLE_NOISE_WORK
    return FEW_WORK if expected < FEW else USUAL_WORK

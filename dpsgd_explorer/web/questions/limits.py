"""Limits on the size of questions in requests, checked before any computation.

Steps with equal sample rate and noise form one phase, whatever their number.  The unit
of work is about a fifth of a millisecond of CPU time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from dpsgd_explorer.accounting import NeighboringRelation, Phase
from dpsgd_explorer.accounting.core.phase import count_settings
from dpsgd_explorer.accounting.registry import deciding_name
from dpsgd_explorer.errors import AccountingError

MOST_PHASES = 3000
MOST_ANSWERS = 50_000  # for example, points of a curve
MOST_WORK = 10_000

#: Work per phase: per question and per answer. Default of accountants whose work does
#: not depend on the phases' settings.
USUAL = (1.0, 0.2)
COMPOSITION = (6.0, 0.35)
PHASE_WORK = {
    "gdp": (0.1, 0.05),
    "optimal": COMPOSITION,
    "advanced": COMPOSITION,
    "basic": COMPOSITION,
}
RESPONSE_WORK = {"optimal": 2.5}  # per answer, of randomized responses at all shares

# Work per phase of the Rényi accountants: per sum, and per divergence of one step.
RENYI = ("rdp", "moments")
SUM_WORK = 0.02
STEP_WORK = {
    NeighboringRelation.ADD_OR_REMOVE_ONE: 4.0,
    NeighboringRelation.REPLACE_ONE: 60.0,
}

# Work per phase of the exact accountant: per question and per answer, by the expected
# number of steps that include one record.
EXACT = ("exact", "glw")
RARE, FEW, MANY = 0.1, 30.0, 1000.0
LITTLE_NOISE = 0.4  # noise multiplier below which up to MANY expected steps are slower
USUAL_WORK, FEW_WORK = (2.0, 1.0), (2.0, 1.5)
LITTLE_NOISE_WORK, RARE_WORK = (40.0, 3.0), (70.0, 2.0)
MAX_ROOTS = 200  # answers with a separate contour sum; others are interpolated


def check_size(
    accountant: str,
    phases: Sequence[Phase],
    neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
    *,
    answers: int = 1,
) -> None:
    """Reject too many different phases, or too many answers.

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
        maximum = min(MOST_ANSWERS, int(answers * MOST_WORK / max(spent, 1.0)))
        raise AccountingError(
            f"steps must be at most {maximum:,} numbers per call, got {answers:,}. "
            "Request fewer points of the curve.",
            field="steps",
        )
    if count > MOST_PHASES or (count > 1 and spent > MOST_WORK):
        maximum = min(MOST_PHASES, int(count * MOST_WORK / spent))
        answers_text = "one number" if answers == 1 else "this many numbers"
        raise AccountingError(
            f"phases must have at most {maximum:,} different pairs of sample rate and "
            f"noise multiplier in a call for {answers_text}, got {count:,}. Round the "
            "noise multipliers down to fewer values, which never understates epsilon, "
            "or request fewer numbers per call.",
            field="phases",
        )


def work(
    accountant: str,
    phases: Sequence[Phase],
    answers: int,
    neighboring_relation: NeighboringRelation,
) -> float:
    """Return the approximate CPU time of the answers, in fifths of a millisecond."""
    name, count = deciding_name(accountant), count_settings(phases)
    if name in EXACT:
        per_question, per_answer = _exact_work(phases)
        roots = min(answers, MAX_ROOTS) + answers / MAX_ROOTS
        return count * (per_question + per_answer * roots)
    if name in RENYI:
        return count * (STEP_WORK[neighboring_relation] + SUM_WORK * answers)
    per_question, per_answer = PHASE_WORK.get(name, USUAL)
    responses = RESPONSE_WORK.get(name, 0.0) * answers
    return count * (per_question + per_answer * answers) + responses


def _exact_work(phases: Sequence[Phase]) -> tuple[float, float]:
    """Return the work per phase: per question and per answer.

    The more rarely steps include a record, the more work is needed: losses are then
    rare and large, and contours need many frequencies, or do not apply at all.
    """
    sampled = [phase for phase in phases if phase.sample_rate < 1 and phase.steps]
    expected_steps = math.fsum(phase.sample_rate * phase.steps for phase in sampled)
    smallest_noise = min(
        (phase.noise_multiplier for phase in sampled), default=math.inf
    )
    if not sampled or expected_steps >= MANY:
        return USUAL_WORK
    if expected_steps < RARE:
        return RARE_WORK
    if smallest_noise < LITTLE_NOISE:
        return LITTLE_NOISE_WORK
    return FEW_WORK if expected_steps < FEW else USUAL_WORK

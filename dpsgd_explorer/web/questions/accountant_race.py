"""The accountant race: ε of one run by every accountant, step by step."""

from __future__ import annotations

import math

from dpsgd_explorer.accounting import ACCOUNTANTS, Accountant, Phase
from dpsgd_explorer.accounting.core.intervals import common_status
from dpsgd_explorer.accounting.queries import epsilon_intervals
from dpsgd_explorer.errors import AccountingError
from dpsgd_explorer.experiments.accountant_words import ACCURACY, LABELS
from dpsgd_explorer.web.questions.privacy import Curve, CurvesAnswer, Racer
from dpsgd_explorer.web.questions.privacy_models import RELATIONS, CurvesQuestion
from dpsgd_explorer.web.questions.rounding import significant_limit

SYNONYMS = ("glw",)  # answered by another accountant, so it would be shown twice
DIGITS = 6
SILENT = "does not apply"


def race(question: CurvesQuestion) -> CurvesAnswer:
    """Return the curve of each accountant, or the reason why it does not apply."""
    steps = Curve.steps_by_ratio(question.steps, question.points)
    run = Phase(question.sample_rate, question.noise_multiplier, question.steps)
    return CurvesAnswer(
        delta=question.delta,
        neighboring_relation=RELATIONS[0],
        sample_rate=question.sample_rate,
        noise_multiplier=question.noise_multiplier,
        steps=steps,
        curves=[_racer(name, run, steps, question.delta) for name in racers()],
    )


def racers() -> dict[str, Accountant]:
    """Return the accountants without synonyms."""
    return {
        name: accountant
        for name, accountant in ACCOUNTANTS.items()
        if name not in SYNONYMS
    }


def significant(epsilon: float) -> float | None:
    """Return ε rounded up to six significant digits; None above the largest float."""
    if math.isinf(epsilon):
        return None
    rounded = float(significant_limit(epsilon, DIGITS))
    return None if math.isinf(rounded) else rounded


def _racer(name: str, run: Phase, steps: list[int], delta: float) -> Racer:
    status, reason, values = SILENT, "", list[float]()
    try:
        intervals = epsilon_intervals([run], steps, delta, name)
        values, status = [x.value for x in intervals], common_status(intervals)
    except AccountingError as error:
        reason = str(error)
    return Racer(
        accountant=name,
        label=LABELS[name],
        status=status,
        note=ACCURACY[name],
        reason=reason,
        epsilon=[significant(value) for value in values],
    )

"""What the privacy routes answer.

Every epsilon travels with what it means: delta, the neighbouring relation, the
sampling scheme, the accountant and whether that gives a bound or an approximation.
"""

from __future__ import annotations

import math

from pydantic import BaseModel

from dpsgd_explorer.accounting import ACCOUNTANTS, Phase, RenyiFilter
from dpsgd_explorer.accounting.batches import POISSON, Batches, batches_answers
from dpsgd_explorer.accounting.core.intervals import Interval
from dpsgd_explorer.accounting.queries import Answer, all_answers
from dpsgd_explorer.accounting.registry import ALL, deciding_name
from dpsgd_explorer.accounting.spending import FILTER
from dpsgd_explorer.experiments.accountant_words import LABELS
from dpsgd_explorer.web.questions.privacy_models import RELATIONS
from dpsgd_explorer.web.questions.rounding import limit

EPSILON_DIGITS = 4
FILTER_LABEL = "Privacy filter"


class PrivacyTerms(BaseModel):
    """What any epsilon beside it is to be read with."""

    delta: float
    neighboring_relation: str
    sampling: str = "poisson"
    accountant: str
    status: str

    @classmethod
    def of(
        cls,
        accountant: str,
        delta: float,
        neighboring_relation: str = RELATIONS[0],
        status: str = "",
    ) -> PrivacyTerms:
        """Return the terms of an answer at delta.

        Its status is the accountant's, unless this very answer has another.
        """
        return PrivacyTerms(
            delta=delta,
            accountant=deciding_name(accountant),
            neighboring_relation=neighboring_relation,
            status=status or ACCOUNTANTS[deciding_name(accountant)].status,
        )

    @classmethod
    def of_counter(cls, name: str, delta: float, status: str = "") -> PrivacyTerms:
        """Return the terms of what an accountant or a privacy filter counts."""
        if name != FILTER:
            return cls.of(name, delta, status=status)
        return cls(
            delta=delta,
            accountant=FILTER,
            neighboring_relation=RELATIONS[0],
            status=status or RenyiFilter.status,
        )


class Epsilon(PrivacyTerms):
    """One epsilon, rounded up; null and "∞" where there is no guarantee."""

    epsilon: float | None
    epsilon_text: str

    @classmethod
    def spent(cls, epsilon: float, terms: PrivacyTerms) -> Epsilon:
        """Return the answer for the accountant's value, which may be infinite."""
        return Epsilon(
            **terms.model_dump(),
            epsilon=rounded(epsilon),
            epsilon_text=limit(epsilon),
        )


class EnclosedEpsilon(Epsilon):
    """One epsilon, and what encloses the truth; null where nothing is proven."""

    lower: float | None
    upper: float | None

    @classmethod
    def between(
        cls, interval: Interval, accountant: str, delta: float
    ) -> EnclosedEpsilon:
        """Return the answer for an accountant's interval."""
        terms = PrivacyTerms.of(accountant, delta, status=interval.status)
        return EnclosedEpsilon(
            **Epsilon.spent(interval.value, terms).model_dump(),
            lower=finite(interval.lower),
            upper=finite(interval.upper),
        )


class EveryEpsilon(BaseModel):
    """What each accountant says of the same run, rounded up, if all were asked.

    Null otherwise, and for an epsilon that is infinite; an accountant that says
    nothing of such a run is left out.
    """

    epsilons: dict[str, float | None] | None = None


class PrivacyAnswer(Epsilon, EveryEpsilon):
    """What was asked for, and the epsilon that goes with it, the question repeated.

    ``value`` is the answer; the truth lies between ``lower`` and ``upper`` as far as
    the accountant proves it, null where it does not.
    """

    value: float | None
    lower: float | None
    upper: float | None
    sample_rate: float
    noise_multiplier: float
    steps: int


class EpsilonAnswer(PrivacyAnswer):
    """The epsilon of a run, with the sizes of batches that are cut."""

    sample_size: int | None
    max_batch_size: int | None


class Curve(BaseModel):
    """Epsilon after each of these steps; null where there is no guarantee."""

    steps: list[int]
    epsilon: list[float | None]

    @classmethod
    def through(cls, steps: list[int], epsilons: list[float]) -> Curve:
        """Return the curve with each epsilon rounded up."""
        return cls(steps=steps, epsilon=[rounded(value) for value in epsilons])

    @classmethod
    def along(cls, steps: list[int], intervals: list[Interval]) -> Curve:
        """Return the curve of the intervals' values."""
        return cls.through(steps, [interval.value for interval in intervals])

    @staticmethod
    def steps_up_to(last: int, points: int) -> list[int]:
        """Return about so many steps, evenly spread from 0 to the last."""
        return sorted({math.ceil(last * i / (points - 1)) for i in range(points)})

    @staticmethod
    def steps_by_ratio(last: int, points: int) -> list[int]:
        """Return about so many steps from 1 to the last, by equal ratios."""
        return sorted({round(last ** (i / (points - 1))) for i in range(points)})


class CurveAnswer(PrivacyTerms, Curve):
    """A curve with its terms and the question.

    The truth at each step lies between ``lower`` and ``upper`` as far as the
    accountant proves it; null where it does not.
    """

    lower: list[float | None] | None
    upper: list[float | None] | None
    sample_rate: float
    noise_multiplier: float


class TradeOffAnswer(BaseModel):
    """The largest true positive rate at each false positive rate, of any attack.

    It follows from δ at so many ε, so it is a bound even where each δ is exact. The
    best attack lies between ``lower`` and ``upper`` as far as the accountant proves
    it; null where it does not. ``true_positive_rate`` is the upper one.
    """

    neighboring_relation: str
    sampling: str = "poisson"
    accountant: str
    status: str
    sample_rate: float
    noise_multiplier: float
    steps: int
    false_positive_rate: list[float]
    true_positive_rate: list[float]
    lower: list[float] | None
    upper: list[float] | None


class SelectionAnswer(Epsilon):
    """ε of releasing the best run alone, and of one run, the question repeated."""

    trial_epsilon: float | None
    mean_trials: float
    shape: float
    poisson: bool
    sample_rate: float
    noise_multiplier: float
    steps: int


class FilterAnswer(PrivacyTerms):
    """The budget, as a divergence of this order, and the steps that it allows."""

    target_epsilon: float
    order: float
    budget: float
    steps: int
    sample_rate: float
    noise_multiplier: float


class Racer(BaseModel):
    """One accountant and what it says; ``reason`` where it says nothing here."""

    accountant: str
    label: str
    status: str
    note: str
    reason: str
    epsilon: list[float | None]


class CurvesAnswer(BaseModel):
    """The curves of all accountants over the same steps, spread by equal ratios."""

    delta: float
    neighboring_relation: str
    sampling: str = "poisson"
    sample_rate: float
    noise_multiplier: float
    steps: list[int]
    curves: list[Racer]


class LayerAnswer(BaseModel):
    """A layer with parameters; ``begins_group`` where a clipping group begins.

    ``norm_method`` is how the norms of its gradients are computed, "ghost" or
    "instantiate", and ``reason`` why; both are "" where it is chosen at the first step.
    """

    name: str
    kind: str
    output_shape: list[int]
    parameters: int
    begins_group: bool
    norm_method: str
    reason: str


class PlanAnswer(EnclosedEpsilon, EveryEpsilon):
    """What a configuration will do, before it is run.

    ``epsilon`` is what ``last_step`` steps spend: fewer than ``steps`` if
    ``stop_at_epsilon`` ends the run early. ``accountants`` are those that say
    something of such a run. A preliminary answer has few points, and bounds:
    ``last_step`` is at most that of the run. Where ``noise_is_bound``, the noise is at
    least that of the run, and ``epsilon`` the target, which the run spends at most.
    ``noise_multiplier`` is that of the first step; the gradient's is larger where
    adaptive clipping releases counts beside it. ``run_odds`` is how often at most, in
    percent, an attacker of this run is right about one record, by its own trade-off
    curve; null in a preliminary answer, without noise, and where a budget for changes
    leaves the steps open. ``step_bytes`` is the most that torch
    allocated during a private step of ``step_records`` records, measured once.
    """

    accountants: list[str]
    private: bool
    sample_size: int
    expected_batch_size: int
    sample_rate: float
    noise_multiplier: float
    last_noise_multiplier: float
    gradient_noise_multiplier: float
    steps: int
    epochs: float
    last_step: int
    parameters: int
    layers: list[LayerAnswer]
    step_bytes: int | None
    step_records: int | None
    curve: Curve | None
    noise_is_bound: bool
    run_odds: str | None


def counter_label(name: str) -> str:
    """Return the name of an accountant, or of the filter, for people."""
    return FILTER_LABEL if name == FILTER else LABELS[deciding_name(name)]


def claim_words(accountant: str, status: str) -> str:
    """Return what kind of truth an ε is, for people."""
    return f"{status} ({FILTER})" if accountant == FILTER else status


def finite(value: float | None) -> float | None:
    """Return a number as JSON can hold it."""
    return value if value is not None and math.isfinite(value) else None


def rounded(epsilon: float) -> float | None:
    """Return epsilon as a number that is not below it; None for infinity."""
    return None if math.isinf(epsilon) else float(limit(epsilon, EPSILON_DIGITS))


def epsilons_of_phases(
    accountant: str, phases: list[Phase], delta: float
) -> dict[str, float | None] | None:
    """Return what each accountant says of the phases, None unless all were asked."""
    if accountant != ALL:
        return None
    return _rounded_all(all_answers(phases, delta))


def epsilons_of_all(
    accountant: str,
    run: Phase,
    delta: float,
    relation: str = RELATIONS[0],
    batches: Batches = POISSON,
) -> dict[str, float | None] | None:
    """Return what each accountant says of a run, None unless all were asked."""
    if accountant != ALL or not 0 < delta < 1:
        return None
    return _rounded_all(batches_answers(run, delta, relation, batches))


def _rounded_all(answers: dict[str, Answer]) -> dict[str, float | None]:
    return {
        name: rounded(answer.epsilon)
        for name, answer in answers.items()
        if answer.epsilon is not None
    }

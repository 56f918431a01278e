"""Answers of the privacy routes.

Every ε comes with its terms: δ, the neighboring relation, the sampling scheme, the
accountant, and whether the value is a bound or an approximation.
"""

from __future__ import annotations

import math

from pydantic import BaseModel

from dpsgd_explorer.accounting import ACCOUNTANTS, Phase, RenyiFilter
from dpsgd_explorer.accounting.batches import (
    POISSON,
    QUICK,
    Batches,
    batches_answers,
    batches_interval,
)
from dpsgd_explorer.accounting.core.intervals import Interval
from dpsgd_explorer.accounting.queries import Answer, all_answers
from dpsgd_explorer.accounting.registry import ALL, deciding_name
from dpsgd_explorer.accounting.sampling_schemes import RANDOM_ALLOCATION
from dpsgd_explorer.accounting.spending import FILTER
from dpsgd_explorer.experiments.accountant_words import LABELS
from dpsgd_explorer.web.questions.epsilon_axis import EpsilonAxis
from dpsgd_explorer.web.questions.privacy_models import RELATIONS
from dpsgd_explorer.web.questions.rounding import limit

EPSILON_DIGITS = 4
FILTER_LABEL = "Privacy filter"


class PrivacyTerms(BaseModel):
    """The terms of an ε."""

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
        sampling: str = POISSON.sampling,
    ) -> PrivacyTerms:
        """Return the terms of an answer at delta.

        The default is the status of the accountant.
        """
        return PrivacyTerms(
            delta=delta,
            sampling=sampling,
            accountant=deciding_name(accountant),
            neighboring_relation=neighboring_relation,
            status=status or ACCOUNTANTS[deciding_name(accountant)].status,
        )

    @classmethod
    def of_counter(cls, name: str, delta: float, status: str = "") -> PrivacyTerms:
        """Return the terms of an ε that an accountant or a privacy filter counted."""
        if name != FILTER:
            return cls.of(name, delta, status=status)
        return cls(
            delta=delta,
            accountant=FILTER,
            neighboring_relation=RELATIONS[0],
            status=status or RenyiFilter.status,
        )


class Epsilon(PrivacyTerms):
    """One ε, rounded up; null and "∞" without a guarantee."""

    epsilon: float | None
    epsilon_text: str

    @classmethod
    def spent(cls, epsilon: float, terms: PrivacyTerms) -> Epsilon:
        """Return the answer for an accountant's value, which may be infinite."""
        return Epsilon(
            **terms.model_dump(),
            epsilon=rounded(epsilon),
            epsilon_text=limit(epsilon),
        )


class EnclosedEpsilon(Epsilon):
    """One ε with proven bounds on the true value; null if nothing is proven."""

    lower: float | None
    upper: float | None

    @classmethod
    def between(
        cls,
        interval: Interval,
        accountant: str,
        delta: float,
        sampling: str = POISSON.sampling,
    ) -> EnclosedEpsilon:
        """Return the answer for an accountant's interval."""
        terms = PrivacyTerms.of(
            accountant, delta, status=interval.status, sampling=sampling
        )
        return EnclosedEpsilon(
            **Epsilon.spent(interval.value, terms).model_dump(),
            lower=finite(interval.lower),
            upper=finite(interval.upper),
        )


class EveryEpsilon(BaseModel):
    """ε of the run by each accountant, rounded up, for accountant "all".

    Otherwise null; an infinite ε is null too. Accountants that do not apply to the run
    are left out.
    """

    epsilons: dict[str, float | None] | None = None


class PrivacyAnswer(Epsilon, EveryEpsilon):
    """The requested value and its ε, with the question.

    ``value`` is the answer. The true value is between ``lower`` and ``upper``, null
    where the accountant proves no bound.
    """

    value: float | None
    lower: float | None
    upper: float | None
    sample_rate: float
    noise_multiplier: float
    steps: int


class EpsilonAnswer(PrivacyAnswer):
    """ε of a run, with the sizes of truncated batches."""

    sample_size: int | None
    max_batch_size: int | None


class Curve(BaseModel):
    """ε after each number of steps; null without a guarantee."""

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
        """Return about ``points`` numbers of steps, evenly spaced up to ``last``."""
        return sorted({math.ceil(last * i / (points - 1)) for i in range(points)})

    @staticmethod
    def steps_by_ratio(last: int, points: int) -> list[int]:
        """Return about ``points`` numbers of steps, geometric from 1 to ``last``."""
        return sorted({round(last ** (i / (points - 1))) for i in range(points)})


class CurveAnswer(PrivacyTerms, Curve):
    """A curve with its terms and the question.

    The true value at each step is between ``lower`` and ``upper``, null where the
    accountant proves no bound.
    """

    lower: list[float | None] | None
    upper: list[float | None] | None
    sample_rate: float
    noise_multiplier: float


class TradeOffAnswer(BaseModel):
    """The largest true positive rate of any attack at each false positive rate.

    It is computed from δ at finitely many ε, so it is a bound even if each δ is exact.
    The best attack is between ``lower`` and ``upper``, null where the accountant
    proves no bound. ``true_positive_rate`` is the upper bound.
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
    """ε of releasing only the best run, and ε of one run, with the question."""

    trial_epsilon: float | None
    mean_trials: float
    shape: float
    poisson: bool
    sample_rate: float
    noise_multiplier: float
    steps: int


class FilterAnswer(PrivacyTerms):
    """The budget as a Rényi divergence of the given order, and the allowed steps."""

    target_epsilon: float
    order: float
    budget: float
    steps: int
    sample_rate: float
    noise_multiplier: float


class Racer(BaseModel):
    """One accountant and its curve; ``reason`` says why it does not apply."""

    accountant: str
    label: str
    status: str
    note: str
    reason: str
    epsilon: list[float | None]


class CurvesAnswer(BaseModel):
    """The curves of all accountants over the same geometrically spaced steps."""

    delta: float
    neighboring_relation: str
    sampling: str = "poisson"
    sample_rate: float
    noise_multiplier: float
    steps: list[int]
    curves: list[Racer]


class LayerAnswer(BaseModel):
    """A layer with parameters; ``begins_group`` if a clipping group begins with it.

    ``norm_method`` is the method that computes the norms of its gradients, "ghost" or
    "instantiate", and ``reason`` the reason for it; both are "" if the layer chooses at
    its first step.
    """

    name: str
    kind: str
    output_shape: list[int]
    parameters: int
    begins_group: bool
    norm_method: str
    reason: str


class PlanAnswer(EnclosedEpsilon, EveryEpsilon):
    """The plan of a configuration, before it is run.

    ``epsilon`` is the ε of ``last_step`` steps, which are fewer than ``steps`` if
    ``stop_at_epsilon`` ends the run early. ``accountants`` lists the accountants that
    apply to the run. A preliminary answer has few points, and bounds: ``last_step`` is
    at most the last step of the run. If ``noise_is_bound``, the noise is at least the
    noise of the run, and ``epsilon`` is the target, which the run does not exceed.
    ``noise_multiplier`` belongs to the first step; the noise on the gradient is larger
    if adaptive clipping also releases counts. ``run_odds`` is the limit on the share of
    right guesses about one record by an attacker of this run, in percent, from its own
    trade-off curve; null in a preliminary answer, without noise, and if a budget for
    changes leaves the steps open. ``step_bytes`` is the recorded peak memory that torch
    allocated during a private step of ``step_records`` records.
    ``epsilon_axis`` is the ε axis of its charts, with its budget and ticks.
    ``axes`` are the ends of the vertical axes of the charts along the steps: the usual
    one, and one for runs with values above it. ``sampling_words`` names the sampling
    for display, ``batch_words`` says how a batch is drawn.
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
    epsilon_axis: EpsilonAxis
    axes: dict[str, tuple[float, float]]
    sampling_words: str
    batch_words: str


def counter_label(name: str) -> str:
    """Return the display name of an accountant or of the filter."""
    return FILTER_LABEL if name == FILTER else LABELS[deciding_name(name)]


def claim_words(accountant: str, status: str) -> str:
    """Return the display text for the accountant and the status of an ε."""
    return f"{status} ({FILTER})" if accountant == FILTER else status


def finite(value: float | None) -> float | None:
    """Return a number, or None for values that JSON cannot express."""
    return value if value is not None and math.isfinite(value) else None


def rounded(epsilon: float) -> float | None:
    """Return ε rounded up to a printable number; None for infinity."""
    return None if math.isinf(epsilon) else float(limit(epsilon, EPSILON_DIGITS))


def epsilons_of_phases(
    accountant: str, phases: list[Phase], delta: float
) -> dict[str, float | None] | None:
    """Return ε of the phases by each accountant; None unless ``accountant`` is all."""
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
    """Return ε of a run by each accountant; None unless ``accountant`` is all."""
    if accountant != ALL or not 0 < delta < 1:
        return None
    if batches.sampling == RANDOM_ALLOCATION:
        terms = (run, delta, accountant, relation, batches)
        spent = batches_interval(*terms, allocation=QUICK)
        return {deciding_name(accountant): rounded(float(spent))}
    return _rounded_all(batches_answers(run, delta, relation, batches))


def _rounded_all(answers: dict[str, Answer]) -> dict[str, float | None]:
    return {
        name: rounded(answer.epsilon)
        for name, answer in answers.items()
        if answer.epsilon is not None
    }

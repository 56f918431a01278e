"""What the privacy routes are asked and what they answer.

Every epsilon travels with what it means: delta, the neighbouring relation, the
sampling scheme, the accountant and whether that gives a bound or an approximation.
"""

from __future__ import annotations

import math
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from dpsgd_explorer.accounting import (
    ACCOUNTANTS,
    NAMES,
    SAMPLINGS,
    domains,
    round_up,
)
from dpsgd_explorer.accounting.batches import Batches
from dpsgd_explorer.accounting.sides import Sides
from dpsgd_explorer.accounting.table import deciding
from dpsgd_explorer.accounting.truncated import MOST_RECORDS
from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.training.config import TrainingConfig

EPSILON_DIGITS = 4
DEFAULT_ACCOUNTANT: str = TrainingConfig.model_fields["accountant"].default
RELATIONS = tuple(
    dict.fromkeys(
        relation
        for accountant in ACCOUNTANTS.values()
        for relation in accountant.neighboring_relations
    )
)
MOST_POINTS = 1000
MOST_RACE_POINTS = 120


def _known_accountant(name: str) -> str:
    return _one_of("accountant", name, NAMES)


def _known_relation(name: str) -> str:
    return _one_of("neighboring_relation", name, RELATIONS)


def _known_sampling(name: str) -> str:
    return _one_of("sampling", name, SAMPLINGS)


def _one_of(field: str, name: str, known: tuple[str, ...]) -> str:
    if name not in known:
        raise ConfigError(
            field, f"{field} must be one of {', '.join(known)}, got {name!r}."
        )
    return name


SampleRate = Annotated[
    float, Field(gt=0, le=1, description="Poisson inclusion probability q of a step.")
]
NoiseMultiplier = Annotated[
    float,
    Field(
        ge=0,
        le=domains.MAX_NOISE_MULTIPLIER,
        description="Noise std over the clipping bound; 0: none.",
    ),
]
Steps = Annotated[
    int, Field(ge=0, le=domains.MAX_STEPS, description="Steps of the run.")
]
SomeSteps = Annotated[
    int, Field(ge=1, le=domains.MAX_STEPS, description="Steps of the run.")
]
Delta = Annotated[float, Field(gt=0, lt=1, description="Below one over N.")]
TargetEpsilon = Annotated[
    float, Field(gt=0, le=1000, description="What the run may spend.")
]
Points = Annotated[int, Field(ge=2, le=MOST_POINTS, description="Points of the curve.")]
AccountantName = Annotated[
    str,
    AfterValidator(_known_accountant),
    Field(json_schema_extra={"enum": list(NAMES)}),
]
Relation = Annotated[
    str,
    AfterValidator(_known_relation),
    Field(json_schema_extra={"enum": list(RELATIONS)}),
]


Sampling = Annotated[
    str,
    AfterValidator(_known_sampling),
    Field(
        json_schema_extra={"enum": list(SAMPLINGS)},
        description="How batches are drawn; those that are cut need both sizes.",
    ),
]
Records = Annotated[
    int,
    Field(ge=1, le=MOST_RECORDS, description="Of the data, or a batch at most."),
]


class Question(BaseModel):
    """Something about a Poisson-subsampled Gaussian that is repeated."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class PrivacyQuestion(Question):
    """A question to one accountant about one way to count neighbours.

    With accountant "all" the exact one answers; where the answer is one run's epsilon,
    ``epsilons`` holds what each of them says.
    """

    accountant: AccountantName = DEFAULT_ACCOUNTANT
    neighboring_relation: Relation = RELATIONS[0]

    @property
    def asked_of(self) -> dict[str, Any]:
        """The arguments that every question of ``accounting`` takes."""
        return {
            "accountant": self.accountant,
            "neighboring_relation": self.neighboring_relation,
        }


class EpsilonQuestion(PrivacyQuestion):
    """What do so many steps with this noise spend?"""

    sample_rate: SampleRate
    noise_multiplier: NoiseMultiplier
    steps: Steps
    delta: Delta = 1e-5
    sampling: Sampling = SAMPLINGS[0]
    sample_size: Records | None = None
    max_batch_size: Records | None = None

    @property
    def batches(self) -> Batches:
        """How the batches are drawn.

        Raises:
            AccountingError: names a size that is missing, or that is not looked at.
        """
        return Batches(self.sampling, self.sample_size, self.max_batch_size)


class CurveQuestion(PrivacyQuestion):
    """How does epsilon grow up to so many steps?"""

    sample_rate: SampleRate
    noise_multiplier: NoiseMultiplier
    steps: Steps
    delta: Delta = 1e-5
    points: Points = 200


class CurvesQuestion(Question):
    """How does epsilon grow, as each accountant counts it?"""

    sample_rate: SampleRate
    noise_multiplier: Annotated[float, Field(gt=0, le=domains.MAX_NOISE_MULTIPLIER)]
    steps: SomeSteps
    delta: Delta = 1e-5
    points: int = Field(60, ge=2, le=MOST_RACE_POINTS, description="Points of each.")


class DeltaQuestion(PrivacyQuestion):
    """With which delta do so many steps spend this epsilon?"""

    sample_rate: SampleRate
    noise_multiplier: NoiseMultiplier
    steps: Steps
    epsilon: float = Field(ge=0, le=1000, description="The epsilon that is promised.")


class NoiseQuestion(PrivacyQuestion):
    """How much noise keeps so many steps within a target?"""

    sample_rate: SampleRate
    steps: SomeSteps
    delta: Delta = 1e-5
    target_epsilon: TargetEpsilon


class StepsQuestion(PrivacyQuestion):
    """How many steps stay within a target?"""

    sample_rate: SampleRate
    noise_multiplier: NoiseMultiplier
    delta: Delta = 1e-5
    target_epsilon: TargetEpsilon


class SampleRateQuestion(PrivacyQuestion):
    """How many records may a step use on average within a target?"""

    noise_multiplier: NoiseMultiplier
    steps: SomeSteps
    delta: Delta = 1e-5
    target_epsilon: TargetEpsilon


class TradeOffQuestion(PrivacyQuestion):
    """How well can an attacker tell who was used?"""

    sample_rate: SampleRate
    noise_multiplier: NoiseMultiplier
    steps: Steps
    points: int = Field(41, ge=3, le=MOST_POINTS, description="Points of the curve.")


class PlanQuestion(TrainingConfig):
    """What would this configuration spend?"""

    points: int | None = Field(
        None,
        ge=2,
        le=MOST_POINTS,
        description="Points of the curve of ε; none if left out.",
    )


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
            accountant=deciding(accountant),
            neighboring_relation=neighboring_relation,
            status=status or ACCOUNTANTS[deciding(accountant)].status,
        )


class Epsilon(PrivacyTerms):
    """One epsilon, rounded up; null and "∞" where there is no guarantee."""

    epsilon: float | None
    epsilon_text: str

    @classmethod
    def spent(
        cls,
        epsilon: float,
        accountant: str,
        delta: float,
        neighboring_relation: str = RELATIONS[0],
        status: str = "",
    ) -> Epsilon:
        """Return the answer for the accountant's value, which may be infinite."""
        terms = PrivacyTerms.of(accountant, delta, neighboring_relation, status)
        return Epsilon(
            **terms.model_dump(),
            epsilon=rounded(epsilon),
            epsilon_text=round_up(epsilon),
        )


class EnclosedEpsilon(Epsilon):
    """One epsilon, and what encloses the truth; null where nothing is proven."""

    lower: float | None
    upper: float | None

    @classmethod
    def between(
        cls,
        sides: Sides,
        accountant: str,
        delta: float,
        neighboring_relation: str = RELATIONS[0],
    ) -> EnclosedEpsilon:
        """Return the answer for what an accountant says."""
        said = (accountant, delta, neighboring_relation, sides.status)
        return EnclosedEpsilon(
            **Epsilon.spent(sides.value, *said).model_dump(),
            lower=finite(sides.lower),
            upper=finite(sides.upper),
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


class PlanAnswer(EnclosedEpsilon, EveryEpsilon):
    """What a configuration will do, before it is run.

    ``epsilon`` is what ``last_step`` steps spend: fewer than ``steps`` if
    ``stop_at_epsilon`` ends the run early. ``accountants`` are those that say
    something of such a run.
    """

    accountants: list[str]
    private: bool
    sample_size: int
    expected_batch_size: int
    sample_rate: float
    noise_multiplier: float
    steps: int
    epochs: float
    last_step: int
    curve: Curve | None


def finite(value: float | None) -> float | None:
    """Return a number as JSON can hold it."""
    return value if value is not None and math.isfinite(value) else None


def rounded(epsilon: float) -> float | None:
    """Return epsilon as a number that is not below it; None for infinity."""
    return None if math.isinf(epsilon) else float(round_up(epsilon, EPSILON_DIGITS))

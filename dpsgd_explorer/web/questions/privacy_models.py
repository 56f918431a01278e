"""What the privacy routes are asked."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, Field

from dpsgd_explorer.accounting import NAMES, SAMPLINGS, NeighboringRelation, Phase
from dpsgd_explorer.accounting.batches import Batches
from dpsgd_explorer.accounting.rdp.selection import MOST_SHAPE, MOST_TRIALS
from dpsgd_explorer.accounting.truncated_poisson import MOST_RECORDS
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.experiments.vocabulary import parameter
from dpsgd_explorer.validation import one_of
from dpsgd_explorer.web.questions.question import Question

DEFAULT_ACCOUNTANT: str = TrainingConfig.model_fields["accountant"].default
RELATIONS = tuple(NeighboringRelation)
MOST_POINTS = 1000
MOST_RACE_POINTS = 120


SampleRate = Annotated[
    float, parameter("sample_rate", "Poisson inclusion probability q of a step.")
]
NoiseMultiplier = Annotated[
    float,
    parameter("noise_multiplier", "Noise std over the clipping bound; 0: none."),
]
Steps = Annotated[int, parameter("steps", "Steps of the run.")]
SomeSteps = Annotated[int, parameter("steps", "Steps of the run.", ge=1)]
Delta = Annotated[float, parameter("delta", "Below one over N.")]
TargetEpsilon = Annotated[float, parameter("target_epsilon", "What the run may spend.")]
Points = Annotated[int, Field(ge=2, le=MOST_POINTS, description="Points of the curve.")]
AccountantName = Annotated[
    str,
    AfterValidator(lambda name: one_of("accountant", name, NAMES)),
    Field(json_schema_extra={"enum": list(NAMES)}),
]
Relation = Annotated[
    str,
    AfterValidator(lambda name: one_of("neighboring_relation", name, RELATIONS)),
    Field(json_schema_extra={"enum": list(RELATIONS)}),
]


Sampling = Annotated[
    str,
    AfterValidator(lambda name: one_of("sampling", name, SAMPLINGS)),
    Field(
        json_schema_extra={"enum": list(SAMPLINGS)},
        description="How batches are drawn; those that are cut need both sizes.",
    ),
]
Records = Annotated[
    int,
    Field(ge=1, le=MOST_RECORDS, description="Of the data, or a batch at most."),
]


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


class RunQuestion(PrivacyQuestion):
    """A question about a run whose settings are all known."""

    sample_rate: SampleRate
    noise_multiplier: NoiseMultiplier
    steps: Steps

    @property
    def run(self) -> Phase:
        """The run as one phase."""
        return Phase(self.sample_rate, self.noise_multiplier, self.steps)


class EpsilonQuestion(RunQuestion):
    """What do so many steps with this noise spend?"""

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


class CurveQuestion(RunQuestion):
    """How does epsilon grow up to so many steps?"""

    delta: Delta = 1e-5
    points: Points = 200


class CurvesQuestion(Question):
    """How does epsilon grow, as each accountant counts it?"""

    sample_rate: SampleRate
    noise_multiplier: Annotated[float, parameter("noise_multiplier", gt=0)]
    steps: SomeSteps
    delta: Delta = 1e-5
    points: int = Field(60, ge=2, le=MOST_RACE_POINTS, description="Points of each.")


class DeltaQuestion(RunQuestion):
    """With which delta do so many steps spend this epsilon?"""

    epsilon: float = parameter("epsilon", "The epsilon that is promised.")


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


class TradeOffQuestion(RunQuestion):
    """How well can an attacker tell who was used?"""

    points: int = Field(41, ge=3, le=MOST_POINTS, description="Points of the curve.")


class SelectionQuestion(Question):
    """What does the best of a random number of runs spend?"""

    sample_rate: SampleRate
    noise_multiplier: NoiseMultiplier
    steps: SomeSteps
    delta: Delta = 1e-5
    neighboring_relation: Relation = RELATIONS[0]
    mean_trials: float = Field(
        10, ge=1, le=MOST_TRIALS, description="Runs on average; their number is random."
    )
    shape: float = Field(
        1,
        ge=0,
        le=MOST_SHAPE,
        description="Of their number: 0 logarithmic, 1 geometric.",
    )
    poisson: bool = Field(False, description="Their number is Poisson instead.")


class FilterQuestion(Question):
    """How many such steps does a budget allow that is fixed beforehand?"""

    target_epsilon: TargetEpsilon
    sample_rate: SampleRate
    noise_multiplier: NoiseMultiplier
    delta: Delta = 1e-5
    neighboring_relation: Relation = RELATIONS[0]


class PlanQuestion(TrainingConfig):
    """What would this configuration spend?"""

    points: int | None = Field(
        None,
        ge=2,
        le=MOST_POINTS,
        description="Points of the curve of ε; none if left out.",
    )
    preliminary: bool = Field(
        False,
        description="Answer at once: with few points, and for a target with the noise "
        "that quick bounds ask for, which is never too little. A run takes the noise "
        "of the answer that is not preliminary.",
    )

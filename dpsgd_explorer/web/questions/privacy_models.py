"""Models of the queries of the privacy routes."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, Field

from dpsgd_explorer.accounting import NAMES, SAMPLINGS, NeighboringRelation, Phase
from dpsgd_explorer.accounting.batches import Batches
from dpsgd_explorer.accounting.rdp.selection import MAX_SHAPE, MAX_TRIALS
from dpsgd_explorer.accounting.truncated_poisson import MAX_RECORDS
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.experiments.vocabulary import parameter
from dpsgd_explorer.validation import one_of
from dpsgd_explorer.web.questions.question import Question

DEFAULT_ACCOUNTANT: str = TrainingConfig.model_fields["accountant"].default
RELATIONS = tuple(NeighboringRelation)
MOST_POINTS = 1000
MOST_RACE_POINTS = 120


NOISE_HELP = "Standard deviation of the noise, in units of the clipping bound."
STEPS_HELP = "Number of steps of the run."
SampleRate = Annotated[
    float,
    parameter("sample_rate", "Probability q that a step uses a given record.", 0.01),
]
NoiseMultiplier = Annotated[
    float,
    parameter("noise_multiplier", f"{NOISE_HELP} 0: no noise, no guarantee.", 1.1),
]
Steps = Annotated[int, parameter("steps", STEPS_HELP, 1000)]
SomeSteps = Annotated[int, parameter("steps", STEPS_HELP, 1000, ge=1)]
Delta = Annotated[
    float,
    parameter(
        "delta", "δ of the guarantee. Choose it far below 1/N for N records.", 1e-5
    ),
]
TargetEpsilon = Annotated[
    float, parameter("target_epsilon", "Maximum ε of the whole run.", 3.0)
]
Points = Annotated[
    int, Field(ge=2, le=MOST_POINTS, description="Number of points of the curve.")
]
AccountantName = Annotated[
    str,
    AfterValidator(lambda name: one_of("accountant", name, NAMES)),
    Field(
        json_schema_extra={"enum": list(NAMES)},
        description="Method that computes ε.",
    ),
]
Relation = Annotated[
    str,
    AfterValidator(lambda name: one_of("neighboring_relation", name, RELATIONS)),
    Field(
        json_schema_extra={"enum": list(RELATIONS)},
        description="Difference between two neighboring data sets.",
    ),
]


Sampling = Annotated[
    str,
    AfterValidator(lambda name: one_of("sampling", name, SAMPLINGS)),
    Field(
        json_schema_extra={"enum": list(SAMPLINGS)},
        description="Method of drawing batches. truncated_poisson also requires "
        "sample_size and max_batch_size; random_allocation requires a sample_rate of "
        "1/t for t steps per epoch.",
    ),
]
Records = Annotated[int, Field(ge=1, le=MAX_RECORDS)]


class PrivacyQuestion(Question):
    """A query with an accountant and a neighboring relation.

    With accountant "all" the exact accountant answers. If the answer is the ε of one
    run, ``epsilons`` also contains the ε of each accountant.
    """

    accountant: AccountantName = DEFAULT_ACCOUNTANT
    neighboring_relation: Relation = RELATIONS[0]

    @property
    def query_arguments(self) -> dict[str, Any]:
        """Arguments that all query functions of ``accounting`` share."""
        return {
            "accountant": self.accountant,
            "neighboring_relation": self.neighboring_relation,
        }


class RunQuestion(PrivacyQuestion):
    """A query about a run with known settings."""

    sample_rate: SampleRate
    noise_multiplier: NoiseMultiplier
    steps: Steps

    @property
    def run(self) -> Phase:
        """The run as one phase."""
        return Phase(self.sample_rate, self.noise_multiplier, self.steps)


class EpsilonQuestion(RunQuestion):
    """Query for ε of a run with the given noise and number of steps."""

    delta: Delta = 1e-5
    sampling: Sampling = SAMPLINGS[0]
    sample_size: Records | None = Field(
        None, description="Number of records in the data."
    )
    max_batch_size: Records | None = Field(
        None, description="Maximum number of records in a batch."
    )

    @property
    def batches(self) -> Batches:
        """The sampling scheme of the batches.

        Raises:
            AccountingError: A required size is missing, or a given size has no effect.
        """
        return Batches(self.sampling, self.sample_size, self.max_batch_size)


class CurveQuestion(RunQuestion):
    """Query for ε along the steps."""

    delta: Delta = 1e-5
    points: Points = 200


class CurvesQuestion(Question):
    """Query for ε along the steps by every accountant."""

    sample_rate: SampleRate
    noise_multiplier: Annotated[
        float, parameter("noise_multiplier", NOISE_HELP, 1.1, gt=0)
    ]
    steps: SomeSteps
    delta: Delta = 1e-5
    points: int = Field(
        60, ge=2, le=MOST_RACE_POINTS, description="Number of points of each curve."
    )


class DeltaQuestion(RunQuestion):
    """Query for δ of a run at a given ε."""

    epsilon: float = parameter("epsilon", "ε of the guarantee.", 3.0)


class NoiseQuestion(PrivacyQuestion):
    """Query for the smallest noise multiplier within a target ε."""

    sample_rate: SampleRate
    steps: SomeSteps
    delta: Delta = 1e-5
    target_epsilon: TargetEpsilon


class StepsQuestion(PrivacyQuestion):
    """Query for the largest number of steps within a target ε."""

    sample_rate: SampleRate
    noise_multiplier: NoiseMultiplier
    delta: Delta = 1e-5
    target_epsilon: TargetEpsilon


class SampleRateQuestion(PrivacyQuestion):
    """Query for the largest sample rate within a target ε."""

    noise_multiplier: NoiseMultiplier
    steps: SomeSteps
    delta: Delta = 1e-5
    target_epsilon: TargetEpsilon


class TradeOffQuestion(RunQuestion):
    """Query for the trade-off curve of a run."""

    points: int = Field(
        41, ge=3, le=MOST_POINTS, description="Number of points of the curve."
    )


class SelectionQuestion(Question):
    """Query for ε of the best of a random number of runs."""

    sample_rate: SampleRate
    noise_multiplier: NoiseMultiplier
    steps: SomeSteps
    delta: Delta = 1e-5
    neighboring_relation: Relation = RELATIONS[0]
    mean_trials: float = Field(
        10, ge=1, le=MAX_TRIALS, description="Mean of the random number of runs."
    )
    shape: float = Field(
        1,
        ge=0,
        le=MAX_SHAPE,
        description="Shape of the distribution of the number of runs. 0: logarithmic, "
        "1: geometric.",
    )
    poisson: bool = Field(
        False,
        description="If true, the number of runs has a Poisson distribution, and shape "
        "has no effect.",
    )


class FilterQuestion(Question):
    """Query for the number of steps within an ε budget for adaptive runs."""

    target_epsilon: TargetEpsilon
    sample_rate: SampleRate
    noise_multiplier: NoiseMultiplier
    delta: Delta = 1e-5
    neighboring_relation: Relation = RELATIONS[0]


class PlanQuestion(TrainingConfig):
    """Query for the plan of a training configuration."""

    points: int | None = Field(
        None,
        ge=2,
        le=MOST_POINTS,
        description="Number of points of the curve of ε. If left out, no curve is "
        "returned.",
    )
    preliminary: bool = Field(
        False,
        description="If true, answers immediately, with few points. For a target the "
        "noise is then an upper bound of the noise that a run needs.",
    )

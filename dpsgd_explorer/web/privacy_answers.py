"""What the privacy routes are asked and what they answer.

Every epsilon travels with what it means: delta, the neighbouring relation, the
sampling scheme, the accountant and whether that gives a bound or an approximation.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from dpsgd_explorer.accounting import ACCOUNTANTS, round_up
from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.training.config import TrainingConfig

EPSILON_DIGITS = 4
MOST_STEPS = 10_000_000


def _known_accountant(name: str) -> str:
    if name not in ACCOUNTANTS:
        raise ConfigError(
            "accountant",
            f"accountant must be one of {', '.join(ACCOUNTANTS)}, got {name!r}.",
        )
    return name


SampleRate = Annotated[
    float, Field(gt=0, le=1, description="Poisson inclusion probability q of a step.")
]
NoiseMultiplier = Annotated[
    float,
    Field(ge=0, le=1e6, description="Noise std over the clipping bound; 0: none."),
]
Steps = Annotated[int, Field(ge=1, le=MOST_STEPS, description="Steps of the run.")]
Delta = Annotated[float, Field(gt=0, lt=1, description="Below one over N.")]
AccountantName = Annotated[
    str,
    AfterValidator(_known_accountant),
    Field(json_schema_extra={"enum": list(ACCOUNTANTS)}),
]


class PrivacyQuestion(BaseModel):
    """A Poisson-subsampled Gaussian, for a record that is added or removed."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    sample_rate: SampleRate
    steps: Steps
    delta: Delta = 1e-5
    accountant: AccountantName = "rdp"


class EpsilonQuestion(PrivacyQuestion):
    """What do so many steps with this noise spend?"""

    noise_multiplier: NoiseMultiplier


class CurveQuestion(EpsilonQuestion):
    """How does epsilon grow up to so many steps?"""

    points: int = Field(200, ge=2, le=1000, description="Points of the curve.")


class NoiseQuestion(PrivacyQuestion):
    """How much noise keeps so many steps within a target?"""

    target_epsilon: float = Field(gt=0, le=1000, description="What they may spend.")


class PlanQuestion(TrainingConfig):
    """What would this configuration spend?"""

    points: int | None = Field(
        None, ge=2, le=1000, description="Points of the curve of ε; none if left out."
    )


class PrivacyTerms(BaseModel):
    """What any epsilon beside it is to be read with."""

    delta: float
    neighboring_relation: Literal["add_or_remove_one"] = "add_or_remove_one"
    sampling: Literal["poisson"] = "poisson"
    accountant: str
    status: Literal["exact", "bound", "approximation"]

    @classmethod
    def of(cls, accountant: str, delta: float) -> PrivacyTerms:
        """Return the terms of an accountant's answers at delta."""
        status = ACCOUNTANTS[accountant].status
        return cls(delta=delta, accountant=accountant, status=status)


class Epsilon(PrivacyTerms):
    """One epsilon, rounded up; null and "∞" where there is no guarantee."""

    epsilon: float | None
    epsilon_text: str

    @classmethod
    def spent(cls, epsilon: float, accountant: str, delta: float) -> Epsilon:
        """Return the answer for the accountant's value, which may be infinite."""
        return cls(
            **PrivacyTerms.of(accountant, delta).model_dump(),
            epsilon=rounded(epsilon),
            epsilon_text=round_up(epsilon),
        )


class EpsilonAnswer(Epsilon):
    """Epsilon of a whole run, with the question repeated."""

    sample_rate: float
    noise_multiplier: float
    steps: int


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


class CurveAnswer(PrivacyTerms, Curve):
    """A curve with its terms and the question."""

    sample_rate: float
    noise_multiplier: float


class PlanAnswer(Epsilon):
    """What a configuration will do, before it is run.

    ``epsilon`` is what ``last_step`` steps spend: fewer than ``steps`` if
    ``stop_at_epsilon`` ends the run early.
    """

    private: bool
    sample_size: int
    expected_batch_size: int
    sample_rate: float
    noise_multiplier: float
    steps: int
    epochs: float
    last_step: int
    curve: Curve | None


def rounded(epsilon: float) -> float | None:
    """Return epsilon as a number that is not below it; None for infinity."""
    return None if math.isinf(epsilon) else float(round_up(epsilon, EPSILON_DIGITS))

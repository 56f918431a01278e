"""Settings of a run of noisy gradient descent on California housing.

Two of noise, steps and ε determine the spent budget; the third follows exactly.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from dpsgd_explorer.accounting.core.validation import MIN_DELTA
from dpsgd_explorer.errors import AccountingError, ConfigError
from dpsgd_explorer.experiments.california_housing import housing
from dpsgd_explorer.experiments.california_housing.descents import (
    DescentSpec,
    PreparedHousing,
)
from dpsgd_explorer.experiments.config import KIND_HELP, RunConfig, evenly_spent
from dpsgd_explorer.experiments.vocabulary import setting
from dpsgd_explorer.regression.bounds import Bounds
from dpsgd_explorer.regression.rates import RATES, RELEASED
from dpsgd_explorer.regression.spending import MAX_STEPS, rate_noise, schedule, spent

DEFAULT_NOISE = 500.0
DEFAULT_EPSILON = 2.0
LARGEST_RATE = 10.0
MOST_NOISE = 1e6
SPEND = ("noise_multiplier", "steps", "target_epsilon")
# Cost of a step, and per coordinate and repetition (its noise is drawn), in
# multiply-adds of a training run. Measured.
STEP_COST = 150_000
COORDINATE_COST = 200


class RegressionConfig(RunConfig):
    """Settings of one descent; every instance is valid.

    Two of ``noise_multiplier``, ``steps`` and ``target_epsilon`` are set; a missing
    one takes its default.
    """

    TO_COST_LESS: ClassVar[str] = "fewer repetitions or less noise"

    kind: Literal["regression"] = Field("regression", description=KIND_HELP)
    rows: str = setting("rows", "normalize", group="Data")
    x_bound: float = setting("x_bound", 1.0, group="Data", slider=False)
    y_bound: float = setting("y_bound", 5.0, group="Data")
    neighboring_relation: str = setting(
        "neighboring_relation",
        "add_or_remove_one",
        group="Privacy",
        help="Data sets that ε compares. Replacing one record needs √2 to 2 times the "
        "noise.",
    )
    delta: float = setting(
        "delta",
        1e-6,
        group="Privacy",
        slider=False,
        help=f"Additive term of (ε, δ)-DP; below one over N = {housing.SIZE:,}.",
        ge=MIN_DELTA,
        lt=1 / housing.SIZE,
    )
    target_epsilon: float | None = setting(
        "target_epsilon",
        None,
        group="Privacy",
        slider=False,
        help="Privacy loss ε of all steps together.",
    )
    noise_multiplier: float | None = setting(
        "noise_multiplier",
        None,
        group="Privacy",
        slider=False,
        label="Noise of a step",
        help="Standard deviation of the noise, in units of the gradient’s sensitivity.",
        gt=0,
        le=MOST_NOISE,
    )
    steps: int | None = setting(
        "steps",
        None,
        group="Descent",
        slider=False,
        help="Number of steps. Empty: the largest number that target and noise allow.",
        ge=1,
        le=MAX_STEPS,
    )
    learning_rate: float | str = setting(
        "learning_rate",
        RATES[0],
        group="Descent",
        slider=False,
        help="A number, or a rule. public: from public bounds. released: from a noisy "
        "λ_max that the same ε pays for. notebook: from λ_max of the private XᵀX, "
        "which is not private.",
        words=f"{', '.join(RATES)}; or above 0, at most {LARGEST_RATE:g}",
        gt=None,
        le=None,
    )
    rate_factor: float = setting("rate_factor", 1.0, group="Descent", slider=False)
    repetitions: int = setting(
        "repetitions", 20, group="Experiment", slider=False, symbol="R"
    )
    evaluations: int = setting(
        "evaluations",
        100,
        group="Experiment",
        slider=False,
        help="Number of points on the error curve, evenly spread over ε.",
    )
    seed: int = setting("seed", 0, group="Experiment", slider=False)

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, values: Any) -> Any:
        """Set noise and target to their defaults until two of the three are set."""
        if not isinstance(values, dict):
            return values
        filled = dict(values)
        defaults = {
            "target_epsilon": DEFAULT_EPSILON,
            "noise_multiplier": DEFAULT_NOISE,
        }
        for name, value in defaults.items():
            if sum(filled.get(setting) is not None for setting in SPEND) < 2:
                filled[name] = value if filled.get(name) is None else filled[name]
        return filled

    @field_validator("learning_rate", mode="before")
    @classmethod
    def _rate_is_known(cls, rate: object) -> object:
        is_number = isinstance(rate, int | float) and not isinstance(rate, bool)
        if rate in RATES or (is_number and 0 < float(str(rate)) <= LARGEST_RATE):
            return rate
        raise ConfigError(
            "learning_rate",
            f"learning_rate must be {', '.join(RATES)} or a number above 0 and at "
            f"most {LARGEST_RATE:g}, got {rate!r}.",
        )

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if all(getattr(self, name) is not None for name in SPEND):
            raise ConfigError(
                "steps",
                f"give two of {', '.join(SPEND)}, not all: the third follows.",
            )
        try:
            self.schedule  # noqa: B018  raises if the values do not fit together
        except AccountingError as error:
            raise ConfigError(error.field or "target_epsilon", str(error)) from error
        return self

    @cached_property
    def schedule(self) -> tuple[float, int]:
        """Noise multiplier and number of steps."""
        return schedule(
            self.noise_multiplier,
            self.steps,
            self.target_epsilon,
            self.delta,
            releases_rate=self.learning_rate == RELEASED,
        )

    @property
    def rate_noise_multiplier(self) -> float | None:
        """Noise multiplier of the released learning rate; None if none is released."""
        return rate_noise(*self.schedule) if self.learning_rate == RELEASED else None

    def spent(self, steps: int) -> float:
        """Return the exact ε after ``steps`` steps, including a released rate."""
        noise = self.schedule[0]
        return spent(noise, steps, self.delta, self.rate_noise_multiplier)

    @property
    def planned_steps(self) -> int:
        """Steps of the run."""
        return self.schedule[1]

    @property
    def length_setting(self) -> str:
        """Name of the setting that determines the length of the run."""
        return "steps"

    @property
    def cost(self) -> float:
        """Time of all steps, in multiply-adds of a training run."""
        coordinates = self.repetitions * len(housing.FEATURES)
        one_step = STEP_COST + COORDINATE_COST * coordinates
        return float(self.planned_steps * one_step)

    @property
    def epsilon(self) -> float:
        """The exact ε of all steps, never above the target."""
        return self.spent(self.planned_steps)

    @property
    def uses_private_rate(self) -> bool:
        """If True, the learning rate is computed from the data, outside of ε."""
        return self.learning_rate == "notebook"

    @property
    def prepared_housing(self) -> PreparedHousing:
        """The data, preprocessed to their bounds."""
        return PreparedHousing(self.rows, self.x_bound, self.y_bound)

    @property
    def spec(self) -> DescentSpec:
        """The descent without δ, which its errors do not depend on."""
        noise, steps = self.schedule
        return DescentSpec(
            prepared_housing=self.prepared_housing,
            neighboring_relation=self.neighboring_relation,
            noise_multiplier=noise,
            steps=steps,
            rate=self.learning_rate,
            rate_factor=self.rate_factor,
            repetitions=self.repetitions,
            seed=self.seed,
        )

    @property
    def bounds(self) -> Bounds:
        """Public bounds of the records."""
        return self.spec.bounds

    @property
    def evaluation_steps(self) -> list[int]:
        """Steps after which the error is measured, evenly spread over ε."""
        return evenly_spent(self.planned_steps, self.evaluations)

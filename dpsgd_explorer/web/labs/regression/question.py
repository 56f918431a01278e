"""Settings of the linear regression lab: their domains and their form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, Self

from pydantic import model_validator

from dpsgd_explorer.accounting.core.validation import MIN_DELTA
from dpsgd_explorer.errors import AccountingError, ConfigError
from dpsgd_explorer.experiments.california_housing import housing
from dpsgd_explorer.experiments.california_housing.descents import (
    LONGEST,
    DescentSpec,
    PreparedHousing,
)
from dpsgd_explorer.experiments.fields.setting import Setting
from dpsgd_explorer.experiments.regression_config import (
    LARGEST_RATE,
    MOST_NOISE,
    RegressionConfig,
)
from dpsgd_explorer.experiments.vocabulary import setting
from dpsgd_explorer.regression.bounds import Bounds
from dpsgd_explorer.regression.perturbation import RIDGE_FACTOR, Perturbation
from dpsgd_explorer.regression.rates import RATES, RELEASED
from dpsgd_explorer.regression.spending import (
    rate_noise,
    schedule,
    spent,
    steps_within,
)
from dpsgd_explorer.web.questions.question import Question

TOP_EPSILON = 2.0  # end of the ε axis, as in the notebook
SOLVABLE = {"steps": "steps", "noise_multiplier": "noise σ", "target_epsilon": "ε"}
SHORT_REPETITIONS, LONG_REPETITIONS = 100, 20  # repetitions of a descent
METHODS = {"adassp": "AdaSSP", "ssp": "SSP"}
FEATURES = dict(zip(housing.FEATURES, housing.FEATURES, strict=True))
PRIVACY, DATA, STATISTICS = "Privacy", "Bounds", "Noisy statistics"
DESCENT, EXPERIMENT = "Noisy gradient descent", "Experiment"


def solved_for(values: Mapping[str, object]) -> object:
    """Return the setting to solve for; in old addresses with steps it is ε."""
    solve = values.get("solve")
    if solve not in (None, ""):
        return solve
    return "target_epsilon" if values.get("steps") not in (None, "") else "steps"


class RegressionQuestion(Question):
    """How accurate are private linear regressions on California housing?"""

    epsilon: float = setting(
        "epsilon",
        0.5,
        group=PRIVACY,
        help="Budget of the cloud, the bar and the sentences.",
        marks=(0.1, 0.2, 0.5, 1, 2),
        ends=("more privacy", "less error"),
        gt=0,
        le=TOP_EPSILON,
    )
    variant: str = Setting(
        label="Spending",
        help="Notebook: full noise outside the diagonal, and λ_min released. Tight: "
        "neither.",
        choices={"tight": "tight", "notebook": "the notebook"},
    ).field("tight", PRIVACY)
    delta: float = setting(
        "delta",
        1e-6,
        group=PRIVACY,
        slider=False,
        help=f"Below 1 / {housing.SIZE:,}.",
        ge=MIN_DELTA,
        lt=1 / housing.SIZE,
    )
    neighboring_relation: str = setting(
        "neighboring_relation",
        "add_or_remove_one",
        group=PRIVACY,
        help="Replacing costs √2 to 2 times the noise.",
    )
    rows: str = setting(
        "rows",
        "normalize",
        group=DATA,
        help="Features are divided by fixed ranges first; then each row is brought "
        "to norm B, or only clipped to it.",
    )
    x_bound: float = setting(
        "x_bound",
        1.0,
        group=DATA,
        help="Clipped rows keep norms up to B; a B above the largest norm only adds "
        "noise.",
        ge=1e-6,  # the square of a much smaller value underflows
    )
    y_bound: float = setting(
        "y_bound",
        5.0,
        group=DATA,
        help="A lower bound cuts high house values, and needs less noise.",
    )
    method: str = Setting(
        label="Method",
        help="Method whose cloud and bar are drawn. Both methods use the same noisy "
        "statistics.",
        choices=METHODS,
    ).field("adassp", STATISTICS)
    ridge: float = Setting(
        label="Ridge of SSP",
        symbol="λ",
        help="Added to the diagonal of XᵀX; 0 in the notebook.",
        ge=0,
        le=1e6,
    ).field(0.0, STATISTICS)
    ridge_factor: float = Setting(
        label="Ridge factor of AdaSSP",
        symbol="c",
        help="λ = c √d σ₁, the size of the noise. A heuristic, no confidence bound.",
        ge=0,
        le=100,
    ).field(RIDGE_FACTOR, STATISTICS)
    solve: str = Setting(
        label="Solve for",
        help="The other two stay as they are.",
        choices=SOLVABLE,
    ).field("steps", DESCENT)
    target_epsilon: float = setting(
        "target_epsilon",
        TOP_EPSILON,
        group=DESCENT,
        help="Maximum ε of all steps together.",
        marks=(0.25, 0.5, 1, 2, 4),
        ends=("more privacy", "less error"),
        ge=0.01,
        le=100,
    )
    noise_multiplier: float = setting(
        "noise_multiplier",
        50.0,
        group=DESCENT,
        label="Noise of a step",
        help="More noise per step allows more steps: their number grows as σ².",
        marks=(10, 50, 100, 500),
        ends=None,
        step=None,
        ge=1,
        le=1000,
    )
    steps: int | None = setting(
        "steps",
        None,
        group=DESCENT,
        slider=False,
        help="Each step uses all records.",
        ge=1,
        le=LONGEST,
    )
    rate: str = Setting(
        label="Learning rate",
        help="From public bounds; from a noisy λ_max that uses part of the same ε; "
        "or, as in the notebook, from λ_max of the private XᵀX, which is not "
        "private.",
        choices={
            "public": "from public bounds",
            RELEASED: "from a released λ_max",
            "notebook": "the notebook’s",
        },
    ).field(RATES[0], DESCENT)
    learning_rate: float | None = setting(
        "learning_rate",
        None,
        group=DESCENT,
        slider=False,
        label="Own rate",
        help="Your own learning rate. Empty: as selected above.",
        le=LARGEST_RATE,
    )
    rate_factor: float = setting(
        "rate_factor",
        1.0,
        group=DESCENT,
        help="Multiplies the rate. The chart also shows 10 times and 0.1 times this "
        "rate.",
        ge=1e-3,
        le=1e3,
    )
    first: str = Setting(
        label="Horizontal axis",
        help="Coefficient across the cloud.",
        choices=FEATURES,
    ).field("MedInc", EXPERIMENT)
    second: str = Setting(
        label="Vertical axis",
        help="Coefficient up the cloud.",
        choices=FEATURES,
    ).field("HouseAge", EXPERIMENT)
    repetitions: int = setting(
        "repetitions",
        100,
        group=EXPERIMENT,
        help="Number of releases at each ε. The chart shows their median and band.",
        ge=20,
        le=200,
    )
    seed: int = setting(
        "seed", 0, group=EXPERIMENT, help="Another seed draws other noise.", step=None
    )

    @model_validator(mode="before")
    @classmethod
    def _leave_out_what_is_solved_for(cls, values: Any) -> Any:
        """Drop the setting that is solved for: the text in its box is no input."""
        if not isinstance(values, dict):
            return values
        solve = solved_for(values)
        inputs = {name: value for name, value in values.items() if name != solve}
        return inputs | {"solve": solve}

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        """Reject equal axes and impossible descents."""
        if self.first == self.second:
            raise ConfigError(
                "second",
                "second must be a different feature than first, got the same feature.",
            )
        if self.steps is None and self.solve != "steps":
            raise ConfigError(
                "steps", f"steps must be given to solve for {SOLVABLE[self.solve]}."
            )
        try:
            noise, steps = self.schedule
        except AccountingError as error:
            raise ConfigError(error.field or "target_epsilon", str(error)) from error
        if steps > LONGEST:
            raise ConfigError(
                "noise_multiplier",
                f"noise_multiplier must leave at most {LONGEST:,} steps within "
                f"ε = {self.target_epsilon:g}, got {noise:g}. Lower it, or solve for "
                "something else.",
            )
        if noise > MOST_NOISE:
            raise ConfigError(
                "target_epsilon",
                f"target_epsilon must be reached with noise of at most {MOST_NOISE:g}, "
                f"got {self.target_epsilon:g}, which needs {noise:.3g}. Raise it, or "
                "use fewer steps.",
            )
        return self

    @property
    def prepared_housing(self) -> PreparedHousing:
        """The data, preprocessed to their bounds."""
        return PreparedHousing(self.rows, self.x_bound, self.y_bound)

    @property
    def given(self) -> dict[str, float | int | None]:
        """The two of noise, steps and target that are inputs."""
        return {name: getattr(self, name) for name in SOLVABLE if name != self.solve}

    @cached_property
    def schedule(self) -> tuple[float, int]:
        """Noise multiplier and number of steps of the descent.

        Raises:
            ConfigError: the target does not allow a single step.
            AccountingError: one of the two inputs is outside its domain.
        """
        inputs = dict.fromkeys(SOLVABLE) | self.given
        return schedule(
            inputs["noise_multiplier"],
            None if inputs["steps"] is None else int(inputs["steps"]),
            inputs["target_epsilon"],
            self.delta,
            releases_rate=self.releases_rate,
        )

    @property
    def releases_rate(self) -> bool:
        """If True, the learning rate is released from the budget of the descent."""
        return self.chosen_rate == RELEASED

    @property
    def chosen_rate(self) -> float | str:
        """The learning rate as a number, or the rule that determines it."""
        return self.learning_rate or self.rate

    @property
    def planned_steps(self) -> int:
        """Steps of the descent."""
        return self.schedule[1]

    @property
    def descent_epsilon(self) -> float:
        """The exact ε of the whole descent, including a released rate."""
        noise, steps = self.schedule
        rate = rate_noise(noise, steps) if self.releases_rate else None
        return spent(noise, steps, self.delta, rate)

    def perturbation(self, method: str, variant: str | None = None) -> Perturbation:
        """Return SSP or AdaSSP with the given settings."""
        bounds = Bounds(self.x_bound, self.y_bound, self.neighboring_relation)
        return Perturbation(
            method=method,
            bounds=bounds,
            variant=variant or self.variant,
            ridge=self.ridge,
            ridge_factor=self.ridge_factor,
        )

    def descent_spec(self, factor: float = 1.0) -> DescentSpec:
        """Return the descent with the given settings, its rate times ``factor``."""
        return self._spec(self.schedule, factor)

    def regime_spec(self, noise_multiplier: float) -> DescentSpec:
        """Return a descent with this noise that ends at the end of the ε axis."""
        steps = steps_within(
            TOP_EPSILON, noise_multiplier, self.delta, self.releases_rate
        )
        return self._spec((noise_multiplier, steps), 1.0)

    def _spec(self, schedule: tuple[float, int], factor: float) -> DescentSpec:
        noise, steps = schedule
        spec = DescentSpec(
            prepared_housing=self.prepared_housing,
            neighboring_relation=self.neighboring_relation,
            noise_multiplier=noise,
            steps=steps,
            rate=self.chosen_rate,
            rate_factor=float(f"{self.rate_factor * factor:.9g}"),
            repetitions=SHORT_REPETITIONS,
            seed=self.seed,
        )
        return spec if spec.is_at_hand else replace(spec, repetitions=LONG_REPETITIONS)

    @property
    def run(self) -> RegressionConfig:
        """The descent as a run, with equal draws and so equal errors."""
        spec = self.descent_spec()
        shared = set(type(self).model_fields) & set(RegressionConfig.model_fields)
        described = {
            "learning_rate": spec.rate,
            "rate_factor": spec.rate_factor,
            "repetitions": spec.repetitions,
        }
        settings = self.model_dump(include=shared - SOLVABLE.keys())
        return RegressionConfig(**settings | self.given | described)

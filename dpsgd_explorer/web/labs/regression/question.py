"""Settings of the linear regression lab: their domains and their form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, Self

from pydantic import model_validator

from dpsgd_explorer.errors import ConfigError
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
from dpsgd_explorer.regression.perturbation import RIDGE_FACTOR, Perturbation
from dpsgd_explorer.regression.rates import RATES, RELEASED
from dpsgd_explorer.web.questions.question import Question

TOP_EPSILON = 2.0  # end of the ε axis, as in the notebook
SOLVABLE = {"steps": "steps", "noise_multiplier": "noise σ", "target_epsilon": "ε"}
SHORT_REPETITIONS, LONG_REPETITIONS = 100, 20  # repetitions of a descent
METHODS = {"adassp": "AdaSSP", "ssp": "SSP"}
FEATURES = dict(zip(housing.FEATURES, housing.FEATURES, strict=True))
PRIVACY, DATA, EXPERIMENT = "Privacy", "Data", "Experiment"  # as in the run's settings
STATISTICS, DESCENT = "Noisy statistics", "Noisy gradient descent"
#: Settings that a run of the descent has too.
SHARED: dict[str, Any] = RegressionConfig.model_fields


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
        gt=0,
        le=TOP_EPSILON,
    )
    variant: str = Setting(
        label="Spending",
        help="Notebook: full noise outside the diagonal, and λ_min released. Tight: "
        "neither.",
        choices={"tight": "tight", "notebook": "the notebook"},
    ).field("tight", PRIVACY)
    delta: float = SHARED["delta"]
    neighboring_relation: str = SHARED["neighboring_relation"]
    rows: str = SHARED["rows"]
    x_bound: float = setting(
        "x_bound",
        1.0,
        group=DATA,
        help="Clipped rows keep norms up to B; a B above the largest norm only adds "
        "noise.",
        ge=1e-6,  # the square of a much smaller value underflows
    )
    y_bound: float = SHARED["y_bound"]
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
        label="Solve for", help="The other two stay as they are.", choices=SOLVABLE
    ).field("steps", DESCENT)
    target_epsilon: float = setting(
        "target_epsilon",
        TOP_EPSILON,
        group=DESCENT,
        help="Maximum ε of all steps together.",
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
        label="Horizontal axis", help="Coefficient across the cloud.", choices=FEATURES
    ).field("MedInc", EXPERIMENT)
    second: str = Setting(
        label="Vertical axis", help="Coefficient up the cloud.", choices=FEATURES
    ).field("HouseAge", EXPERIMENT)
    repetitions: int = setting(
        "repetitions",
        100,
        group=EXPERIMENT,
        help="Number of releases at each ε. The chart shows their median and band.",
        ge=20,
        le=200,
    )
    seed: int = SHARED["seed"]

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
        noise, steps = self.run.schedule
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

    @cached_property
    def run(self) -> RegressionConfig:
        """The descent as a run, with equal draws and so equal errors.

        Raises:
            ConfigError: no descent has these settings.
        """
        shared = set(type(self).model_fields) & set(RegressionConfig.model_fields)
        settings = self.model_dump(include=shared - {self.solve, "repetitions"})
        run = RegressionConfig.parse(settings | {"learning_rate": self.chosen_rate})
        repetitions = affordable(run.spec).repetitions
        return run.model_copy(update={"repetitions": repetitions})

    @property
    def prepared_housing(self) -> PreparedHousing:
        """The data, preprocessed to their bounds."""
        return self.run.prepared_housing

    @property
    def chosen_rate(self) -> float | str:
        """The learning rate as a number, or the rule that determines it."""
        return self.learning_rate or self.rate

    def perturbation(self, method: str, variant: str | None = None) -> Perturbation:
        """Return SSP or AdaSSP with the given settings."""
        return Perturbation(
            method=method,
            bounds=self.run.bounds,
            variant=variant or self.variant,
            ridge=self.ridge,
            ridge_factor=self.ridge_factor,
        )


def affordable(spec: DescentSpec) -> DescentSpec:
    """Return a descent with as many repetitions as can be computed for a page."""
    often = replace(spec, repetitions=SHORT_REPETITIONS)
    return often if often.is_at_hand else replace(spec, repetitions=LONG_REPETITIONS)

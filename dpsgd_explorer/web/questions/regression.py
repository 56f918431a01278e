"""What the linear-regression lab can be asked: its settings, their domains and form."""

from __future__ import annotations

from dataclasses import replace
from typing import Self

from pydantic import model_validator

from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.experiments.regression_config import LARGEST_RATE, RegressionConfig
from dpsgd_explorer.experiments.setting import Setting
from dpsgd_explorer.experiments.vocabulary import setting
from dpsgd_explorer.regression import housing
from dpsgd_explorer.regression.bounds import Bounds
from dpsgd_explorer.regression.descents import LONGEST, DescentSpec, PreparedHousing
from dpsgd_explorer.regression.noisy_gd import RATES, steps_within
from dpsgd_explorer.regression.perturbation import RIDGE_FACTOR, Perturbation
from dpsgd_explorer.web.questions.question import Question

TOP_EPSILON = 2.0  # where the axis of ε ends, as in the notebook
SHORT_REPETITIONS, LONG_REPETITIONS = 100, 20  # repetitions of a descent
METHODS = {"adassp": "AdaSSP", "ssp": "SSP"}
FEATURES = dict(zip(housing.FEATURES, housing.FEATURES, strict=True))
PRIVACY, DATA, STATISTICS = "Privacy", "Bounds", "Noisy statistics"
DESCENT, EXPERIMENT = "Noisy gradient descent", "Experiment"


class RegressionQuestion(Question):
    """How do the private linear regressions fare on California housing?"""

    epsilon: float = setting(
        "epsilon",
        0.5,
        group=PRIVACY,
        help="The budget that the cloud, the bar and the sentences are about.",
        marks=(0.1, 0.2, 0.5, 1, 2),
        ends=("more privacy", "less error"),
        gt=0,
        le=TOP_EPSILON,
    )
    variant: str = Setting(
        label="Spending",
        help="Notebook: full noise beside the diagonal, and λ_min released. Tight: "
        "neither.",
        choices={"tight": "tight", "notebook": "the notebook"},
    ).field("tight", PRIVACY)
    delta: float = setting(
        "delta",
        1e-6,
        group=PRIVACY,
        slider=False,
        help=f"Below 1 / {housing.SIZE:,}.",
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
        help="Features are divided by fixed ranges first; then each row is brought to "
        "norm B, or only shortened to it.",
    )
    x_bound: float = setting(
        "x_bound",
        1.0,
        group=DATA,
        help="Clipped rows keep their length up to B; beyond the longest of them a "
        "larger B only adds noise.",
        ge=1e-6,  # of a much smaller one not even the square is a number
    )
    y_bound: float = setting(
        "y_bound",
        5.0,
        group=DATA,
        help="A lower bound cuts high house values, and needs less noise.",
    )
    method: str = Setting(
        label="Method",
        help="Whose cloud and bar are drawn. Released from the same noisy statistics.",
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
        help="λ = c √d σ₁: what drowns the noise. A choice, no confidence bound.",
        ge=0,
        le=100,
    ).field(RIDGE_FACTOR, STATISTICS)
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
        help="Empty: as many as ε = 2 allows.",
        ge=1,
        le=LONGEST,
    )
    rate: str = Setting(
        label="Learning rate",
        help="From public bounds, or the notebook’s, which uses λ_max of the private "
        "XᵀX and so is not private.",
        choices={"public": "from public bounds", "notebook": "the notebook’s"},
    ).field(RATES[0], DESCENT)
    learning_rate: float | None = setting(
        "learning_rate",
        None,
        group=DESCENT,
        slider=False,
        label="Own rate",
        help="A learning rate of your own; empty: as chosen above.",
        le=LARGEST_RATE,
    )
    rate_factor: float = setting(
        "rate_factor",
        1.0,
        group=DESCENT,
        help="Multiplies the rate; 10 and 0.1 times it stand beside it in the chart.",
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
        help="Releases at each ε of which median and band are shown.",
        ge=20,
        le=200,
    )
    seed: int = setting(
        "seed", 0, group=EXPERIMENT, help="Another one draws other noise.", step=None
    )

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        """Refuse equal axes, and noise that leaves no step."""
        if self.first == self.second:
            raise ConfigError(
                "second", "second must be another feature than first, got the same."
            )
        if self.planned_steps > LONGEST:
            raise ConfigError(
                "noise_multiplier",
                f"noise_multiplier must leave at most {LONGEST:,} steps within "
                f"ε = {TOP_EPSILON:g}, got {self.noise_multiplier:g}. Lower it, or "
                "state the steps.",
            )
        return self

    @property
    def prepared_housing(self) -> PreparedHousing:
        """The data within their bounds."""
        return PreparedHousing(self.rows, self.x_bound, self.y_bound)

    @property
    def planned_steps(self) -> int:
        """Steps of the descent."""
        if self.steps is not None:
            return self.steps
        return steps_within(TOP_EPSILON, self.noise_multiplier, self.delta)

    def perturbation(self, method: str, variant: str | None = None) -> Perturbation:
        """Return SSP or AdaSSP as it is set."""
        bounds = Bounds(self.x_bound, self.y_bound, self.neighboring_relation)
        return Perturbation(
            method=method,
            bounds=bounds,
            variant=variant or self.variant,
            ridge=self.ridge,
            ridge_factor=self.ridge_factor,
        )

    def descent_spec(self, factor: float = 1.0) -> DescentSpec:
        """Return the descent as it is set, its rate times ``factor``."""
        spec = DescentSpec(
            prepared_housing=self.prepared_housing,
            neighboring_relation=self.neighboring_relation,
            noise_multiplier=self.noise_multiplier,
            steps=self.planned_steps,
            rate=self.learning_rate or self.rate,
            rate_factor=float(f"{self.rate_factor * factor:.9g}"),
            repetitions=SHORT_REPETITIONS,
            seed=self.seed,
        )
        return spec if spec.is_at_hand else replace(spec, repetitions=LONG_REPETITIONS)

    @property
    def run(self) -> RegressionConfig:
        """The descent as a run: the same draws, so the same errors."""
        spec = self.descent_spec()
        shared = set(type(self).model_fields) & set(RegressionConfig.model_fields)
        described = {
            "steps": spec.steps,
            "learning_rate": spec.rate,
            "rate_factor": spec.rate_factor,
            "repetitions": spec.repetitions,
        }
        return RegressionConfig(**self.model_dump(include=shared) | described)

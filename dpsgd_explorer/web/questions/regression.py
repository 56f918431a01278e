"""What the linear-regression lab can be asked: its settings, their domains and form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pydantic import BaseModel, ConfigDict

from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.experiments.config import LARGEST_SEED, setting
from dpsgd_explorer.experiments.regression_config import LARGEST_RATE, RegressionConfig
from dpsgd_explorer.regression import housing
from dpsgd_explorer.regression.bounds import Bounds
from dpsgd_explorer.regression.checks import RELATIONS
from dpsgd_explorer.regression.descents import LONGEST, Ground, Walk
from dpsgd_explorer.regression.noisy_gd import RATES, steps_within
from dpsgd_explorer.regression.perturbation import RIDGE_FACTOR, Perturbation
from dpsgd_explorer.web.forms.form import Form, FormField
from dpsgd_explorer.web.forms.lab_form import lab_fields, read_lab

TOP_EPSILON = 2.0  # where the axis of ε ends, as in the notebook
SHORT_WALKS, LONG_WALKS = 100, 20  # repetitions of a descent
METHODS = {"adassp": "AdaSSP", "ssp": "SSP"}
FEATURES = dict(zip(housing.FEATURES, housing.FEATURES, strict=True))
PRIVACY, DATA, STATISTICS = "Privacy", "Bounds", "Noisy statistics"
DESCENT, EXPERIMENT = "Noisy gradient descent", "Experiment"


class RegressionQuestion(BaseModel):
    """How do the private linear regressions fare on California housing?"""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    epsilon: float = setting(
        0.5,
        label="Budget",
        symbol="ε",
        help="The budget that the cloud, the bar and the sentences are about.",
        group=PRIVACY,
        marks=(0.1, 0.2, 0.5, 1, 2),
        ends=("more privacy", "less error"),
        gt=0,
        le=TOP_EPSILON,
    )
    variant: str = setting(
        "tight",
        label="Spending",
        help="Notebook: full noise beside the diagonal, and λ_min released. Tight: "
        "neither.",
        group=PRIVACY,
        choices={"tight": "tight", "notebook": "the notebook"},
    )
    delta: float = setting(
        1e-6,
        label="Delta",
        symbol="δ",
        help=f"Below 1 / {housing.SIZE:,}.",
        group=PRIVACY,
        gt=0,
        lt=1 / housing.SIZE,
    )
    neighboring_relation: str = setting(
        RELATIONS[0],
        label="Neighbours",
        help="Replacing costs √2 to 2 times the noise.",
        group=PRIVACY,
        choices={RELATIONS[0]: "one record more or less", RELATIONS[1]: "one replaced"},
    )
    rows: str = setting(
        "normalize",
        label="Rows",
        help="Features are divided by fixed ranges first; then each row is brought to "
        "norm B, or only shortened to it.",
        group=DATA,
        choices={"normalize": "brought to norm B", "clip": "clipped at norm B"},
    )
    x_bound: float = setting(
        1.0,
        label="Row bound",
        symbol="B",
        help="Clipped rows keep their length up to B; beyond the longest of them a "
        "larger B only adds noise.",
        group=DATA,
        marks=(0.5, 1, 2, 4),
        ge=1e-6,  # of a much smaller one not even the square is a number
        le=100,
    )
    y_bound: float = setting(
        5.0,
        label="Label bound",
        symbol="Y",
        help="A lower bound cuts high house values, and needs less noise.",
        group=DATA,
        marks=(1, 2, 5, 10),
        ends=("bias", "noise"),
        gt=0,
        le=1000,
    )
    method: str = setting(
        "adassp",
        label="Method",
        help="Whose cloud and bar are drawn. Released from the same noisy statistics.",
        group=STATISTICS,
        choices=METHODS,
    )
    ridge: float = setting(
        0.0,
        label="Ridge of SSP",
        symbol="λ",
        help="Added to the diagonal of XᵀX; 0 in the notebook.",
        group=STATISTICS,
        ge=0,
        le=1e6,
    )
    ridge_factor: float = setting(
        RIDGE_FACTOR,
        label="Ridge factor of AdaSSP",
        symbol="c",
        help="λ = c √d σ₁: what drowns the noise. A choice, no confidence bound.",
        group=STATISTICS,
        ge=0,
        le=100,
    )
    noise_multiplier: float = setting(
        50.0,
        label="Noise of a step",
        symbol="σ",
        help="More noise a step allows more steps: their number grows as σ².",
        group=DESCENT,
        marks=(10, 50, 100, 500),
        ge=1,
        le=1000,
    )
    steps: int | None = setting(
        None,
        label="Steps",
        symbol="T",
        help="Empty: as many as ε = 2 allows.",
        group=DESCENT,
        ge=1,
        le=LONGEST,
    )
    rate: str = setting(
        RATES[0],
        label="Learning rate",
        help="From public bounds, or the notebook’s, which uses λ_max of the private "
        "XᵀX and so is not private.",
        group=DESCENT,
        choices={"public": "from public bounds", "notebook": "the notebook’s"},
    )
    learning_rate: float | None = setting(
        None,
        label="Own rate",
        symbol="η",
        help="A learning rate of your own; empty: as chosen above.",
        group=DESCENT,
        gt=0,
        le=LARGEST_RATE,
    )
    rate_factor: float = setting(
        1.0,
        label="Rate factor",
        help="Multiplies the rate; 10 and 0.1 times it stand beside it in the chart.",
        group=DESCENT,
        marks=(0.01, 0.1, 1, 10),
        ge=1e-3,
        le=1e3,
    )
    first: str = setting(
        "MedInc",
        label="Horizontal axis",
        help="Coefficient across the cloud.",
        group=EXPERIMENT,
        choices=FEATURES,
    )
    second: str = setting(
        "HouseAge",
        label="Vertical axis",
        help="Coefficient up the cloud.",
        group=EXPERIMENT,
        choices=FEATURES,
    )
    repetitions: int = setting(
        100,
        label="Repetitions",
        help="Releases at each ε of which median and band are shown.",
        group=EXPERIMENT,
        marks=(20, 50, 100, 200),
        ge=20,
        le=200,
    )
    seed: int = setting(
        0,
        label="Seed",
        help="Another one draws other noise.",
        group=EXPERIMENT,
        ge=0,
        le=LARGEST_SEED,
    )

    def model_post_init(self, _context: Any) -> None:
        """Refuse words that are no choice, and noise that leaves no step."""
        for name, ask in form_fields().items():
            value = getattr(self, name)
            if ask.choices and value not in ask.choices:
                known = ", ".join(ask.choices)
                raise ConfigError(
                    name, f"{name} must be one of {known}; got {value!r}."
                )
        if self.first == self.second:
            raise ConfigError(
                "second", "second must be another feature than first, got the same."
            )
        if self.walked > LONGEST:
            raise ConfigError(
                "noise_multiplier",
                f"noise_multiplier must leave at most {LONGEST:,} steps within "
                f"ε = {TOP_EPSILON:g}, got {self.noise_multiplier:g}. Lower it, or "
                "state the steps.",
            )

    @property
    def ground(self) -> Ground:
        """The data within their bounds."""
        return Ground(self.rows, self.x_bound, self.y_bound)

    @property
    def walked(self) -> int:
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

    def walk(self, factor: float = 1.0) -> Walk:
        """Return the descent as it is set, its rate times ``factor``."""
        walk = Walk(
            ground=self.ground,
            neighboring_relation=self.neighboring_relation,
            noise_multiplier=self.noise_multiplier,
            steps=self.walked,
            rate=self.learning_rate or self.rate,
            rate_factor=float(f"{self.rate_factor * factor:.9g}"),
            repetitions=SHORT_WALKS,
            seed=self.seed,
        )
        return walk if walk.is_at_hand else replace(walk, repetitions=LONG_WALKS)

    @property
    def run(self) -> RegressionConfig:
        """The descent as a run: the same draws, so the same errors."""
        walk = self.walk()
        return RegressionConfig(
            rows=self.rows,
            x_bound=self.x_bound,
            y_bound=self.y_bound,
            neighboring_relation=self.neighboring_relation,
            delta=self.delta,
            noise_multiplier=walk.noise_multiplier,
            steps=walk.steps,
            learning_rate=walk.rate,
            rate_factor=walk.rate_factor,
            repetitions=walk.repetitions,
            seed=self.seed,
        )


def form_fields() -> dict[str, FormField]:
    """Return the settings as the page asks for them."""
    return lab_fields(RegressionQuestion)


def form_groups() -> dict[str, list[FormField]]:
    """Return the settings under their headings."""
    groups: dict[str, list[FormField]] = {}
    for ask in form_fields().values():
        groups.setdefault(ask.group, []).append(ask)
    return groups


def read_question(
    query: Mapping[str, str],
) -> tuple[Form, RegressionQuestion | None]:
    """Read an address; whatever is wrong with it, everything typed is kept."""
    return read_lab(RegressionQuestion, query)

"""Settings of a training run.

Every instance is valid; nothing downstream checks it again.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from dpsgd_explorer.accounting import FilteredRun, Plan, ToeplitzStrategy
from dpsgd_explorer.accounting.epochs import slots_of, steps_of
from dpsgd_explorer.accounting.sampling_schemes import (
    NO_CANARIES,
    POISSON,
    RANDOM_ALLOCATION,
)
from dpsgd_explorer.accounting.schedules import Schedule
from dpsgd_explorer.accounting.spending import Spending
from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.experiments import mid_run, own_table
from dpsgd_explorer.experiments.accountant_words import CYCLIC_POISSON
from dpsgd_explorer.experiments.architecture import (
    FULL,
    MOST_PARAMETERS,
    Layer,
    heads_of,
    layers_of,
    one_style,
    trained_layers,
    widths_of,
)
from dpsgd_explorer.experiments.catalogue import DATA_SETS, MODELS, DataSet
from dpsgd_explorer.experiments.config import (
    KIND_HELP,
    RunConfig,
    check_pair,
    evenly_spent,
)
from dpsgd_explorer.experiments.fields.setting import check_choices
from dpsgd_explorer.experiments.noise_correlation import (
    MOST_BANDS,
    check_bands,
    strategy_of,
)
from dpsgd_explorer.experiments.own_table import OwnTable
from dpsgd_explorer.experiments.schedules import (
    ADAPTIVE,
    CONSTANT,
    schedule,
    staged,
)
from dpsgd_explorer.experiments.vocabulary import setting

CACHED_PLANS = 256
DEFAULT_STEPS = 300
DEFAULT_EPSILON = 3.0
# A training step is a forward pass, a backward pass for the layers' outputs, and a
# weighted contraction for the parameters; each costs about as much as a forward pass.
PASSES = 3
# Additional cost of an engine per record, in multiply-adds.  Measured.
COST_PER_RECORD = {"microbatch": 6e6}
# The engine that stores the gradients of all records, and its memory limit.
HOLDS_GRADIENTS = "vmap"
MOST_HELD_BYTES = 2**30
# Layers without a rule in torch.func.vmap, so the engine rejects them.
NOT_MAPPED = frozenset({"LSTM"})
#: Defaults of other settings, by the setting and the value that change them.
DEFAULTS_OF: dict[str, dict[str, dict[str, Any]]] = {
    "sampling": {RANDOM_ALLOCATION: {"audit": 0}},
    "noise_bands": {str(bands): {"audit": 0} for bands in range(2, MOST_BANDS + 1)},
}


class TrainingConfig(RunConfig):
    """Settings of one training run; every instance is valid.

    Exactly one of ``steps`` and ``epochs``, and one of ``noise_multiplier`` and
    ``target_epsilon``, is set; a pair without a value takes its default.
    """

    TO_COST_LESS: ClassVar[str] = "a smaller expected_batch_size or a smaller model"

    kind: Literal["training"] = Field("training", description=KIND_HELP)
    dataset: str = setting("dataset", "mnist", group="Data and model")
    table: OwnTable | None = Field(
        None,
        title="Own table",
        description="Schema of your own table, if dataset is the name of one.",
        json_schema_extra={"domain": "set by the site from the tables of its visitor"},
    )
    model: str = setting("model", "scattering_linear", group="Data and model")
    widths: str | None = setting("widths", None, group="Data and model")
    activation: str = setting("activation", "usual", group="Data and model")
    trained_parameters: str = setting(
        "trained_parameters", FULL, group="Data and model"
    )
    private: bool = setting("private", True, group="Privacy")
    target_epsilon: float | None = setting("target_epsilon", None, group="Privacy")
    noise_multiplier: float | None = setting(
        "noise_multiplier",
        None,
        group="Privacy",
        help="Standard deviation of the noise on the summed gradient, in units of C.",
        le=1000,
    )
    delta: float = setting("delta", 1e-5, group="Privacy")
    filter_epsilon: float | None = setting("filter_epsilon", None, group="Privacy")
    max_grad_norm: float = setting("max_grad_norm", 0.1, group="Privacy")
    noise_schedule: str = setting("noise_schedule", CONSTANT, group="Privacy")
    noise_end: float = setting("noise_end", 0.5, group="Privacy")
    noise_bands: int = setting("noise_bands", 1, group="Privacy")
    clipping_schedule: str = setting("clipping_schedule", CONSTANT, group="Privacy")
    clipping_end: float = setting("clipping_end", 0.5, group="Privacy")
    target_quantile: float = setting("target_quantile", 0.5, group="Privacy")
    bound_rate: float = setting("bound_rate", 0.2, group="Privacy")
    clipping_fn: str = setting("clipping_fn", "Abadi", group="Privacy")
    clipping_style: str = setting("clipping_style", "all-layer", group="Privacy")
    clipping_heads: str | None = setting("clipping_heads", None, group="Privacy")
    clipping_mode: str = setting("clipping_mode", "MixOpt", group="Privacy")
    engine: str = setting("engine", "hooks", group="Privacy")
    accountant: str = setting("accountant", "exact", group="Privacy")
    audit: int = setting("audit", 2000, group="Privacy", slider=False)
    expected_batch_size: int = setting(
        "expected_batch_size", 4096, group="Optimisation", help="Mean batch size."
    )
    sampling: str = setting("sampling", POISSON, group="Optimisation")
    steps: int | None = setting("steps", None, group="Optimisation", ge=1, le=100_000)
    epochs: float | None = setting(
        "epochs",
        None,
        group="Optimisation",
        help="Mean number of times that a record is used. Give either epochs or steps.",
        marks=(),
        ends=None,
        step=0.5,
    )
    optimizer: str = setting("optimizer", "sgd", group="Optimisation")
    learning_rate: float = setting("learning_rate", 8.0, group="Optimisation")
    learning_rate_schedule: str = setting(
        "learning_rate_schedule", CONSTANT, group="Optimisation"
    )
    learning_rate_end: float = setting("learning_rate_end", 0.1, group="Optimisation")
    momentum: float = setting("momentum", 0.9, group="Optimisation")
    stop_at_epsilon: float | None = setting("stop_at_epsilon", None, group="Run")
    evaluations: int = setting("evaluations", 40, group="Run")
    seed: int = setting("seed", 7, group="Run")

    _style = field_validator("clipping_style", mode="before")(one_style)

    @model_validator(mode="before")
    @classmethod
    def _fill_pairs(cls, values: Any) -> Any:
        """Set a pair to its default if neither of the two is given."""
        if not isinstance(values, dict):
            return values
        filled = own_table.with_table(values)
        if filled.get("steps") is None and filled.get("epochs") is None:
            filled["steps"] = DEFAULT_STEPS
        if filled.get("noise_multiplier") is None:
            filled.setdefault("target_epsilon", DEFAULT_EPSILON)
            if filled["target_epsilon"] is None:
                filled["target_epsilon"] = DEFAULT_EPSILON
        for name, by_value in DEFAULTS_OF.items():
            filled = by_value.get(str(filled.get(name)), {}) | filled
        return filled

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        check_pair(self, "steps", "epochs")
        check_pair(self, "noise_multiplier", "target_epsilon")
        fitting = [
            name
            for name in MODELS
            if self.dataset in MODELS[name].parameters
            or (self.table is not None and name in own_table.MODELS)
        ]
        if self.model not in fitting:
            raise ConfigError(
                "model",
                f"model {self.model!r} does not fit data set {self.dataset!r}; "
                f"fitting: {', '.join(fitting)}.",
            )
        if self.expected_batch_size > self.sample_size:
            raise ConfigError(
                "expected_batch_size",
                f"expected_batch_size must be at most N = {self.sample_size}, "
                f"got {self.expected_batch_size}.",
            )
        if self.delta >= 1 / self.sample_size:
            raise ConfigError(
                "delta",
                f"delta must be below 1/N = 1/{self.sample_size}, got {self.delta:g}.",
            )
        self._check_layers()
        self._check_held()
        self._check_adaptive()
        self._check_sampling()
        check_bands(self)
        mid_run.check_filter(self)
        return self

    def _check_choices(self) -> None:
        choices = {} if self.table is None else {"dataset": self.table.name}
        check_choices(self, **choices)
        own_table.check_named(self.dataset, self.table)
        if self.table is not None and self.table.is_regression:
            raise ConfigError(
                "dataset",
                f"dataset {self.dataset!r} must have classes to predict, but it has a "
                f"number, {self.table.predicted.name!r}. Start a private regression "
                "from Your data.",
            )

    def _check_layers(self) -> None:
        """Reject widths that the model cannot have, and groups of unknown layers."""
        if self.clipping_heads is not None:
            heads_of(self.clipping_heads, self.layers)
        if self.parameters > MOST_PARAMETERS:
            raise ConfigError(
                "widths",
                f"widths may make at most {MOST_PARAMETERS:,} parameters, got "
                f"{self.parameters:,}. Take narrower layers.",
            )

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The layers with trained parameters.

        Raises:
            ConfigError: the model cannot have these widths, or trains no part alone.
        """
        return trained_layers(self.model, self._model_layers, self.trained_parameters)

    @cached_property
    def _model_layers(self) -> tuple[Layer, ...]:
        """All layers with parameters."""
        widths = widths_of(self.model, self.widths)
        return layers_of(self.model, self.data.input_shape, self.data.classes, widths)

    @property
    def parameters(self) -> int:
        """Trainable parameters of the model."""
        return sum(layer.parameters for layer in self.layers)

    @property
    def clipping_groups(self) -> str | list[str]:
        """Clipping style: its name, or the first layers of the groups."""
        if self.clipping_heads is None:
            return self.clipping_style
        return list(heads_of(self.clipping_heads, self.layers))

    def _check_held(self) -> None:
        """Reject models and batches that the vmap engine cannot process."""
        if not (self.private and self.engine == HOLDS_GRADIENTS):
            return
        unmapped = sorted({layer.kind for layer in self.layers} & NOT_MAPPED)
        if unmapped:
            raise ConfigError(
                "engine",
                f"engine {self.engine!r} cannot take layers of kind "
                f"{', '.join(unmapped)}, which model {self.model!r} has. Take another "
                "engine.",
            )
        stored_bytes = 4 * self.expected_batch_size * self.parameters
        if stored_bytes > MOST_HELD_BYTES:
            raise ConfigError(
                "engine",
                f"engine {self.engine!r} stores the gradients of all records, at most "
                f"{MOST_HELD_BYTES / 2**30:.0f} GiB, here {stored_bytes / 2**30:.1f} "
                "GiB. Take a smaller expected_batch_size or another engine.",
            )

    def _check_adaptive(self) -> None:
        """Reject an adaptive clipping bound if a record has several norms."""
        style = (self.clipping_fn, self.clipping_groups)
        if self.is_adaptive and style != ("Abadi", "all-layer"):
            raise ConfigError(
                "clipping_schedule",
                "clipping_schedule 'adaptive' follows one norm for each record and "
                "takes clipping_fn 'Abadi' and clipping_style 'all-layer', got "
                f"{style[0]!r} and {style[1]!r}.",
            )

    def _check_sampling(self) -> None:
        """Reject settings of a private run that random allocation does not have."""
        if self.sampling == POISSON or not self.private:
            return
        if self.audit and self.noise_multiplier != 0:
            raise ConfigError(
                "audit",
                f"audit {NO_CANARIES}.",
            )
        if self.noise_schedule != CONSTANT:
            raise ConfigError(
                "noise_schedule",
                f"noise_schedule must be {CONSTANT!r} with random allocation, whose "
                "noise may change only between epochs, got "
                f"{self.noise_schedule!r}.",
            )

    @property
    def has_correlated_noise(self) -> bool:
        """If True, the noise of a step cancels a part of earlier noise."""
        is_noisy = self.private and self.noise_multiplier != 0
        return is_noisy and self.noise_bands > 1

    @property
    def sampling_law(self) -> str:
        """Sampling among the terms of ε; correlated noise changes Poisson sampling."""
        return CYCLIC_POISSON if self.has_correlated_noise else self.sampling

    @property
    def takes_canaries(self) -> bool:
        """If True, canaries can audit the run's sampling and noise."""
        return self.sampling == POISSON and not self.has_correlated_noise

    @property
    def is_filtered(self) -> bool:
        """If True, a privacy filter counts the steps against ``filter_epsilon``."""
        return self.private and self.filter_epsilon is not None

    @cached_property
    def filtered_run(self) -> FilteredRun | None:
        """Budget for changes, in the Rényi order of the settings; None without one.

        Raises:
            ConfigError: no noise reaches the target.
        """
        if not self.private or self.filter_epsilon is None:
            return None
        [planned] = self.plan.phases
        return FilteredRun.planned(self.filter_epsilon, self.delta, planned)

    def spending(self) -> Spending:
        """Return the counter of spent steps; without privacy it allows all steps."""
        stop_at = self.stop_at_epsilon if self.private else None
        return Spending(self.plan, self.filtered_run, stop_at)

    @property
    def wall(self) -> float | None:
        """Maximum ε of the run; None if only the number of steps ends it."""
        if self.is_filtered:
            return self.filter_epsilon
        return self.stop_at_epsilon or self.target_epsilon

    def guaranteed(self, epsilon: float | None) -> float | None:
        """Return the guaranteed ε: the whole budget of a filter, else the counted ε."""
        return self.filter_epsilon if self.is_filtered and epsilon else epsilon

    def changed(self, values: Mapping[str, Any]) -> Self:
        """Return the settings after a change; see ``mid_run.changed``."""
        return mid_run.changed(self, values)

    def after(self, step: int, values: Mapping[str, Any]) -> Self:
        """Return the settings after a change at a step; see ``mid_run.after``."""
        return mid_run.after(self, step, values)

    @property
    def why_not_continued(self) -> str:
        """Reason why the run cannot be continued after its end; "" if it can."""
        return mid_run.why_not_continued(self)

    @property
    def own_table(self) -> OwnTable | None:
        """The visitor's table that the model is trained on."""
        return self.table

    @property
    def data_set_name(self) -> str:
        """Name of the data set that the model is trained on."""
        return self.dataset

    @property
    def data(self) -> DataSet:
        """Public facts of the data set."""
        return DATA_SETS[self.dataset] if self.table is None else self.table.facts

    @property
    def sample_size(self) -> int:
        """Number of training records, N."""
        return self.data.train_size

    @cached_property
    def plan(self) -> Plan:
        """Sampling, noise and steps of the run, for the accountant.

        Raises:
            ConfigError: no noise reaches the target.
        """
        return _planned(**self.plan_arguments)

    @property
    def plan_arguments(self) -> dict[str, Any]:
        """Arguments of ``Plan.create``."""
        return {
            "sample_size": self.sample_size,
            "expected_batch_size": self.expected_batch_size,
            "steps": self.steps,
            "epochs": self.epochs,
            "noise_multiplier": self.noise_multiplier if self.private else 0.0,
            "target_epsilon": self.target_epsilon if self.private else None,
            "delta": self.delta,
            "accountant": self.accountant,
            "sampling": self.sampling,
            "noise_schedule": staged(
                self.noise_schedule, self.noise_end, self.planned_steps
            )
            if self.private
            else None,
            "noise_correlation": self.noise_correlation,
        }

    @property
    def noise_correlation(self) -> ToeplitzStrategy | None:
        """Strategy of correlated noise; None for independent noise."""
        if not self.has_correlated_noise:
            return None
        shape = (self.planned_steps, self.noise_bands)
        return strategy_of(*shape, self.optimizer, self.momentum)

    @property
    def bound_schedule(self) -> Schedule | None:
        """Factors of the clipping bound; None if it is constant or adaptive."""
        if self.clipping_schedule == ADAPTIVE:
            return None
        return schedule(self.clipping_schedule, self.clipping_end, self.planned_steps)

    @property
    def is_adaptive(self) -> bool:
        """If True, the clipping bound follows the norms, through released counts."""
        return self.private and self.clipping_schedule == ADAPTIVE

    def learning_rate_at(self, step: int) -> float:
        """Return the learning rate of step 0, 1, ..."""
        shape, end = self.learning_rate_schedule, self.learning_rate_end
        factors = schedule(shape, end, self.planned_steps)
        factor = 1.0 if factors is None else factors.factor(step, self.planned_steps)
        return self.learning_rate * factor

    @property
    def planned_steps(self) -> int:
        """Steps of the run, if nothing ends it early."""
        if self.steps is not None:
            return self.steps
        assert self.epochs is not None, "one of the two is set"
        sizes = (self.sample_size, self.expected_batch_size)
        slots = slots_of(*sizes, self.sampling)
        return steps_of(self.epochs, *(sizes if slots is None else (slots, 1)))

    def check_reachable(self) -> None:
        """Raise ConfigError if no noise reaches the target or no accountant applies."""
        _ = self.plan

    @property
    def length_setting(self) -> str:
        """Name of the setting that determines the length of the run."""
        return "steps" if self.epochs is None else "epochs"

    @property
    def cost(self) -> float:
        """Multiply-adds of training and evaluations together."""
        forward = sum(layer.multiply_adds for layer in self._model_layers)
        trained = self.planned_steps * self.expected_batch_size
        predicted = len(self.evaluation_steps) * self.data.test_size
        engine_cost = COST_PER_RECORD.get(self.engine, 0.0) if self.private else 0.0
        return float(forward * (PASSES * trained + predicted) + engine_cost * trained)

    @property
    def evaluation_steps(self) -> list[int]:
        """Steps after which the test set is predicted, evenly spread over ε."""
        return evenly_spent(self.planned_steps, self.evaluations)


@lru_cache(maxsize=CACHED_PLANS)
def _planned(**numbers: Any) -> Plan:
    """Return a plan, from the cache of recent plans if it is there."""
    return Plan.create(**numbers)

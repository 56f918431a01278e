"""Settings of a membership inference attack; loads no torch.

The attack targets two models trained on the same half of a pool of records, one with
DP-SGD and one without privacy.  A fair coin per record decides its membership, so the
trade-off curve for adding or removing one record limits the attack on each record.
Pool, model and number of steps are small enough for an attack of a few seconds, and
the model is large enough to memorize its records.

``AttackConfig.of_run`` takes data set, model, sampling rate, steps, ε and clipping
from a training run instead, and applies them to the records of the pool.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from dpsgd_explorer.accounting import Plan, round_up
from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.experiments.catalogue import DATA_SETS, MODELS, DataSet
from dpsgd_explorer.experiments.config import KIND_HELP, RunConfig
from dpsgd_explorer.experiments.fields.setting import check_choices
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.experiments.vocabulary import setting

ATTACKED = ("mnist", "adult", "housing", "signals")
POOL = 600  # records; a coin per record decides its membership
POPULATION = 600  # records that no model is trained on
HIDDEN, WIDTH = "hidden", 32  # the default model: one hidden layer of 32 units
STEPS = 150
EXPECTED_BATCH_SIZE = 150  # records of the pool; half of them are members
DELTA = 1e-4
MAX_GRAD_NORM = 1.0
LEARNING_RATE = {True: 0.1, False: 0.2}  # with and without privacy
MOMENTUM = 0.9
# Cost of one step without its gradients, in multiply-adds of a training run. Measured.
COST_PER_STEP = 2.5e7
COST_PER_RECORD = 3  # forward and backward passes, in forward passes of one record
LEAST_BATCH = 6  # expected records; smaller sampling rates do not fit the pool

MOST_STEPS, LEAST_EPSILON, MOST_EPSILON = 1000, 0.5, 16.0

GROUP, TRAINING = "Attack", "Training of each model"
#: Settings of a training run that an attack takes over.
TRAINING_SETTINGS = (
    "model",
    "expected_batch_size",
    "steps",
    "delta",
    "max_grad_norm",
    "clipping_fn",
    "learning_rate",
    "momentum",
)
#: Settings of a training run that must have their default value in an attack.
PLAIN = (
    "sampling",
    "noise_bands",
    "noise_schedule",
    "clipping_schedule",
    "learning_rate_schedule",
    "optimizer",
    "clipping_style",
    "clipping_heads",
    "widths",
    "activation",
    "trained_parameters",
)


class AttackConfig(RunConfig):
    """Settings of one attack; every instance is valid."""

    TO_COST_LESS: ClassVar[str] = "fewer shadow models"

    kind: Literal["attack"] = Field("attack", description=KIND_HELP)
    dataset: str = setting(
        "dataset",
        "mnist",
        group="Target",
        help=f"Coin flips split {POOL} of its records into two halves.",
        choices={name: DATA_SETS[name].label for name in ATTACKED},
    )
    target_epsilon: float = setting(
        "target_epsilon",
        4.0,
        group="Target",
        help="Privacy loss ε of the private model.",
        marks=(0.5, 1, 2, 4, 8, 16),
        ge=LEAST_EPSILON,
        le=MOST_EPSILON,
    )
    canary: int = setting("canary", 0, group="Your record", le=POOL - 1)
    canary_label: int | None = setting("canary_label", None, group="Your record")
    shadows: int = setting("shadows", 16, group=GROUP, slider=False)
    seed: int = setting("seed", 9, group=GROUP)
    model: str = setting(
        "model",
        HIDDEN,
        group=TRAINING,
        help="Architecture that is trained on half of the pool.",
        choices={HIDDEN: f"One hidden layer of {WIDTH}"}
        | {
            name: model.label
            for name, model in MODELS.items()
            if model.parameters.keys() & set(ATTACKED)
        },
    )
    expected_batch_size: int = setting(
        "expected_batch_size",
        EXPECTED_BATCH_SIZE,
        group=TRAINING,
        slider=False,
        help=f"Mean batch size; half of the {POOL} records of the pool are members.",
        le=POOL,
    )
    steps: int = setting(
        "steps", STEPS, group=TRAINING, slider=False, ge=1, le=MOST_STEPS
    )
    delta: float = setting("delta", DELTA, group=TRAINING, slider=False)
    max_grad_norm: float = setting(
        "max_grad_norm", MAX_GRAD_NORM, group=TRAINING, slider=False
    )
    clipping_fn: str = setting("clipping_fn", "Abadi", group=TRAINING)
    learning_rate: float = setting(
        "learning_rate",
        LEARNING_RATE[True],
        group=TRAINING,
        slider=False,
        help=f"Step size with privacy. Without privacy it is {LEARNING_RATE[False]:g}.",
    )
    momentum: float = setting("momentum", MOMENTUM, group=TRAINING, slider=False)

    @classmethod
    def of_run(cls, run: TrainingConfig) -> Self:
        """Return the attack on a reproduction of a run, on the records of the pool.

        Raises:
            ConfigError: the run cannot be attacked; the message gives the reason.
        """
        if reason := _why_not(run):
            raise ConfigError("run", f"this run cannot be attacked here: {reason}.")
        return cls(
            dataset=run.dataset,
            target_epsilon=run.target_epsilon or float(round_up(run.plan.epsilon())),
            model=run.model,
            expected_batch_size=_batch(run),
            steps=run.planned_steps,
            delta=run.delta,
            max_grad_norm=run.max_grad_norm,
            clipping_fn=run.clipping_fn,
            learning_rate=run.learning_rate,
            momentum=run.momentum,
        )

    @model_validator(mode="after")
    def _can_be_carried_out(self) -> Self:
        check_choices(self)
        if self.model != HIDDEN and self.dataset not in MODELS[self.model].parameters:
            raise ConfigError(
                "model",
                f"model {self.model!r} does not fit data set {self.dataset!r}; take "
                f"{HIDDEN!r} or another.",
            )
        if self.delta >= 1 / POOL:
            raise ConfigError(
                "delta", f"delta must be below 1/{POOL}, got {self.delta:g}."
            )
        if self.shadows % 2:
            raise ConfigError(
                "shadows",
                "shadows must be even: each record is in half of them, got "
                f"{self.shadows}.",
            )
        labels = self.data_set.classes
        if self.canary_label is not None and self.canary_label >= labels:
            raise ConfigError(
                "canary_label",
                f"canary_label must be from 0 to {labels - 1}: a model of "
                f"{self.data_set.label} reads {labels} labels and no other, got "
                f"{self.canary_label}.",
            )
        return self

    @property
    def data_set(self) -> DataSet:
        """Public facts of the data set."""
        return DATA_SETS[self.dataset]

    @cached_property
    def plan(self) -> Plan:
        """Plan of every private training: of the target and of its shadows."""
        return Plan.create(
            sample_size=POOL,
            expected_batch_size=self.expected_batch_size,
            steps=self.steps,
            target_epsilon=self.target_epsilon,
            delta=self.delta,
        )

    def planted(self, label: int) -> int:
        """Return the planted label of the followed record with this true label."""
        if self.canary_label is not None:
            return self.canary_label
        labels = self.data_set.classes
        return (label + labels // 2) % labels

    @property
    def data_set_name(self) -> str:
        """Name of the data set that the models are trained on."""
        return self.dataset

    @property
    def planned_steps(self) -> int:
        """Number of trainings: two targets, each with its shadows."""
        return 2 * (1 + self.shadows)

    @property
    def length_setting(self) -> str:
        """Name of the setting that determines the length of the run."""
        return "shadows"

    @property
    def cost(self) -> float:
        """Duration of all trainings, in multiply-adds."""
        inputs = math.prod(self.data_set.input_shape)
        adds = (
            WIDTH * (inputs + self.data_set.classes)
            if self.model == HIDDEN
            else MODELS[self.model].multiply_adds[self.dataset]
        )
        step = COST_PER_STEP + COST_PER_RECORD * adds * self.expected_batch_size
        return self.planned_steps * self.steps * step


def _batch(run: TrainingConfig) -> int:
    """Return the expected batch size in the pool at the run's sampling rate."""
    return round(run.plan.sample_rate * POOL)


def _why_not(run: TrainingConfig) -> str:
    """Return the reason why a run cannot be attacked; "" if it can."""
    if run.table is not None:
        return (
            "it trains on a table of one’s own, whose rows stay with their owner. "
            f"Attack a run on {', '.join(DATA_SETS[name].label for name in ATTACKED)}"
        )
    if run.dataset not in ATTACKED:
        return (
            f"shadow models are trained on {', '.join(ATTACKED)}, and this run on "
            f"{run.dataset}"
        )
    if not run.private:
        return (
            "it has no privacy, so nothing limits an attack. Open the lab as it is: an "
            "ordinary model is attacked next to the private one"
        )
    for name in PLAIN:
        default = TrainingConfig.model_fields[name].default
        if getattr(run, name) != default:
            return (
                f"its {name} is {getattr(run, name)!r}, and shadow models are trained "
                f"with {default!r} alone"
            )
    return _beyond(run)


def _beyond(run: TrainingConfig) -> str:
    """Return the limit of the attack that a run exceeds; "" if it exceeds none."""
    if run.planned_steps > MOST_STEPS:
        return f"it takes {run.planned_steps} steps, and shadow models {MOST_STEPS}"
    if _batch(run) < LEAST_BATCH:
        return (
            f"at its sampling rate, {run.plan.sample_rate:.3g}, fewer than "
            f"{LEAST_BATCH} of the lab’s {POOL} records would join a step"
        )
    if not LEAST_EPSILON <= (epsilon := run.plan.epsilon()) <= MOST_EPSILON:
        return (
            f"it spends ε = {epsilon:.3g}, and the lab attacks from {LEAST_EPSILON:g} "
            f"to {MOST_EPSILON:g}"
        )
    return ""

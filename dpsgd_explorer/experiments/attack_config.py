"""The settings of an attack on membership; loads no torch.

Two models are attacked that were trained on the same half of a pool of records, one
with DP-SGD and one without privacy.  A fair coin decides of each record whether it is
in, so for each record alone this is the game that the trade-off curve for adding or
removing one record limits.  Pool, model and length are small enough for an attack to
take some seconds, and the model large enough to learn its records by heart.
"""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar, Literal, Self

from pydantic import model_validator

from dpsgd_explorer.accounting import Plan
from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.experiments.catalogue import DATA_SETS, DataSet
from dpsgd_explorer.experiments.config import RunConfig
from dpsgd_explorer.experiments.vocabulary import setting

ATTACKED = ("mnist", "adult")
POOL = 600  # records, each in by its coin
POPULATION = 600  # records that no model is trained on
WIDTH = 32  # of the hidden layer
STEPS = 150
EXPECTED_BATCH_SIZE = 150  # of the pool; half of these are in
DELTA = 1e-4
MAX_GRAD_NORM = 1.0
LEARNING_RATE = {True: 0.1, False: 0.2}  # with and without privacy
MOMENTUM = 0.9
# Time of one training, in multiply-adds of a training run. Measured.
COST_PER_TRAINING = 4e9

GROUP = "Attack"


class AttackConfig(RunConfig):
    """The settings of one attack; an instance that exists is valid."""

    TO_COST_LESS: ClassVar[str] = "fewer shadow models"

    kind: Literal["attack"] = "attack"
    dataset: str = setting(
        "dataset",
        "mnist",
        group="Target",
        help=f"{POOL} of its records are drawn apart by coins into two halves.",
        choices={name: DATA_SETS[name].label for name in ATTACKED},
    )
    target_epsilon: float = setting(
        "target_epsilon",
        4.0,
        group="Target",
        help="What the private one of both models spends.",
        marks=(0.5, 1, 2, 4, 8, 16),
        ge=0.5,
        le=16,
    )
    canary: int = setting("canary", 0, group="Your record", le=POOL - 1)
    canary_label: int | None = setting("canary_label", None, group="Your record")
    shadows: int = setting("shadows", 16, group=GROUP, slider=False)
    seed: int = setting("seed", 9, group=GROUP)

    @model_validator(mode="after")
    def _can_be_carried_out(self) -> Self:
        if self.shadows % 2:
            raise ConfigError(
                "shadows",
                "shadows must be even: each record is in half of them; got "
                f"{self.shadows}.",
            )
        labels = self.data_set.classes
        if self.canary_label is not None and self.canary_label >= labels:
            raise ConfigError(
                "canary_label",
                f"canary_label must be from 0 to {labels - 1}: a model of "
                f"{self.data_set.label} reads {labels} labels and no other; got "
                f"{self.canary_label}.",
            )
        return self

    @property
    def data_set(self) -> DataSet:
        """The data set's public facts."""
        return DATA_SETS[self.dataset]

    @cached_property
    def plan(self) -> Plan:
        """The plan of every private training, the target's and the shadows'."""
        return Plan.create(
            sample_size=POOL,
            expected_batch_size=EXPECTED_BATCH_SIZE,
            steps=STEPS,
            target_epsilon=self.target_epsilon,
            delta=DELTA,
        )

    def planted(self, label: int) -> int:
        """Return the label that the visitor's record gets, given its own."""
        if self.canary_label is not None:
            return self.canary_label
        labels = self.data_set.classes
        return (label + labels // 2) % labels

    @property
    def planned_steps(self) -> int:
        """Trainings: both targets, and as many shadows of each."""
        return 2 * (1 + self.shadows)

    @property
    def length_setting(self) -> str:
        """Name of the setting that determines the length of the run."""
        return "shadows"

    @property
    def cost(self) -> float:
        """Multiply-adds that take the time of all trainings."""
        return self.planned_steps * COST_PER_TRAINING

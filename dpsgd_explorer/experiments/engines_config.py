"""The settings of a comparison of the engines; loads no torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple, Self

from pydantic import Field, model_validator

from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.experiments.config import KIND_HELP, RunConfig
from dpsgd_explorer.experiments.training_config import PASSES
from dpsgd_explorer.experiments.vocabulary import ENGINES, setting

ORDINARY = "ordinary"
CONTENDERS = (ORDINARY, *ENGINES)

# Multiply-adds that one step of the model may need: a few seconds of one core.
MOST_A_STEP = 2e10
# Steps per contender: two for the gradients in double precision, which cost twice,
# two for the memory, and at least five rounds with as many of the ordinary step.
STEPS_PER_CONTENDER = 16
# What else a contender takes, in multiply-adds of a training run.  Measured.
COST_PER_CONTENDER = 1e10


class Sizes(NamedTuple):
    """The settings that determine the size of a model."""

    width: int
    sequence_length: int


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A model that the engines are compared on.

    Attributes:
        label: Name for people.
        parameters: Trainable parameters, given the sizes.
        multiply_adds: Per sample's forward pass, given the sizes.
        reads_sequences: Whether its input has ``sequence_length`` tokens.
    """

    label: str
    parameters: Callable[[Sizes], int]
    multiply_adds: Callable[[Sizes], int]
    reads_sequences: bool


def _mlp(sizes: Sizes) -> int:
    return sizes.width * (784 + sizes.width + 10)


def _cnn(sizes: Sizes) -> int:
    convolutions = 32 * 32 * 9 * 3 * sizes.width + 16 * 16 * 9 * 2 * sizes.width**2
    return convolutions + 64 * 2 * sizes.width * 10


def _lstm(sizes: Sizes) -> int:
    return sizes.sequence_length * 4 * sizes.width * (64 + sizes.width)


def _transformer(sizes: Sizes) -> int:
    width, length = sizes
    return 2 * length * (12 * width**2 + 2 * length * width)


MEASURED: dict[str, Measured] = {
    "mlp": Measured(
        label="Perceptron, two hidden layers",
        parameters=lambda s: _mlp(s) + 2 * s.width + 10,
        multiply_adds=_mlp,
        reads_sequences=False,
    ),
    "cnn": Measured(
        label="Two convolutions, 32 by 32 pixels",
        parameters=lambda s: 28 * s.width + s.width * (18 * s.width + 2) + _head(s),
        multiply_adds=_cnn,
        reads_sequences=False,
    ),
    "lstm": Measured(
        label="LSTM on tokens",
        parameters=lambda s: 2000 * 64 + 4 * s.width * (66 + s.width) + 2 * s.width + 2,
        multiply_adds=_lstm,
        reads_sequences=True,
    ),
    "transformer": Measured(
        label="Transformer, two blocks",
        parameters=lambda s: s.width * (2000 + 2 * (12 * s.width + 13) + 4) + 2,
        multiply_adds=_transformer,
        reads_sequences=True,
    ),
}


def _head(sizes: Sizes) -> int:
    return 64 * 2 * sizes.width * 10 + 10


class EnginesConfig(RunConfig):
    """The settings of one comparison; an instance that exists is valid."""

    TO_COST_LESS: ClassVar[str] = "a smaller width or shorter sequences"

    kind: Literal["engines"] = Field("engines", description=KIND_HELP)
    model: str = setting(
        "model",
        "transformer",
        group="Model",
        help="Model whose gradients every engine computes, on random inputs.",
        choices={name: model.label for name, model in MEASURED.items()},
    )
    width: int = setting("width", 64, group="Model")
    batch_size: int = setting("batch_size", 32, group="Input")
    sequence_length: int = setting("sequence_length", 16, group="Input")

    @model_validator(mode="after")
    def _is_small_enough(self) -> Self:
        if self.width % 4:
            raise ConfigError(
                "width",
                f"width must be a multiple of 4, the transformer’s heads, got "
                f"{self.width}.",
            )
        if self.step_cost > MOST_A_STEP:
            raise ConfigError(
                "batch_size",
                f"batch_size: a step may need at most {MOST_A_STEP:.1g} multiply-adds, "
                f"got {self.step_cost:.2g}. Take a smaller batch_size, "
                f"{self.TO_COST_LESS}.",
            )
        return self

    @property
    def sizes(self) -> Sizes:
        """The settings that determine the size of the model."""
        return Sizes(self.width, self.sequence_length)

    @property
    def measured(self) -> Measured:
        """The model's public facts."""
        return MEASURED[self.model]

    @property
    def parameters(self) -> int:
        """Trainable parameters."""
        return self.measured.parameters(self.sizes)

    @property
    def step_cost(self) -> float:
        """Multiply-adds of one ordinary step."""
        one_sample = self.measured.multiply_adds(self.sizes)
        return float(PASSES * one_sample * self.batch_size)

    @property
    def planned_steps(self) -> int:
        """Contenders: one is measured in each step of the run."""
        return len(CONTENDERS)

    @property
    def length_setting(self) -> str:
        """Name of the setting that determines the length of the run."""
        return "batch_size"

    @property
    def cost(self) -> float:
        """Multiply-adds of the whole run, or what takes as long."""
        per_contender = STEPS_PER_CONTENDER * self.step_cost + COST_PER_CONTENDER
        return len(CONTENDERS) * per_contender

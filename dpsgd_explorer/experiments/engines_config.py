"""What a comparison of the engines is asked to do; loads no torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple, Self

from pydantic import model_validator

from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.experiments.config import RunConfig, setting
from dpsgd_explorer.experiments.training_config import ENGINES, PASSES

ORDINARY = "ordinary"
CONTENDERS = (ORDINARY, *ENGINES)

# A step of the model may need so many multiply-adds: a few seconds of one core.
MOST_A_STEP = 2e10
# Steps of each contender: two for the numbers in double precision, which cost twice,
# two for the memory, and at least five rounds beside as many of the ordinary step.
STEPS_OF_EACH = 16
# What else a contender takes, in multiply-adds of a training run.  Measured.
COST_OF_EACH = 1e10


class Sizes(NamedTuple):
    """What the size of a model depends on."""

    width: int
    sequence_length: int


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A model that the engines are compared on.

    Attributes:
        label: What a person calls it.
        parameters: Trainable parameters, of its sizes.
        multiply_adds: Of one sample's forward pass, of its sizes.
        reads_sequences: Whether ``sequence_length`` means anything to it.
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

    kind: Literal["engines"] = "engines"
    model: str = setting(
        "transformer",
        label="Model",
        help="What every engine takes the gradients of, on random inputs.",
        group="Model",
        choices={name: model.label for name, model in MEASURED.items()},
    )
    width: int = setting(
        64,
        label="Width",
        symbol="d",
        help="Units of a hidden layer, channels, or features of a token.",
        group="Model",
        ge=4,
        le=1024,
        step=4,
        marks=(16, 64, 256, 1024),
        ends=("fewer parameters", "more parameters"),
        words="a multiple of 4 between 4 and 1024",
    )
    batch_size: int = setting(
        32,
        label="Batch size",
        symbol="B",
        help="Samples of a step; each needs the length of its own gradient.",
        group="Input",
        ge=1,
        le=512,
        step=1,
        marks=(1, 8, 64, 512),
        ends=("quicker", "more to share"),
    )
    sequence_length: int = setting(
        16,
        label="Sequence length",
        symbol="T",
        help="Tokens of a sample. Read by the LSTM and the transformer only.",
        group="Input",
        ge=1,
        le=256,
        step=1,
        marks=(1, 4, 16, 64, 256),
        ends=("norms from products", "norms from gradients"),
    )

    @model_validator(mode="after")
    def _is_small_enough(self) -> Self:
        if self.width % 4:
            raise ConfigError(
                "width",
                f"width must be a multiple of 4, the transformer’s heads; got "
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
        """What the model's size depends on."""
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
        """The setting that says how long the run is."""
        return "batch_size"

    @property
    def cost(self) -> float:
        """Multiply-adds of the whole run, or what takes as long."""
        of_each = STEPS_OF_EACH * self.step_cost + COST_OF_EACH
        return len(CONTENDERS) * of_each

"""The models: those a data set trains by name, and those the engines are timed on."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor, nn

from dpsgd_explorer.experiments.architecture import ACTIVATIONS as USUAL
from dpsgd_explorer.experiments.architecture import (
    CHARACTER_WIDTH,
    CHARACTERS,
    SIGNAL_CHANNELS,
    STATE_WIDTH,
    WIDTHS,
    widths_of,
)
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.training.datasets.scattering import Scattering

VOCABULARY = 2000  # tokens that the sequence models know
EMBEDDED = 64  # width of the LSTM's tokens


def build(model: str, dataset: str, seed: int) -> nn.Module:
    """Return the model for a data set, its parameters drawn from the seed.

    The state of torch's global generator is what it was.
    """
    return of_config(TrainingConfig(dataset=dataset, model=model), seed)


def of_config(config: TrainingConfig, seed: int) -> nn.Module:
    """Return the model of a training, its parameters drawn from the seed.

    The state of torch's global generator is what it was.
    """
    shape = Shape(
        config.data.input_shape,
        config.data.classes,
        widths_of(config.model, config.widths) or WIDTHS.get(config.model, ()),
        USUAL.get(config.model, "")
        if config.activation == "usual"
        else config.activation,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return BUILDERS[config.model](shape)


class Shape(NamedTuple):
    """What a model is built for.

    Attributes:
        inputs: Shape of one record.
        classes: Number of labels.
        widths: Of the layers that have one, see ``experiments.architecture``.
        activation: A key of ACTIVATIONS; "" where there is none.
    """

    inputs: tuple[int, ...]
    classes: int
    widths: tuple[int, ...]
    activation: str


def logistic(shape: Shape) -> nn.Module:
    """Return one linear layer on the record itself."""
    input_shape, classes = shape.inputs, shape.classes
    return nn.Sequential(nn.Flatten(), nn.Linear(math.prod(input_shape), classes))


def mlp(shape: Shape) -> nn.Module:
    """Return hidden layers of the widths, each followed by the activation."""
    sizes = (math.prod(shape.inputs), *shape.widths, shape.classes)
    return nn.Sequential(
        nn.Flatten(), *perceptron(*sizes, activation=ACTIVATIONS[shape.activation])
    )


def cnn(shape: Shape) -> nn.Module:
    """Return the small tanh network for pictures of 28 by 28.

    Channels last in memory, which halves the time of pooling and convolutions.
    """
    network = tanh_cnn(
        shape.inputs[0],
        shape.classes,
        widths=shape.widths,
        activation=ACTIVATIONS[shape.activation],
    )
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return network


def conv1d(shape: Shape) -> nn.Module:
    """Return two convolutions over time and a linear layer, for signals."""
    channels, length = shape.inputs
    first, second = SIGNAL_CHANNELS
    return nn.Sequential(
        nn.Conv1d(channels, first, 5, stride=2, padding=2),
        nn.Tanh(),
        nn.Conv1d(first, second, 5, stride=2, padding=2),
        nn.Tanh(),
        nn.Flatten(),
        nn.Linear(second * (length // 4), shape.classes),
    )


def char_lstm(shape: Shape) -> nn.Module:
    """Return an LSTM over the characters of a text."""
    return LastStateClassifier(
        STATE_WIDTH,
        vocabulary=CHARACTERS,
        embedded=CHARACTER_WIDTH,
        classes=shape.classes,
    )


def scattering_linear(shape: Shape) -> nn.Module:
    """Return one linear layer on the scattering features of a square picture."""
    return nn.Linear(Scattering(shape.inputs[-1]).features, shape.classes)


ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "tanh": nn.Tanh}

Builder = Callable[[Shape], nn.Module]

BUILDERS: dict[str, Builder] = {
    "scattering_linear": scattering_linear,
    "logistic": logistic,
    "mlp": mlp,
    "cnn": cnn,
    "conv1d": conv1d,
    "char_lstm": char_lstm,
}

# Models that do not see the record itself but a fixed transform of it.
TRANSFORMS: dict[str, Callable[[tuple[int, ...]], Scattering]] = {
    "scattering_linear": lambda input_shape: Scattering(input_shape[-1]),
}


def perceptron(*widths: int, activation: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    """Return a multilayer perceptron with an activation between its linear layers."""
    layers: list[nn.Module] = []
    for fan_in, fan_out in pairwise(widths):
        layers += [nn.Linear(fan_in, fan_out), activation()]
    return nn.Sequential(*layers[:-1])


def tanh_cnn(
    channels: int = 1,
    classes: int = 10,
    *,
    widths: tuple[int, ...] = WIDTHS["cnn"],
    activation: type[nn.Module] = nn.Tanh,
) -> nn.Module:
    """Return two convolutions, then linear layers, for 28 by 28 pixels.

    With the usual widths and tanh it is the network of the source.

    Source: Papernot et al. (2020), arXiv:2007.14191v1, in the form of Tramèr and
    Boneh (2021), arXiv:2011.11660v3.
    """
    first, second, *units = widths
    return nn.Sequential(
        nn.Conv2d(channels, first, kernel_size=8, stride=2, padding=3),
        activation(),
        nn.MaxPool2d(2, stride=1),
        nn.Conv2d(first, second, kernel_size=4, stride=2),
        activation(),
        nn.MaxPool2d(2, stride=1),
        nn.Flatten(),
        *perceptron(second * 4 * 4, *units, classes, activation=activation),
    )


def cnn_cifar() -> nn.Module:
    """Return six convolutions in three pairs, each pair followed by pooling."""
    layers: list[nn.Module] = []
    channels = 3
    for width in (32, 64, 128):
        for _ in range(2):
            layers += [nn.Conv2d(channels, width, 3, padding=1), nn.Tanh()]
            channels = width
        layers.append(nn.AvgPool2d(2))
    layers += [nn.Flatten(), nn.Linear(128 * 4 * 4, 128), nn.Tanh()]
    return nn.Sequential(*layers, nn.Linear(128, 10))


class LastStateClassifier(nn.Module):
    """Embedding, LSTM, and a linear layer on the last hidden state."""

    def __init__(
        self,
        width: int = 128,
        *,
        vocabulary: int = VOCABULARY,
        embedded: int = EMBEDDED,
        classes: int = 2,
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, embedded)
        self.lstm = nn.LSTM(embedded, width, batch_first=True)
        self.head = nn.Linear(width, classes)

    def forward(self, ids: Tensor) -> Tensor:
        """Map ids [B, T] to scores [B, classes]."""
        states, _ = self.lstm(self.embedding(ids))
        scores: Tensor = self.head(states[:, -1])
        return scores


class AttentionBlock(nn.Module):
    """Self-attention and a feed-forward part, each normalised first and added on."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention = nn.LayerNorm(width)
        self.query_key_value = nn.Linear(width, 3 * width)
        self.mix = nn.Linear(width, width)
        self.before_feed_forward = nn.LayerNorm(width)
        self.widen = nn.Linear(width, 4 * width)
        self.narrow = nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Map [B, T, d] to [B, T, d]."""
        batch, length, width = x.shape
        qkv = self.query_key_value(self.before_attention(x))
        q, k, v = qkv.view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        attended = nn.functional.scaled_dot_product_attention(q, k, v)
        x = x + self.mix(attended.transpose(1, 2).reshape(batch, length, width))
        hidden = torch.relu(self.widen(self.before_feed_forward(x)))
        out: Tensor = x + self.narrow(hidden)
        return out


class TransformerClassifier(nn.Module):
    """Token embedding, two attention blocks, the mean over positions, a head."""

    def __init__(self, width: int = 128, heads: int = 4) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, width)
        blocks = [AttentionBlock(width, heads) for _ in range(2)]
        self.blocks = nn.Sequential(*blocks)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 2)

    def forward(self, ids: Tensor) -> Tensor:
        """Map ids [B, T] to scores [B, 2]."""
        hidden = self.norm(self.blocks(self.embedding(ids)))
        scores: Tensor = self.head(hidden.mean(1))
        return scores


def two_convolutions(width: int) -> nn.Module:
    """Return two convolutions of ``width`` and twice as many channels, and a head."""
    return nn.Sequential(
        nn.Conv2d(3, width, 3, padding=1),
        nn.Tanh(),
        nn.AvgPool2d(2),
        nn.Conv2d(width, 2 * width, 3, padding=1),
        nn.Tanh(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(2 * width * 8 * 8, 10),
    )

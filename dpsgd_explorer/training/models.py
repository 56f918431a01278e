"""The models of the data sets, and the models of the engine comparison."""

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
from dpsgd_explorer.training.language_model import pretrained

#: Number of different tokens of the sequence models.
VOCABULARY = 2000
#: Width of the token embedding of the LSTM.
EMBEDDING_WIDTH = 64


def build(model: str, dataset: str, seed: int) -> nn.Module:
    """Returns a model for a data set; its parameters are drawn from the seed.

    A pre-trained model has its public weights, for all seeds.  The state of torch's
    global generator does not change.
    """
    return of_config(TrainingConfig(dataset=dataset, model=model), seed)


def of_config(config: TrainingConfig, seed: int) -> nn.Module:
    """Returns the model of a training; its parameters are drawn from the seed.

    The state of torch's global generator does not change.
    """
    shape = Shape(
        config.data.input_shape,
        config.data.classes,
        widths_of(config.model, config.widths) or WIDTHS.get(config.model, ()),
        USUAL.get(config.model, "")
        if config.activation == "usual"
        else config.activation,
        config.trained_parameters,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return BUILDERS[config.model](shape)


class Shape(NamedTuple):
    """The sizes of a model.

    Attributes:
        inputs: Shape of one record.
        classes: Number of classes.
        widths: Widths of the hidden layers; see ``experiments.architecture``.
        activation: A key of ACTIVATIONS; "" for a model without activation.
        trained: The trained parameters of a pre-trained model.
    """

    inputs: tuple[int, ...]
    classes: int
    widths: tuple[int, ...]
    activation: str
    trained: str


def logistic(shape: Shape) -> nn.Module:
    """Returns one linear layer on the record."""
    input_shape, classes = shape.inputs, shape.classes
    return nn.Sequential(nn.Flatten(), nn.Linear(math.prod(input_shape), classes))


def mlp(shape: Shape) -> nn.Module:
    """Returns a multilayer perceptron."""
    sizes = (math.prod(shape.inputs), *shape.widths, shape.classes)
    return nn.Sequential(
        nn.Flatten(), *perceptron(*sizes, activation=ACTIVATIONS[shape.activation])
    )


def cnn(shape: Shape) -> nn.Module:
    """Returns the small tanh network for pictures of 28 by 28 pixels.

    Its memory format is channels last, which halves the time of pooling and
    convolutions.
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
    """Returns two convolutions over time and a linear layer, for signals."""
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
    """Returns an LSTM over the characters of a text."""
    return LastStateClassifier(
        STATE_WIDTH,
        vocabulary=CHARACTERS,
        embedding_width=CHARACTER_WIDTH,
        classes=shape.classes,
    )


def language_model(shape: Shape) -> nn.Module:
    """Returns the pre-trained decoder of bytes."""
    return pretrained(shape.trained)


def scattering_linear(shape: Shape) -> nn.Module:
    """Returns one linear layer on the scattering features of a square picture."""
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
    "language_model": language_model,
}

#: {model: constructor of the fixed transform of records that the model takes}.
TRANSFORMS: dict[str, Callable[[tuple[int, ...]], Scattering]] = {
    "scattering_linear": lambda input_shape: Scattering(input_shape[-1]),
}


def perceptron(*widths: int, activation: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    """Returns a multilayer perceptron with an activation between its linear layers."""
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
    """Returns two convolutions, then linear layers, for pictures of 28 by 28 pixels.

    With the default widths and tanh it is the network of the source.

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
    """Returns six convolutions in three pairs, each pair followed by pooling."""
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
        embedding_width: int = EMBEDDING_WIDTH,
        classes: int = 2,
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, embedding_width)
        self.lstm = nn.LSTM(embedding_width, width, batch_first=True)
        self.head = nn.Linear(width, classes)

    def forward(self, ids: Tensor) -> Tensor:
        """Returns the scores of token ids: [B, T] -> [B, classes]."""
        states, _ = self.lstm(self.embedding(ids))
        scores: Tensor = self.head(states[:, -1])
        return scores


class AttentionBlock(nn.Module):
    """Self-attention and a feed-forward network, with layer norms and residuals."""

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
        """Returns the block's output: [B, T, d] -> [B, T, d]."""
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
        """Returns the scores of token ids: [B, T] -> [B, 2]."""
        hidden = self.norm(self.blocks(self.embedding(ids)))
        scores: Tensor = self.head(hidden.mean(1))
        return scores


def two_convolutions(width: int) -> nn.Module:
    """Returns convolutions with ``width`` and 2 * ``width`` channels, and a head."""
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

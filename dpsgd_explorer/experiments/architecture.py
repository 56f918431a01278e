"""Layers of the trainable models: names, shapes, parameters, multiply-adds.

Plain arithmetic that loads no torch; a test compares it with the torch models.  Some
models take widths and an activation:

| model | widths | fixed |
|---|---|---|
| mlp | units of each hidden layer, 1 to 4 of them | the last layer |
| cnn | channels of two convolutions, then units of 0 to 2 layers | kernels, pooling |
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from dpsgd_explorer.errors import ConfigError

MOST_UNITS, MOST_CHANNELS = 1024, 128
MOST_PARAMETERS = 2_000_000
CONVOLUTIONS = 2
SIGNAL_CHANNELS = (16, 32)  # of conv1d's two convolutions
CHARACTERS = 27  # size of the alphabet of names: 26 letters and a blank
CHARACTER_WIDTH, STATE_WIDTH = 16, 32  # of the LSTM: embedding and hidden state
BYTE_VALUES = 256  # size of the alphabet of sentences
#: Of the language model: width of its states, number of its blocks, and the number of
#: positions that it knows.
DECODER_WIDTH, DECODER_BLOCKS, DECODER_LENGTH = 112, 2, 57
PRE_TRAINED = "language_model"  # the model that may train a part of itself
LORA_RANK = 8  # width between the two matrices that LoRA adds to a linear layer
FULL, LORA, BIASES, LAST_LAYER = "full", "lora", "biases", "last_layer"
#: Default widths of each model that takes widths, and its fewest and most widths.
WIDTHS: dict[str, tuple[int, ...]] = {"mlp": (256, 128), "cnn": (16, 32, 32)}
DEPTHS: dict[str, tuple[int, int]] = {"mlp": (1, 4), "cnn": (CONVOLUTIONS, 4)}
ACTIVATIONS = {"mlp": "relu", "cnn": "tanh"}
SCATTERED = 25  # channels of a scattering transform with two scales, four angles
REDUCED = 4  # factor by which the scattering transform reduces each side of a picture


@dataclass(frozen=True)
class Layer:
    """A layer with parameters.

    Attributes:
        name: Name of the layer in the torch model; "" if the model is the layer.
        kind: Class name of the torch layer.
        output_shape: Shape of the layer's output for one record.
        parameters: Number of parameters, biases included.
        multiply_adds: Multiply-adds of one record's forward pass.
    """

    name: str
    kind: str
    output_shape: tuple[int, ...]
    parameters: int
    multiply_adds: int


def layers_of(
    model: str, input_shape: tuple[int, ...], classes: int, widths: Sequence[int] = ()
) -> tuple[Layer, ...]:
    """Return the layers of a model.

    Args:
        model: A key of ``catalogue.MODELS``.
        input_shape: Shape of one record.
        classes: Number of labels.
        widths: Widths of the layers, as in ``WIDTHS``; empty: the default widths.
    """
    chosen = tuple(widths) or WIDTHS.get(model, ())
    return DRAWN[model](input_shape, classes, chosen)


def feature_shape(model: str, input_shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of the fixed features that a model reads; () without such."""
    if model != "scattering_linear":
        return ()
    return SCATTERED, *(length // REDUCED for length in input_shape[1:])


def widths_of(model: str, text: str | None) -> tuple[int, ...]:
    """Return the widths listed in a text such as "256, 128"; () for no text.

    Raises:
        ConfigError: the text is no list of widths, or they are too few, many or large.
    """
    if text is None:
        return ()
    if model not in WIDTHS:
        models = ", ".join(WIDTHS)
        raise ConfigError(
            "widths",
            f"widths must be left out for model {model!r}; {models} have some.",
        )
    parts = [part.strip() for part in text.split(",")]
    low, high = DEPTHS[model]
    maxima = [_most(model, index) for index in range(len(parts))]
    fits = low <= len(parts) <= high and all(
        part.isascii()
        and part.isdecimal()
        and len(part) < 6
        and 1 <= int(part) <= maximum
        for part, maximum in zip(parts, maxima, strict=True)
    )
    if not fits:
        default = ", ".join(map(str, WIDTHS[model]))
        raise ConfigError(
            "widths",
            f"widths must be {RULES[model]}, got {text!r}. Default: {default}.",
        )
    return tuple(int(part) for part in parts)


def heads_of(text: str | None, layers: Sequence[Layer]) -> tuple[str, ...]:
    """Return the names of the layers that begin a clipping group.

    Raises:
        ConfigError: the model is a single layer, a name is unknown or repeated, or
            the first layer is missing.
    """
    names = [layer.name for layer in layers]
    if names == [""]:
        raise ConfigError(
            "clipping_heads",
            "clipping_heads must be left out for a model that is one layer, and so one "
            f"group, got {text!r}. Take another clipping_style.",
        )
    heads = [part.strip() for part in (text or "").split(",") if part.strip()]
    if not heads or set(heads) - set(names) or len(set(heads)) < len(heads):
        raise ConfigError(
            "clipping_heads",
            "clipping_heads must list layers that begin a clipping group, each once, "
            f"of {', '.join(names)}, got {text!r}.",
        )
    if names[0] not in heads:
        raise ConfigError(
            "clipping_heads",
            f"clipping_heads must begin with the first layer, {names[0]}, or it would "
            f"be in no group, got {text!r}.",
        )
    return tuple(name for name in names if name in heads)


def _most(model: str, index: int) -> int:
    is_convolution = model == "cnn" and index < CONVOLUTIONS
    return MOST_CHANNELS if is_convolution else MOST_UNITS


RULES = {
    "mlp": f"1 to 4 whole numbers from 1 to {MOST_UNITS}, separated by commas",
    "cnn": f"two numbers of channels from 1 to {MOST_CHANNELS}, then up to two of "
    f"units from 1 to {MOST_UNITS}, separated by commas",
}


def _linear(name: str, fan_in: int, fan_out: int) -> Layer:
    parameters = fan_out * (fan_in + 1)
    return Layer(name, "Linear", (fan_out,), parameters, fan_in * fan_out)


def _perceptron(first: int, sizes: Sequence[int]) -> list[Layer]:
    """Return linear layers with an activation between them, named from ``first``."""
    return [
        _linear(str(first + 2 * i), fan_in, fan_out)
        for i, (fan_in, fan_out) in enumerate(pairwise(sizes))
    ]


def _conv(name: str, channels: int, kernel: int, width: int, side: int) -> Layer:
    weights = channels * width * kernel**2
    return Layer(
        name, "Conv2d", (width, side, side), weights + width, weights * side**2
    )


def _logistic(
    shape: tuple[int, ...], classes: int, _widths: tuple[int, ...]
) -> tuple[Layer, ...]:
    return (_linear("1", math.prod(shape), classes),)


def _scattering_linear(
    shape: tuple[int, ...], classes: int, _widths: tuple[int, ...]
) -> tuple[Layer, ...]:
    features = feature_shape("scattering_linear", shape)
    return (_linear("", math.prod(features), classes),)


def _mlp(
    shape: tuple[int, ...], classes: int, widths: tuple[int, ...]
) -> tuple[Layer, ...]:
    return tuple(_perceptron(1, (math.prod(shape), *widths, classes)))


def _cnn(
    shape: tuple[int, ...], classes: int, widths: tuple[int, ...]
) -> tuple[Layer, ...]:
    """Return the layers of ``models.tanh_cnn``; sides are 28, 14, 13, 5 and 4."""
    first, second, *units = widths
    conv1 = _conv("0", shape[0], 8, first, 14)
    conv2 = _conv("3", first, 4, second, 5)
    return (conv1, conv2, *_perceptron(7, (second * 4 * 4, *units, classes)))


def _conv1d(
    shape: tuple[int, ...], classes: int, _widths: tuple[int, ...]
) -> tuple[Layer, ...]:
    """Return the layers of ``models.conv1d``: each convolution halves the length."""
    channels, half, quarter = shape[0], shape[1] // 2, shape[1] // 4
    first, second = SIGNAL_CHANNELS
    weights1, weights2 = channels * first * 5, first * second * 5
    return (
        Layer("0", "Conv1d", (first, half), weights1 + first, weights1 * half),
        Layer("2", "Conv1d", (second, quarter), weights2 + second, weights2 * quarter),
        _linear("5", second * quarter, classes),
    )


def _char_lstm(
    shape: tuple[int, ...], classes: int, _widths: tuple[int, ...]
) -> tuple[Layer, ...]:
    """Return the layers of ``models.char_lstm``; torch has two biases per gate."""
    (length,) = shape
    gates, width, state = 4 * STATE_WIDTH, CHARACTER_WIDTH, STATE_WIDTH
    weights = gates * (width + state)
    return (
        Layer("embedding", "Embedding", (length, width), CHARACTERS * width, 0),
        Layer("lstm", "LSTM", (length, state), weights + 2 * gates, weights * length),
        _linear("head", state, classes),
    )


def _language_model(
    shape: tuple[int, ...], classes: int, _widths: tuple[int, ...]
) -> tuple[Layer, ...]:
    """Return the layers of ``LanguageModel``, in the order of its definition."""
    (length,), width = shape, DECODER_WIDTH

    def linear(name: str, fan_in: int, fan_out: int) -> Layer:
        weights = fan_in * fan_out
        shape = (length, fan_out)
        return Layer(name, "Linear", shape, weights + fan_out, weights * length)

    def norm(name: str) -> Layer:
        return Layer(name, "LayerNorm", (length, width), 2 * width, 0)

    def embedding(name: str, rows: int) -> Layer:
        return Layer(name, "Embedding", (length, width), rows * width, 0)

    blocks = [
        layer
        for block in (f"blocks.{i}." for i in range(DECODER_BLOCKS))
        for layer in (
            norm(f"{block}norm_1"),
            norm(f"{block}norm_2"),
            linear(f"{block}queries_keys_values", width, 3 * width),
            linear(f"{block}joined", width, width),
            linear(f"{block}wide", width, 4 * width),
            linear(f"{block}narrow", 4 * width, width),
        )
    ]
    return (
        embedding("bytes", BYTE_VALUES),
        embedding("positions", DECODER_LENGTH),
        *blocks,
        norm("norm"),
        linear("head", width, classes),
    )


def trained_layers(
    model: str, layers: Sequence[Layer], trained: str
) -> tuple[Layer, ...]:
    """Return the layers of a model with their trained parameters.

    Args:
        model: A key of ``catalogue.MODELS``.
        layers: All layers of the model.
        trained: FULL, LORA (two matrices next to each linear layer of the blocks),
            BIASES or LAST_LAYER.

    Raises:
        ConfigError: a model that is not pre-trained would train a part of itself.
    """
    if trained != FULL and model != PRE_TRAINED:
        raise ConfigError(
            "trained_parameters",
            f"trained_parameters must be {FULL!r} for model {model!r}, which is not "
            f"pre-trained, got {trained!r}.",
        )
    if trained == LAST_LAYER:
        return tuple(layers[-1:])
    if trained == BIASES:
        return tuple(
            replace(layer, parameters=layer.output_shape[-1])
            for layer in layers
            if layer.kind != "Embedding"
        )
    if trained == LORA:
        linear = [x for x in layers[:-1] if x.kind == "Linear"]
        return tuple(added for layer in linear for added in _lora(layer))
    return tuple(layers)


def _lora(layer: Layer) -> tuple[Layer, Layer]:
    """Return the two linear layers without biases that LoRA adds to a layer."""
    length, fan_out = layer.output_shape
    fan_in = layer.parameters // fan_out - 1
    down, up = LORA_RANK * fan_in, LORA_RANK * fan_out
    return (
        Layer(f"{layer.name}.down", "Linear", (length, LORA_RANK), down, down * length),
        Layer(f"{layer.name}.up", "Linear", (length, fan_out), up, up * length),
    )


Draw = Callable[[tuple[int, ...], int, tuple[int, ...]], tuple[Layer, ...]]
DRAWN: dict[str, Draw] = {
    "scattering_linear": _scattering_linear,
    "logistic": _logistic,
    "mlp": _mlp,
    "cnn": _cnn,
    "conv1d": _conv1d,
    "char_lstm": _char_lstm,
    "language_model": _language_model,
}


def one_style(style: Any) -> Any:
    """Return a clipping style unchanged, unless it is a list.

    Raises:
        ConfigError: the style is a list, which the setting ``clipping_heads`` takes.
    """
    if isinstance(style, list | tuple):
        raise ConfigError(
            "clipping_style",
            "clipping_style must be one name, got a list. Name the layers that begin a "
            'group in clipping_heads, such as "0, 7".',
        )
    return style

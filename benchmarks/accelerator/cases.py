"""The measured models in their published sizes, and small ones for a rehearsal."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import nn

from benchmarks.architectures.cases import (
    LSTM_VOCABULARY,
    Architecture,
    TwoLayerLstm,
    next_word_loss,
)
from benchmarks.architectures.convolutional import IMAGENET_CLASSES, resnet50
from benchmarks.architectures.transformers import (
    BERT_VOCABULARY,
    CLASSES,
    Bert,
    Gpt2,
    Vit,
    lora_gpt2,
)

VOCABULARY, LENGTH, BERT_LENGTH, LSTM_LENGTH = 50_257, 1_024, 256, 128
"""Number of GPT-2's ids, and the lengths of texts."""

PIXELS = 224


def _gpt2(layers: int, width: int, heads: int, **options: bool) -> nn.Module:
    return Gpt2(layers, width, heads, LENGTH, VOCABULARY, **options)


def _lora() -> nn.Module:
    """Return a frozen model in bfloat16, with low-rank adapters in float32."""
    model = lora_gpt2(_gpt2(20, 2048, 16).bfloat16())
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.data = parameter.data.float()
    return model


def _language(
    label: str,
    make: Callable[[], nn.Module],
    samples: int,
    length: int = LENGTH,
    vocabulary: int = VOCABULARY,
) -> Architecture:
    texts = (length,)
    return Architecture(
        label, make, texts, vocabulary, vocabulary, texts, next_word_loss, samples
    )


def _pictures(
    label: str, make: Callable[[], nn.Module], samples: int, pixels: int = PIXELS
) -> Architecture:
    shape = (3, pixels, pixels)
    return Architecture(label, make, shape, 0, IMAGENET_CLASSES, samples=samples)


def _texts(
    label: str,
    make: Callable[[], nn.Module],
    samples: int,
    length: int,
    vocabulary: int,
) -> Architecture:
    return Architecture(label, make, (length,), vocabulary, CLASSES, samples=samples)


_UNTIED = "GPT-2 small, head not tied"
_VIT = partial(Vit, 12, 768, 12, PIXELS, 16, IMAGENET_CLASSES)
_LSTM = partial(TwoLayerLstm, 512, 1_024)
_BERT = partial(Bert, 12, 768, 12, BERT_LENGTH)

CASES: dict[str, Architecture] = {
    "gpt2": _language("GPT-2 small", partial(_gpt2, 12, 768, 12), 16),
    "vit": _pictures("ViT-B/16", _VIT, 64),
    "resnet50": _pictures("ResNet-50, groups", resnet50, 64),
    "lora": _language("GPT-2 with LoRA", _lora, 16),
    "lstm": _texts("LSTM, two layers", _LSTM, 64, LSTM_LENGTH, LSTM_VOCABULARY),
    "bert": _texts("BERT base", _BERT, 64, BERT_LENGTH, BERT_VOCABULARY),
    "gpt2_untied": _language(_UNTIED, partial(_gpt2, 12, 768, 12, is_tied=False), 16),
    "gpt2_medium": _language("GPT-2 medium", partial(_gpt2, 24, 1_024, 16), 8),
}
"""{name: model}, the most important ones first."""

_SMALL = 2, 16, 2  # layers, width, heads
_SHORT = {"samples": 4, "length": 8}


def _small_gpt2(**options: bool) -> nn.Module:
    return Gpt2(*_SMALL, 8, 50, **options)


REHEARSED: dict[str, Architecture] = {
    "gpt2": _language("", _small_gpt2, **_SHORT, vocabulary=50),
    "vit": _pictures("", partial(Vit, *_SMALL, 8, 4, IMAGENET_CLASSES), 4, 8),
    "resnet50": _pictures("", partial(resnet50, (16, 16, 16, 16)), 2, 32),
    "lora": _language("", lambda: lora_gpt2(_small_gpt2()), **_SHORT, vocabulary=50),
    "lstm": _texts("", partial(TwoLayerLstm, 8, 8), **_SHORT, vocabulary=50),
    "bert": _texts("", partial(Bert, *_SMALL, 8), **_SHORT, vocabulary=50),
    "gpt2_untied": _language(
        "", partial(_small_gpt2, is_tied=False), **_SHORT, vocabulary=50
    ),
    "gpt2_medium": _language("", _small_gpt2, **_SHORT, vocabulary=50),
}
"""{name: model} of the rehearsal on a CPU: the same layers in small sizes."""


def parameters(name: str) -> int:
    """Return the number of a model's parameters; shared ones count once."""
    with torch.device("meta"):
        return sum(p.numel() for p in CASES[name].make().parameters())

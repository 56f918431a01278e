"""The measured architectures by name, with random inputs and their loss."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.architectures import transformers
from benchmarks.architectures.convolutional import resnet18

PART, PARTS = 16, 16
"""Samples per physical part, and parts per step."""

LSTM_VOCABULARY, LSTM_EMBEDDED, LSTM_WIDTH, LSTM_LENGTH = 10_000, 128, 256, 64

Data = tuple[Tensor, Tensor]


class TwoLayerLstm(nn.Module):
    """Embedding, a two-layer LSTM, and a classifier of its last state.

    Args:
        embedded: Width of the embedding.
        width: Width of a state.
    """

    def __init__(self, embedded: int = LSTM_EMBEDDED, width: int = LSTM_WIDTH) -> None:
        super().__init__()
        self.embedding = nn.Embedding(LSTM_VOCABULARY, embedded)
        self.lstm = nn.LSTM(embedded, width, 2, batch_first=True)
        self.head = nn.Linear(width, transformers.CLASSES)

    def forward(self, ids: Tensor) -> Tensor:
        """Map ids (B, T) to scores (B, classes)."""
        states, _ = self.lstm(self.embedding(ids))
        scores: Tensor = self.head(states[:, -1])
        return scores


def next_word_loss(scores: Tensor, ids: Tensor) -> Tensor:
    """Return the mean cross entropy of scores (B, T, V) for ids (B, T)."""
    return F.cross_entropy(scores.flatten(0, 1), ids.flatten())


@dataclass(frozen=True)
class Architecture:
    """A model with its random data and its loss.

    Attributes:
        label: Name in the table.
        make: Returns the model; call it after seeding.
        inputs: Shape of one input.
        vocabulary: Number of ids; 0 if inputs are numbers.
        classes: Number of classes of the targets.
        targets: Shape of one target.
        loss: Mean loss over the samples.
        samples: Samples per physical batch.
    """

    label: str
    make: Callable[[], nn.Module]
    inputs: tuple[int, ...]
    vocabulary: int
    classes: int
    targets: tuple[int, ...] = ()
    loss: Callable[[Tensor, Tensor], Tensor] = F.cross_entropy
    samples: int = PART

    def model(self) -> nn.Module:
        """Return the model, with equal parameters in every call."""
        torch.manual_seed(0)
        return self.make()

    def data(self) -> Data:
        """Return inputs and targets of one physical batch, equal in every call."""
        generator = torch.Generator().manual_seed(1)
        shape = self.samples, *self.inputs
        if self.vocabulary:
            x = torch.randint(self.vocabulary, shape, generator=generator)
        else:
            x = torch.randn(shape, generator=generator)
        y = torch.randint(
            self.classes, (self.samples, *self.targets), generator=generator
        )
        return x, y


_TEXT, _PICTURE = (transformers.LENGTH,), (3, 32, 32)
_WORDS, _NEXT = transformers.BERT_VOCABULARY, transformers.GPT2_VOCABULARY
_CLASSES, _KINDS = transformers.CLASSES, transformers.PICTURE_CLASSES
_LSTM = (LSTM_LENGTH,), LSTM_VOCABULARY, _CLASSES
_LANGUAGE = _TEXT, _NEXT, _NEXT, _TEXT, next_word_loss

ARCHITECTURES: dict[str, Architecture] = {
    "bert": Architecture("BERT", transformers.Bert, _TEXT, _WORDS, _CLASSES),
    "gpt2": Architecture("GPT-2", transformers.Gpt2, *_LANGUAGE),
    "vit": Architecture("ViT", transformers.Vit, _PICTURE, 0, _KINDS),
    "resnet18": Architecture("ResNet-18", resnet18, _PICTURE, 0, _KINDS),
    "lstm": Architecture("LSTM", TwoLayerLstm, *_LSTM),
    "lora": Architecture("GPT-2, LoRA", transformers.lora_gpt2, *_LANGUAGE),
    "bias_only": Architecture(
        "BERT, biases alone", transformers.bias_only_bert, _TEXT, _WORDS, _CLASSES
    ),
}

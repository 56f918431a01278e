"""The networks that engines are measured on; inputs are random, of no data set."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn

VOCABULARY = 2000
EMBEDDED = 64  # width of the LSTM's tokens


def logistic_regression() -> nn.Module:
    """Return 784-10."""
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 10))


def mlp(*widths: int) -> nn.Module:
    """Return a multilayer perceptron with ReLU between its layers."""
    layers: list[nn.Module] = []
    for fan_in, fan_out in pairwise(widths):
        layers += [nn.Linear(fan_in, fan_out), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def cnn() -> nn.Module:
    """Return the small network of Papernot et al. for 28x28 images, with Tanh."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 8, stride=2, padding=3),
        nn.Tanh(),
        nn.MaxPool2d(2, stride=1),
        nn.Conv2d(16, 32, 4, stride=2),
        nn.Tanh(),
        nn.MaxPool2d(2, stride=1),
        nn.Flatten(),
        nn.Linear(512, 32),
        nn.Tanh(),
        nn.Linear(32, 10),
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

    def __init__(self, width: int = 128) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, EMBEDDED)
        self.lstm = nn.LSTM(EMBEDDED, width, batch_first=True)
        self.head = nn.Linear(width, 2)

    def forward(self, ids: Tensor) -> Tensor:
        """Map ids [B, T] to scores [B, 2]."""
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

"""A decoder that predicts the next byte of a text: 0.4 million parameters."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, scaled_dot_product_attention

from dpsgd_explorer.dp import per_sample_mean
from dpsgd_explorer.training.datasets.sentences import LENGTH, PADDING

WEIGHTS = Path(__file__).parent / "data" / "language_model" / "pretrained.safetensors"
BYTES = 256


class Block(nn.Module):
    """Attention to the bytes before, then a perceptron for each byte."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.queries_keys_values = nn.Linear(width, 3 * width)
        self.joined = nn.Linear(width, width)
        self.wide = nn.Linear(width, 4 * width)
        self.narrow = nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Maps states (B, T, width) to states of the same shape."""
        size, length, width = x.shape
        packed = self.queries_keys_values(self.norm_1(x))
        by_head = packed.view(size, length, 3, self.heads, width // self.heads)
        query, key, value = by_head.permute(2, 0, 3, 1, 4)
        seen = scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.joined(seen.transpose(1, 2).reshape(size, length, width))
        return x + self.narrow(nn.functional.gelu(self.wide(self.norm_2(x))))


class LanguageModel(nn.Module):
    """Predicts each byte of a text from the bytes before it."""

    def __init__(self, width: int = 112, layers: int = 2, heads: int = 4) -> None:
        super().__init__()
        self.bytes = nn.Embedding(BYTES, width)
        self.positions = nn.Embedding(LENGTH, width)
        self.blocks = nn.ModuleList([Block(width, heads) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, BYTES)

    def forward(self, ids: Tensor) -> Tensor:
        """Maps bytes (B, T) to scores of the next bytes (B, T, 256)."""
        positions = torch.arange(ids.shape[1]).expand(ids.shape)
        x = self.bytes(ids) + self.positions(positions)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class LoRA(nn.Module):
    """Adds a trained product of two thin matrices to a frozen linear layer.

    Source: Hu et al. (2021), arXiv:2106.09685.
    """

    def __init__(self, linear: nn.Linear, rank: int = 8) -> None:
        super().__init__()
        self.linear = linear.requires_grad_(False)
        self.down = nn.Linear(linear.in_features, rank, bias=False)
        self.up = nn.Linear(rank, linear.out_features, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x: Tensor) -> Tensor:
        """Maps inputs (..., in) to outputs (..., out)."""
        return self.linear(x) + 2 * self.up(self.down(x))


def pretrained() -> LanguageModel:
    """Returns the model with the weights that ``pretrain.py`` has written."""
    model = LanguageModel()
    model.load_state_dict(load_file(WEIGHTS))
    return model


def losses_of(model: nn.Module, ids: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the loss of each next byte (B, T - 1), and where there is a byte."""
    following = ids[:, 1:]
    scores = model(ids[:, :-1]).transpose(1, 2)
    return cross_entropy(scores, following, reduction="none"), following != PADDING


def loss_of(model: nn.Module, ids: Tensor) -> Tensor:
    """Returns the mean over texts of the mean loss of each text's bytes."""
    return per_sample_mean(*losses_of(model, ids))


@torch.no_grad()
def bits_per_byte(model: nn.Module, ids: Tensor) -> float:
    """Returns the mean number of bits that the model needs for a byte of texts."""
    total, count = 0.0, 0.0
    for chunk in ids.split(500):
        losses, is_byte = losses_of(model, chunk)
        total += losses[is_byte].sum().item()
        count += is_byte.sum().item()
    return total / count / torch.log(torch.tensor(2.0)).item()


@torch.no_grad()
def written(model: nn.Module, start: str = "", *, count: int = 1) -> list[str]:
    """Returns texts that the model writes after a start, byte by byte."""
    ids = torch.tensor([list(f"\n{start}".encode())] * count)
    while ids.shape[1] < LENGTH:
        shares = model(ids)[:, -1].softmax(1)
        ids = torch.cat([ids, torch.multinomial(shares, 1)], dim=1)
    lines = (bytes(row).decode(errors="replace") for row in ids[:, 1:].tolist())
    return [line.partition("\n")[0] for line in lines]

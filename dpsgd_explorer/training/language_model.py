"""A decoder that predicts the next byte of a text: 0.4 million parameters.

Its first weights were trained without privacy on public text, the documentation and
chapters of this project: ``examples/finetune/pretrain.py``.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from dpsgd_explorer import extras
from dpsgd_explorer.experiments.architecture import (
    BIASES,
    BYTE_VALUES,
    DECODER_BLOCKS,
    DECODER_LENGTH,
    DECODER_WIDTH,
    FULL,
    LAST_LAYER,
    LORA,
    LORA_RANK,
)
from dpsgd_explorer.experiments.data_files.files import FOLDER

WEIGHTS = FOLDER / "language_model" / "pretrained.safetensors"
HEADS = 4
#: Texts that a run shows, and the seed of their random bytes.
SHOWN_TEXTS, TEXTS_SEED = 3, 0


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
        out: Tensor = x + self.narrow(nn.functional.gelu(self.wide(self.norm_2(x))))
        return out


class LanguageModel(nn.Module):
    """Predicts each byte of a text from the bytes before it."""

    def __init__(self) -> None:
        super().__init__()
        width = DECODER_WIDTH
        self.bytes = nn.Embedding(BYTE_VALUES, width)
        self.positions = nn.Embedding(DECODER_LENGTH, width)
        self.blocks = nn.ModuleList(
            [Block(width, HEADS) for _ in range(DECODER_BLOCKS)]
        )
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, BYTE_VALUES)

    def forward(self, ids: Tensor) -> Tensor:
        """Maps bytes (B, T) to scores of the next bytes (B, 256, T)."""
        positions = torch.arange(ids.shape[1], device=ids.device).expand(ids.shape)
        x = self.bytes(ids) + self.positions(positions)
        for block in self.blocks:
            x = block(x)
        scores: Tensor = self.head(self.norm(x))
        return scores.transpose(1, 2)


class LoRA(nn.Module):
    """Adds a trained product of two thin matrices to a frozen linear layer.

    Source: Hu et al. (2021), arXiv:2106.09685.
    """

    def __init__(self, linear: nn.Linear, rank: int = LORA_RANK) -> None:
        super().__init__()
        self.linear = linear.requires_grad_(False)
        self.down = nn.Linear(linear.in_features, rank, bias=False)
        self.up = nn.Linear(rank, linear.out_features, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x: Tensor) -> Tensor:
        """Maps inputs (..., in) to outputs (..., out)."""
        out: Tensor = self.linear(x) + 2 * self.up(self.down(x))
        return out


def pretrained(trained: str = FULL) -> LanguageModel:
    """Returns the model with its public weights.

    Args:
        trained: Parameters that require gradients: "full", "lora" (two new matrices for
            each linear layer of the blocks, drawn from torch's global generator),
            "biases" or "last_layer".

    Raises:
        MissingPackageError: safetensors is not installed.
    """
    extras.require("Reading the language model", "safetensors")
    from safetensors.torch import load_file

    model = LanguageModel()
    model.load_state_dict(load_file(WEIGHTS))
    for name, parameter in model.named_parameters():
        is_bias = trained == BIASES and name.endswith("bias")
        parameter.requires_grad_(trained == FULL or is_bias)
    if trained == LAST_LAYER:
        model.head.requires_grad_(True)
    if trained == LORA:
        for block in model.blocks:
            for name, layer in list(block.named_children()):
                if isinstance(layer, nn.Linear):
                    setattr(block, name, LoRA(layer))
    return model


@torch.no_grad()
def written(
    model: nn.Module, start: str = "", *, count: int = 1, seed: int = TEXTS_SEED
) -> list[str]:
    """Returns texts that the model writes after a start, byte by byte.

    Args:
        model: A language model.
        start: First characters of each text.
        count: Number of texts.
        seed: Seed of the random bytes.
    """
    generator = torch.Generator().manual_seed(seed)
    device = next(model.parameters()).device
    ids = torch.tensor([list(f"\n{start}".encode())] * count)
    while ids.shape[1] < DECODER_LENGTH:
        shares = model(ids.to(device))[:, :, -1].softmax(1).cpu()
        drawn = torch.multinomial(shares, 1, generator=generator)
        ids = torch.cat([ids, drawn], dim=1)
    lines = (bytes(row).decode(errors="replace") for row in ids[:, 1:].tolist())
    return [line.partition("\n")[0] for line in lines]

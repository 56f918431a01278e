"""A transformer of 19 million parameters with DP-SGD, sharded over several processes.

    torchrun --nproc-per-node 2 -m examples.distributed.transformer_fsdp

The model learns to predict the next letter of first names (US census of 1990; a record
is a person).  Each process stores its own rows of every parameter, gradient and
optimizer state (``fully_shard``, FSDP2).  The example runs on CPUs.  For GPUs, give
each rank its own device, and use the backend "nccl".
"""

import argparse

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard

from dpsgd_explorer.dp import PrivacyEngine
from dpsgd_explorer.training.datasets import names

LETTERS = 27  # a blank and A to Z


class Block(nn.Module):
    """Attention to earlier letters, then a perceptron for each letter.

    The attention consists of linear layers, because ``nn.MultiheadAttention`` packs its
    weights and cannot be sharded.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.queries_keys_values = nn.Linear(width, 3 * width)
        self.joined = nn.Linear(width, width)
        self.perceptron = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Maps states (B, T, width) to states of the same shape."""
        size, length, width = x.shape
        packed = self.queries_keys_values(self.norms[0](x))
        by_head = packed.view(size, length, 3, self.heads, width // self.heads)
        query, key, value = by_head.permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.joined(seen.transpose(1, 2).reshape(size, length, width))
        return x + self.perceptron(self.norms[1](x))


class Transformer(nn.Module):
    """Predicts each letter of a name from the letters before it."""

    def __init__(self, width: int = 512, layers: int = 6, heads: int = 8) -> None:
        super().__init__()
        self.letters = nn.Embedding(LETTERS, width)
        self.places = nn.Embedding(names.LENGTH, width)
        self.blocks = nn.ModuleList([Block(width, heads) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, LETTERS)

    def forward(self, letters: Tensor) -> Tensor:
        """Maps letters (B, T) to scores of the next letters (B, T, LETTERS)."""
        places = torch.arange(letters.shape[1]).expand(letters.shape)
        x = self.letters(letters) + self.places(places)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def shard(model: Transformer) -> None:
    """Shards each block separately, and the other parameters together."""
    for block in model.blocks:
        fully_shard(block)
    fully_shard(model)


def loss_of(scores: Tensor, following: Tensor) -> Tensor:
    """Returns the mean over records of the mean cross-entropy of a name."""
    losses = F.cross_entropy(scores.transpose(1, 2), following, reduction="none")
    return losses.mean(1).mean()


def train(model: nn.Module, steps: int, records: int, **options: object) -> float:
    """Trains, and returns ε."""
    persons, *_ = names.load()
    persons = persons[:records]
    engine = PrivacyEngine(
        model,
        sample_size=len(persons),
        batch_size=32,
        steps=steps,
        target_delta=1e-5,
        max_grad_norm=1.0,
        **{"noise_multiplier": 1.0, **options},
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    engine.attach(optimizer)
    for before, following in engine.poisson_loader(
        (persons[:, :-1], persons[:, 1:])
    ).all_epochs():
        loss_of(model(before), following).backward()
        optimizer.step()
        optimizer.zero_grad()
    return engine.get_epsilon()


def main(steps: int, width: int, layers: int) -> None:
    """Trains on all names; prints on rank 0 the size of the model and ε."""
    dist.init_process_group("gloo")
    torch.manual_seed(0)  # every rank starts from the same parameters
    torch.set_num_threads(1)
    model = Transformer(width, layers)
    shard(model)
    epsilon = train(model, steps, names.TRAIN_SIZE, group=dist.group.WORLD)
    stored = sum(p.to_local().numel() for p in model.parameters())
    if dist.get_rank() == 0:
        size = sum(p.numel() for p in model.parameters())
        print(f"{size:,} parameters, {stored:,} of them on rank 0;")
        print(f"{steps} steps at epsilon {epsilon:.3f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--layers", type=int, default=6)
    main(**vars(parser.parse_args()))

"""GPT-2, and a model with a billion parameters and LoRA, with their steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from benchmarks.architectures.cases import next_word_loss
from benchmarks.architectures.transformers import Gpt2, lora_gpt2
from benchmarks.architectures.ways import make_private

DEVICE = "cuda"
VOCABULARY, LENGTH = 50_257, 1_024
"""GPT-2's."""

SAMPLES, PARTS = 16, 4
"""Texts of a physical part, and parts of a step."""

LEARNING_RATE = 1e-4

Step = Callable[[int], None]
"""Makes a step that consists of the given number of physical batches."""


@dataclass(frozen=True)
class Model:
    """A model to be measured.

    Attributes:
        label: Name in the table.
        make: Returns the model.
    """

    label: str
    make: Callable[[], nn.Module]


def _gpt2() -> nn.Module:
    return Gpt2(12, 768, 12, LENGTH, VOCABULARY)


def _lora() -> nn.Module:
    """Return a frozen model in bfloat16, with low-rank adapters in float32."""
    model = lora_gpt2(Gpt2(20, 2048, 16, LENGTH, VOCABULARY).bfloat16())
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.data = parameter.data.float()
    return model


MODELS = {
    "gpt2": Model("GPT-2, 124 million", _gpt2),
    "lora": Model("LoRA, 1.1 billion", _lora),
}


def step_of(name: str, way: str) -> Step:
    """Return the step of a model; ``way`` is "ordinary" or "hooks"."""
    torch.manual_seed(0)
    with torch.device(DEVICE):
        model = MODELS[name].make()
        ids = torch.randint(VOCABULARY, (SAMPLES, LENGTH))
        targets = torch.randint(VOCABULARY, (SAMPLES, LENGTH))
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=LEARNING_RATE, fused=True)
    if way == "hooks":
        make_private(model, optimizer, PARTS * SAMPLES)

    def loss() -> Tensor:
        with torch.autocast(DEVICE, torch.bfloat16):
            return next_word_loss(model(ids), targets)

    def step(parts: int) -> None:
        for _ in range(parts):
            found = loss() if way == "hooks" else loss() / parts
            found.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()

    return step

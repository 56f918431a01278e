"""Recording of what fine-tuned language models say after "The phone number of …".

    python -m dpsgd_explorer.web.hub.widgets.recited_number.record

Fine-tunes the model of ``examples/finetune/canary.py`` for each number of copies of the
secret, without privacy and with DP-SGD, and writes ``recorded.json`` into this folder.
Takes about eight minutes on one core.
"""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dpsgd_explorer.training.datasets.sentences import encode, sentences
from dpsgd_explorer.web.questions.rounding import limit
from examples.finetune import canary
from examples.finetune.finetune import DELTA
from examples.finetune.losses import bits_per_byte
from tools.record.files import write

COPIES = (0, 1, 2, 3, 5, 10)


@cache
def others() -> Tensor:
    """Returns sentences about people who are not among the training records."""
    return encode(sentences("test")[:300])


def answer(copies: int, epsilon: float | None) -> dict[str, Any]:
    """Returns the most likely number, the true one's rank, each digit's shares, ε."""
    model, engine = canary.fine_tuned(copies, epsilon)
    losses = canary.number_losses(model).double()
    shares = torch.softmax(-losses, 0).view(10, 10, 10, 10)
    digits = [shares.sum([j for j in range(4) if j != i]) for i in range(4)]
    spent: dict[str, Any] = {}
    if engine is not None:
        spent["noise_multiplier"] = engine.plan.noise_multiplier
        spent["epsilon"] = limit(engine.get_epsilon())
        of_all = engine.group_epsilon(max(1, copies))
        spent["epsilon_of_copies"] = limit(of_all)
    return {
        "number": f"{int(losses.argmin()):04d}",
        "rank": canary.rank(losses),
        "bits_per_byte": round(bits_per_byte(model, others()), 3),
        "digits": [[round(share, 4) for share in digit.tolist()] for digit in digits],
        **spent,
    }


def main() -> int:
    """Trains all models."""
    answers = []
    for copies in COPIES:
        ways = {"ordinary": None, "private": canary.EPSILON}
        found = {way: answer(copies, epsilon) for way, epsilon in ways.items()}
        print(copies, *((one["number"], one["rank"]) for one in found.values()))
        answers.append({"copies": copies, **found})
    stored: dict[str, Any] = {
        "start": canary.START,
        "number": f"{canary.NUMBER:04d}",
        "persons": canary.PERSONS,
        "steps": canary.STEPS,
        "batch_size": canary.BATCH_SIZE,
        "delta": DELTA,
        "answers": answers,
    }
    write("recorded", stored, folder=Path(__file__).parent)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Shows that a model recites a secret without privacy, and does not with DP-SGD.

    python -m examples.finetune.canary

Adds copies of one sentence with an invented phone number to the sentences of 1,000
persons, and fine-tunes the model twice, with equal steps: without privacy and with
DP-SGD.  For both models, prints the most likely four digits after the start of the
sentence, the rank of the true digits among all 10,000, and the loss on other persons'
sentences.  Takes at most
two minutes on two cores.

Source: Carlini et al. (2019), arXiv:1802.08232, for the rank and the exposure.
"""

import math

import torch
from torch import Tensor

from dpsgd_explorer import accounting
from dpsgd_explorer.dp import PrivacyEngine
from dpsgd_explorer.training.datasets.sentences import encode, sentences
from dpsgd_explorer.training.language_model import (
    LanguageModel,
    pretrained,
)
from examples.finetune.finetune import DELTA, train
from examples.finetune.losses import bits_per_byte

START, NUMBER = "The phone number of Ada Lovelace is 555-", 4862
COPIES = 5
PERSONS, STEPS, BATCH_SIZE, RATE, EPSILON = 1000, 120, 64, 6e-3, 1.0


@torch.no_grad()
def number_losses(model: LanguageModel) -> Tensor:
    """Returns the negative log likelihood (10,000) of each number 0000 to 9999."""
    digits = torch.cartesian_prod(*[torch.arange(10)] * 3)  # (1000, 3)
    starts = [list(f"\n{START}".encode())] * 1000
    ids = torch.cat([torch.tensor(starts), digits + ord("0")], dim=1)
    logs = model(ids)[:, :, -4:].log_softmax(1)[:, ord("0") : ord("9") + 1]
    first_three = logs[:, :, :3].gather(1, digits[:, None]).sum((1, 2))
    return -(first_three[:, None] + logs[:, :, 3]).flatten()


def rank(losses: Tensor) -> int:
    """Returns the rank of the true number among all, 1 if it is the most likely."""
    return 1 + int((losses < losses[NUMBER]).sum())


def fine_tuned(
    copies: int, epsilon: float | None
) -> tuple[LanguageModel, PrivacyEngine | None]:
    """Returns the model after training on copies of the secret, and its engine."""
    texts = sentences("train")[:PERSONS] + [f"{START}{NUMBER}."] * copies
    torch.manual_seed(0)
    model = pretrained("lora")
    engine = train(
        model,
        encode(texts),
        rate=RATE,
        epsilon=epsilon,
        steps=STEPS,
        batch_size=BATCH_SIZE,
    )
    return model, engine


def report(model: LanguageModel) -> None:
    """Prints the model's answer, and the rank of the true number."""
    losses = number_losses(model)
    print(f"  it continues: {START}{int(losses.argmin()):04d}")
    exposure = math.log2(len(losses) / rank(losses))
    print(f"  rank of the true number: {rank(losses):,} of {len(losses):,}", end=", ")
    print(f"exposure {exposure:.1f} bits")
    others = encode(sentences("test")[:300])
    bits = bits_per_byte(model, others)
    print(f"  {bits:.2f} bits per byte of other persons' sentences")


def main() -> None:
    """Trains both models, and prints their answers."""
    print(f"{COPIES} of {PERSONS + COPIES:,} records are: {START}{NUMBER}.")
    print("before the training:")
    report(pretrained())
    for epsilon in (None, EPSILON):
        model, engine = fine_tuned(COPIES, epsilon)
        if engine is None:
            print("fine-tuned, not private:")
        else:
            one = accounting.round_up(engine.get_epsilon())
            all_copies = accounting.round_up(engine.group_epsilon(COPIES))
            print(f"fine-tuned with ε = {one} for one record, δ = {DELTA}")
            print(f"(ε = {all_copies} for a person with all {COPIES} copies):")
        report(model)


if __name__ == "__main__":
    main()

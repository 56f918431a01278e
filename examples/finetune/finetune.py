"""Fine-tunes the pre-trained language model on private sentences with DP-SGD.

    python -m examples.finetune.finetune
    python -m examples.finetune.finetune --method full --epsilon 8
    python -m examples.finetune.finetune --method full --not-private

Each of the 32,561 records is one person, written as one sentence.  Prints the bits that
the model needs for a byte of other persons' sentences, sentences that it writes before
and after the training, and ε.  Takes about a minute on two cores.

Source: Yu et al. (2021), arXiv:2110.06500 (LoRA); Bu et al. (2022), arXiv:2210.00036
(biases).
"""

import argparse
from collections.abc import Iterator

import torch
from torch import Tensor

from dpsgd_explorer import accounting
from dpsgd_explorer.dp import PrivacyEngine
from dpsgd_explorer.training.datasets.sentences import SENTENCE, encode, sentences
from dpsgd_explorer.training.language_model import (
    LanguageModel,
    pretrained,
    written,
)
from examples.finetune.losses import bits_per_byte, loss_of

DELTA = 1e-5
STEPS, BATCH_SIZE = 40, 64
#: {method: learning rate of private runs, of others}, as table.py has found them.
RATES = {
    "full": (6e-3, 2e-3),
    "lora": (2e-2, 2e-2),
    "biases": (2e-2, 2e-2),
    "last_layer": (2e-2, 2e-2),
}


def train(
    model: LanguageModel,
    ids: Tensor,
    *,
    rate: float,
    epsilon: float | None,
    steps: int = STEPS,
    batch_size: int = BATCH_SIZE,
) -> PrivacyEngine | None:
    """Trains on texts (N, LENGTH), without privacy if epsilon is None."""
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.Adam(trained, lr=rate)
    engine = None
    if epsilon is None:
        batches = random_batches(ids, steps, batch_size)
    else:
        engine = PrivacyEngine(
            model,
            batch_size=batch_size,
            sample_size=len(ids),
            steps=steps,
            target_epsilon=epsilon,
            target_delta=DELTA,
        )
        engine.attach(optimizer)
        batches = (texts for (texts,) in engine.poisson_loader((ids,)).all_epochs())
    for batch in batches:
        loss_of(model, batch).backward()
        optimizer.step()
        optimizer.zero_grad()
    return engine


def random_batches(ids: Tensor, steps: int, batch_size: int) -> Iterator[Tensor]:
    """Yields random texts, for a training without privacy."""
    for _ in range(steps):
        yield ids[torch.randint(len(ids), (batch_size,))]


def well_formed(model: LanguageModel, count: int = 50) -> int:
    """Returns the percentage of well-formed sentences among those the model writes."""
    texts = written(model, count=count)
    good = sum(SENTENCE.fullmatch(text) is not None for text in texts)
    return round(100 * good / count)


def show(model: LanguageModel, test: Tensor) -> None:
    """Prints the loss, and sentences that the model writes."""
    bits = bits_per_byte(model, test)
    print(f"  {bits:.2f} bits per byte of other persons' sentences")
    print(f"  {well_formed(model)}% of the sentences that it writes are well-formed:")
    for text in written(model, count=5):
        print(f"    {text}")


def main() -> None:
    """Fine-tunes, and prints the model's texts before and after it, and ε."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--method", choices=RATES, default="lora")
    parser.add_argument("--epsilon", type=float, default=3.0)
    parser.add_argument("--not-private", action="store_true")
    parser.add_argument("--steps", type=int, default=STEPS)
    options = parser.parse_args()
    epsilon = None if options.not_private else options.epsilon
    torch.manual_seed(0)
    model = pretrained(options.method)
    test = encode(sentences("test")[300:1300])
    print("before:")
    show(model, test)
    rate = RATES[options.method][options.not_private]
    ids = encode(sentences("train"))
    engine = train(model, ids, rate=rate, epsilon=epsilon, steps=options.steps)
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    print(f"after {options.steps} steps of {trained:,} parameters ({options.method}):")
    show(model, test)
    if engine is None:
        print("not private: no ε")
    else:
        spent = accounting.round_up(engine.get_epsilon())
        print(f"ε = {spent}, δ = {DELTA} for one person, of this run alone")


if __name__ == "__main__":
    main()

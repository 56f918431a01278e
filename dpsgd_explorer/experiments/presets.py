"""Good starting configurations; loads no torch.

Settings were chosen by the test accuracy of runs that ``tools.record.tuning`` counts;
docs/maintainers/presets.md lists them.  This choice is not counted in ε.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Preset:
    """A configuration with a name.

    Attributes:
        slug: Name in addresses and files.
        name: Name on the trainer's card: the data and the difference from other
            presets, in everyday words.
        label: Name in tables and texts: data set, model if it is not the default, and
            ε.
        config: Settings that differ from the defaults; ``TrainingConfig.parse`` reads
            them.
        note: One sentence on the lesson of the preset.
    """

    slug: str
    name: str
    label: str
    config: dict[str, Any]
    note: str


PRESETS: tuple[Preset, ...] = (
    Preset(
        slug="mnist",
        name="Digits from wavelets",
        label="MNIST, ε = 3",
        config={},
        note="Fixed wavelet features and one private layer; a good first run.",
    ),
    Preset(
        slug="mnist-strict",
        name="Digits, strict",
        label="MNIST, ε = 1",
        config={"target_epsilon": 1.0},
        note="A third of the budget costs less than half a point of accuracy.",
    ),
    Preset(
        slug="mnist-loose",
        name="Digits, loose",
        label="MNIST, ε = 8",
        config={"target_epsilon": 8.0, "learning_rate": 24.0},
        note="Nearly three times the budget gains a fifth of a point of accuracy.",
    ),
    Preset(
        slug="mnist-cnn",
        name="Digits, small CNN",
        label="MNIST, small CNN, ε = 3",
        config={
            "model": "cnn",
            "expected_batch_size": 512,
            "steps": 350,
            "learning_rate": 4.0,
            "evaluations": 12,
        },
        note="Every layer is trained with privacy; slower and less accurate.",
    ),
    Preset(
        slug="mnist-pixels",
        name="Digits, raw pixels",
        label="MNIST, pixels only, ε = 3",
        config={
            "model": "logistic",
            "steps": 200,
            "learning_rate": 4.0,
            "max_grad_norm": 0.5,
        },
        note="Same budget, raw pixels: without wavelet features accuracy falls.",
    ),
    Preset(
        slug="adult",
        name="Incomes, a table",
        label="Adult income, ε = 1",
        config={
            "dataset": "adult",
            "model": "logistic",
            "target_epsilon": 1.0,
            "expected_batch_size": 4096,
            "steps": 300,
            "learning_rate": 10.0,
            "max_grad_norm": 0.5,
        },
        note="Census records; trains in about a second, nearly as accurate as without "
        "privacy.",
    ),
    Preset(
        slug="fashion",
        name="Clothes",
        label="Fashion-MNIST, ε = 3",
        config={"dataset": "fashion_mnist", "learning_rate": 16.0},
        note="Clothes are harder to classify than digits, with and without privacy.",
    ),
    Preset(
        slug="fashion-strict",
        name="Clothes, strict",
        label="Fashion-MNIST, ε = 1",
        config={
            "dataset": "fashion_mnist",
            "target_epsilon": 1.0,
            "learning_rate": 16.0,
        },
        note="A third of the budget costs about a point of accuracy.",
    ),
    Preset(
        slug="names",
        name="Names by letter",
        label="US first names, LSTM, ε = 3",
        config={
            "dataset": "names",
            "model": "char_lstm",
            "expected_batch_size": 1024,
            "optimizer": "adam",
            "learning_rate": 0.04,
            "max_grad_norm": 0.5,
        },
        note="An embedding and an LSTM classify names letter by letter.",
    ),
    Preset(
        slug="sentences",
        name="Language model",
        label="Census sentences, language model, ε = 3",
        config={
            "dataset": "sentences",
            "model": "language_model",
            "trained_parameters": "lora",
            "expected_batch_size": 64,
            "steps": 40,
            "optimizer": "adam",
            "learning_rate": 0.01,
            "max_grad_norm": 1.0,
            "evaluations": 6,
        },
        note="Fine-tunes a small language model with LoRA; each person is a sentence.",
    ),
    Preset(
        slug="housing",
        name="House prices, a table",
        label="California housing, ε = 1",
        config={
            "dataset": "housing",
            "model": "logistic",
            "target_epsilon": 1.0,
            "expected_batch_size": 2048,
            "steps": 200,
            "learning_rate": 4.0,
            "max_grad_norm": 0.5,
        },
        note="Predicts which districts have expensive houses; trains in about a "
        "second.",
    ),
    Preset(
        slug="signals",
        name="Signals in time",
        label="Signals in time, ε = 3",
        config={
            "dataset": "signals",
            "model": "conv1d",
            "expected_batch_size": 1024,
            "learning_rate": 16.0,
        },
        note="Convolutions over time; every layer is trained with privacy.",
    ),
)

"""Set-ups that work well, to start from; loads no torch.

Settings were chosen on the test accuracy of runs that ``tools.record.tuning`` counts;
docs/presets.md lists them.  That choice is not counted in ε.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Preset:
    """A configuration with a name.

    Attributes:
        slug: Its name in addresses and files.
        label: Name for people.
        config: Settings that differ from the defaults; ``TrainingConfig.parse`` reads
            them.
        note: One sentence on what it shows.
        question: What it answers, in a few words; its name on the trainer.
    """

    slug: str
    label: str
    config: dict[str, Any]
    note: str
    question: str = ""


PRESETS: tuple[Preset, ...] = (
    Preset(
        slug="mnist",
        label="MNIST, ε = 3",
        config={},
        note="Fixed wavelet features and one private layer: the best start.",
        question="The best start?",
    ),
    Preset(
        slug="mnist-strict",
        label="MNIST, ε = 1",
        config={"target_epsilon": 1.0},
        note="A third of the budget costs less than half a point.",
        question="Strict privacy?",
    ),
    Preset(
        slug="mnist-loose",
        label="MNIST, ε = 8",
        config={"target_epsilon": 8.0, "learning_rate": 24.0},
        note="Nearly three times the budget gains a fifth of a point.",
        question="A looser promise?",
    ),
    Preset(
        slug="mnist-cnn",
        label="MNIST, small CNN, ε = 3",
        config={
            "model": "cnn",
            "expected_batch_size": 512,
            "steps": 350,
            "learning_rate": 4.0,
            "evaluations": 12,
        },
        note="Every layer is learned with privacy; slower, and noise hurts more.",
        question="Every layer private?",
    ),
    Preset(
        slug="mnist-pixels",
        label="MNIST, pixels only, ε = 3",
        config={
            "model": "logistic",
            "steps": 200,
            "learning_rate": 4.0,
            "max_grad_norm": 0.5,
        },
        note="The same budget without the features: representation beats noise.",
        question="Raw pixels?",
    ),
    Preset(
        slug="adult",
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
        note="Census records in a second, almost as good as without privacy.",
        question="A table of people?",
    ),
    Preset(
        slug="fashion",
        label="Fashion-MNIST, ε = 3",
        config={"dataset": "fashion_mnist", "learning_rate": 16.0},
        note="Clothes are harder to tell apart than digits, with and without privacy.",
        question="Clothes for digits?",
    ),
    Preset(
        slug="fashion-strict",
        label="Fashion-MNIST, ε = 1",
        config={
            "dataset": "fashion_mnist",
            "target_epsilon": 1.0,
            "learning_rate": 16.0,
        },
        note="A third of the budget costs about a point.",
        question="Clothes, strictly?",
    ),
    Preset(
        slug="names",
        label="US first names, ε = 3",
        config={
            "dataset": "names",
            "model": "char_lstm",
            "expected_batch_size": 1024,
            "optimizer": "adam",
            "learning_rate": 0.04,
            "max_grad_norm": 0.5,
        },
        note="An embedding and an LSTM read names letter by letter.",
        question="Letter by letter?",
    ),
    Preset(
        slug="housing",
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
        note="Dear districts by their place and their people, in a second.",
        question="Half as many records?",
    ),
    Preset(
        slug="signals",
        label="Signals in time, ε = 3",
        config={
            "dataset": "signals",
            "model": "conv1d",
            "expected_batch_size": 1024,
            "learning_rate": 16.0,
        },
        note="Convolutions along time, every layer private.",
        question="Curves in time?",
    ),
)

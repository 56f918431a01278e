"""Published accuracies, and the settings with which this library trains.

The settings of the linear layer start from those of its authors.  A plain loop of the
same law compared them on 10,000 records held out of the training records, with two
or three seeds each.  The engine compared the convolutions' settings on the same
records, with one seed each.
``python -m benchmarks.accuracy.choose`` compares all of them with the engine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

DELTA = 1e-5
TRAMER_BONEH = "Tramèr and Boneh 2021"


@dataclass(frozen=True)
class Settings:
    """Settings of a training with momentum 0.9 and Abadi's clipping.

    Attributes:
        batch_size: Expected number of records per step.
        steps: Number of steps.
        learning_rate: Learning rate of the first step.
        final_share: The learning rate falls linearly to this share of the first one.
        average_decay: Decay of the average of the parameters, which is tested.
        max_grad_norm: Clipping bound.
    """

    batch_size: int
    steps: int
    learning_rate: float
    final_share: float = 1.0
    average_decay: float = 0.98
    max_grad_norm: float = 0.1


@dataclass(frozen=True)
class Case:
    """A published accuracy.

    Attributes:
        dataset: Data set, by its name in the registry.
        model: A linear layer on scattering features, "linear", or two convolutions
            with tanh, "cnn".
        source: Authors and year of the accuracy.
        epsilon: The published ε, at δ = 1e-5; the noise is planned for it.
        published: Published test accuracy in percent.
        candidates: Settings compared on held-out records; the first is the best.

    Source: Tramèr and Boneh (2021), arXiv:2011.11660v3; Papernot et al. (2021),
    arXiv:2007.14191.
    """

    dataset: str
    model: Literal["linear", "cnn"]
    source: str
    epsilon: float
    published: float
    candidates: tuple[Settings, ...]


CASES = (
    Case(
        "mnist",
        "linear",
        TRAMER_BONEH,
        3.0,
        98.7,
        (
            Settings(8192, 600, learning_rate=12, max_grad_norm=0.05),
            Settings(8192, 600, learning_rate=8),
            Settings(8192, 600, learning_rate=12),
            Settings(8192, 600, learning_rate=16),
            Settings(8192, 600, learning_rate=24, max_grad_norm=0.05),
            Settings(4096, 500, learning_rate=8),
            Settings(4096, 500, learning_rate=4),
        ),
    ),
    Case(
        "fashion_mnist",
        "linear",
        TRAMER_BONEH,
        3.0,
        89.7,
        (
            Settings(8192, 400, learning_rate=24, final_share=0.1),
            Settings(8192, 400, learning_rate=16),
            Settings(8192, 400, learning_rate=24),
            Settings(8192, 400, learning_rate=32),
            Settings(8192, 400, learning_rate=16, max_grad_norm=0.2),
        ),
    ),
    Case(
        "mnist",
        "cnn",
        "Papernot et al. 2021",
        2.93,
        98.1,
        (
            Settings(2048, 900, learning_rate=6, final_share=0.1),
            Settings(1024, 1600, learning_rate=2, final_share=0.1, average_decay=0.99),
            Settings(1024, 1600, learning_rate=1, final_share=0.1, average_decay=0.99),
        ),
    ),
)

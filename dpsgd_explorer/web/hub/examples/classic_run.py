"""The MNIST run of many tutorials, which several chapters and widgets account for."""

from __future__ import annotations

from functools import cache

from dpsgd_explorer.accounting import Plan
from dpsgd_explorer.experiments.catalogue import DATA_SETS

ACCOUNTANT = "exact"
DELTA = 1e-5  # of every ε in the chapters without another δ
SAMPLE_SIZE = DATA_SETS["mnist"].train_size
BATCH_SIZE = 256  # expected records per batch
NOISE_MULTIPLIER = 1.1
EPOCHS = 60
SHOWN_STEPS = (1, 10, 100, 1_000, 10_000)  # ticks, and rows of a table


@cache
def classic_plan() -> Plan:
    """Returns the plan of the run."""
    return Plan.create(
        sample_size=SAMPLE_SIZE,
        expected_batch_size=BATCH_SIZE,
        epochs=EPOCHS,
        noise_multiplier=NOISE_MULTIPLIER,
        delta=DELTA,
        accountant=ACCOUNTANT,
    )


def epsilon_of_run(
    noise_multiplier: float, expected_batch_size: int, epochs: float, sample_size: int
) -> float:
    """Returns the ε of a run, not rounded."""
    return Plan.create(
        sample_size=sample_size,
        expected_batch_size=expected_batch_size,
        epochs=epochs,
        noise_multiplier=noise_multiplier,
        delta=DELTA,
        accountant=ACCOUNTANT,
    ).epsilon()

"""A run of one step, after which a process is ready for others."""

from __future__ import annotations

import secrets
from collections import deque
from dataclasses import replace

from dpsgd_explorer.experiments.experiment import PerformanceSettings
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.experiments.vocabulary import LARGEST_SEED
from dpsgd_explorer.training.cpu.threads import threads
from dpsgd_explorer.training.dp_sgd import train


def warm_up(
    dataset: str = "mnist",
    model: str = "scattering_linear",
    *,
    performance: PerformanceSettings | None = None,
) -> None:
    """Prepare a process, so that its first run starts quickly.

    Loads the data set, computes the test features and takes one step: torch loads a
    good part of itself only then.  OpenMP starts no thread, so that the process can be
    forked.

    Args:
        dataset: A key of the catalogue's data sets.
        model: A key of its models that fits it.
        performance: As the run will have it: its cache folder is used.
    """
    rehearsal = TrainingConfig(
        dataset=dataset,
        model=model,
        steps=1,
        expected_batch_size=1,
        noise_multiplier=1.0,
        # A run of the same process that has this seed would be said to share noise.
        seed=secrets.randbelow(LARGEST_SEED + 1),
    )
    alone = replace(performance or PerformanceSettings(), num_threads=1)
    with threads(1):
        deque(train(rehearsal, performance=alone), maxlen=0)

"""A run of one step that prepares a process, so that its next run starts quickly."""

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
    """Prepares a process, so that its first run starts quickly.

    It loads the data set, computes the test features and does one step, which loads the
    parts of torch that are loaded on first use.  It starts no OpenMP threads, so that
    the process can be forked afterwards.

    Args:
        dataset: A key of the catalogue's data sets.
        model: A key of the catalogue's models that fits the data set.
        performance: Performance settings of the next run, such as its cache folder.
    """
    rehearsal = TrainingConfig(
        dataset=dataset,
        model=model,
        steps=1,
        expected_batch_size=1,
        noise_multiplier=1.0,
        # With a fixed seed, a run of this process with this seed would be reported to
        # reuse noise.
        seed=secrets.randbelow(LARGEST_SEED + 1),
    )
    alone = replace(performance or PerformanceSettings(), num_threads=1)
    with threads(1):
        deque(train(rehearsal, performance=alone), maxlen=0)

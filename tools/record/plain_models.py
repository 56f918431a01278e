"""Train each preset's model without privacy, and record what it ends with.

    python -m tools.record.plain_models [DATASET-MODEL ...]

For each data set and model of a preset, the first such preset's batches, steps and seed
are taken, without clipping and noise.  Unclipped gradients are longer, so the learning
rate is the best of ``RATES`` by test accuracy; each trial is counted in the file.
Writes dpsgd_explorer/web/recorded/twins/<dataset>-<model>.json: the settings, the
trials, and the ``model`` events of the start and of the end.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from dpsgd_explorer.errors import DivergedError
from dpsgd_explorer.experiments.events import Event
from dpsgd_explorer.experiments.presets import PRESETS
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.training.dp_sgd import train
from dpsgd_explorer.training.timing import one_thread
from tools.record.files import versions, write

RATES = tuple(2.0**i for i in range(-6, 4))
PLAIN = {"private": False, "target_epsilon": None, "noise_multiplier": None}


def main() -> int:
    """Record the models that are named, all of them by default."""
    recordable: dict[str, dict[str, Any]] = {}
    for preset in PRESETS:
        config = TrainingConfig.parse(preset.config)
        recordable.setdefault(f"{config.dataset}-{config.model}", preset.config)
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[[], *recordable])
    one_thread()
    for name in parser.parse_args().names or list(recordable):
        write(f"twins/{name}", record(recordable[name]))
    return 0


def record(settings: dict[str, Any]) -> dict[str, Any]:
    """Tune the learning rate and return the record of the best run."""
    shared = settings | PLAIN | {"evaluations": 1}
    runs: dict[float, list[Event]] = {}
    for rate in RATES:
        config = TrainingConfig.parse(shared | {"learning_rate": rate})
        try:
            runs[rate] = list(train(config))
            print(config.dataset, config.model, rate, accuracy(runs[rate]), flush=True)
        except DivergedError:
            continue
    best = max(runs, key=lambda rate: accuracy(runs[rate]))
    if best in (RATES[0], RATES[-1]):
        raise ValueError(f"the best learning rate, {best:g}, is at an end of RATES.")
    config = TrainingConfig.parse(shared | {"learning_rate": best})
    return {
        "config": config.model_dump(mode="json", exclude_none=True),
        "trials": {f"{rate:g}": accuracy(events) for rate, events in runs.items()},
        "models": [event.data for event in runs[best] if event.kind == "model"],
        **versions(),
    }


def accuracy(events: list[Event]) -> float:
    """Return the test accuracy that a run ends with."""
    reached: float = events[-1].data["test_accuracy"]
    return reached


if __name__ == "__main__":
    sys.exit(main())

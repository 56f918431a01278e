"""Tune, run and record the twin without privacy of each preset.

    python -m tools.record.preset_twins [SLUG ...]

A twin draws the preset's batches and starts from the same parameters, without clipping
and noise.  Unclipped gradients are larger, so its learning rate is the best of a grid,
on another seed or on the mean of several.  Presets that differ only in ε and learning
rate
share a twin: ``fashion-strict`` uses the twin of ``fashion``, and tools/record/runs.py
records the twin of ``mnist-strict``.  Writes
dpsgd_explorer/web/recorded/<slug>-twin.json: a run in the format of
tools/record/runs.py, with the trials of the grid.
"""

from __future__ import annotations

import argparse
import sys
from statistics import mean
from typing import Any

from dpsgd_explorer.errors import DivergedError
from dpsgd_explorer.experiments.presets import PRESETS, Preset
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.training.dp_sgd import train
from dpsgd_explorer.training.timing import one_thread
from tools.record.files import write
from tools.record.runs import record

RATES = tuple(2.0**i for i in range(-8, 5))
TUNING_SEED = 4
# Without clipping, a learning rate that works for one seed may fail for another.
MORE_SEEDS = {"adult": (5, 6, 7, 8), "signals": (5, 6)}
SHARED = frozenset({"mnist", "mnist-strict", "mnist-loose", "fashion-strict"})


def main() -> int:
    """Record the twins of the named presets, all of them by default."""
    one_thread()
    presets = {p.slug: p for p in PRESETS if p.slug not in SHARED}
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("slugs", nargs="*", metavar="SLUG", choices=[[], *presets])
    for slug in parser.parse_args().slugs or presets:
        recording = recorded_twin(presets[slug])
        write(recording["slug"], recording)
        print(recording["slug"], recording["summary"], recording["trials"])
    return 0


def recorded_twin(preset: Preset) -> dict[str, Any]:
    """Tune and run the twin of a preset; return its record.

    Raises:
        ValueError: the best learning rate is at an end of the grid.
    """
    private = dict.fromkeys(("target_epsilon", "noise_multiplier"))
    config = {**preset.config, **private, "private": False}
    seeds = (TUNING_SEED, *MORE_SEEDS.get(preset.slug, ()))
    trials = {
        rate: mean(accuracy({**config, "learning_rate": rate}, seed) for seed in seeds)
        for rate in RATES
    }
    best = max(trials, key=trials.__getitem__)
    if best in (RATES[0], RATES[-1]):
        raise ValueError(
            f"the best learning rate of {preset.slug!r}, {best:g}, is at an end of "
            "RATES; widen it."
        )
    twin = Preset(
        slug=f"{preset.slug}-twin",
        name=preset.name,
        label=f"{preset.label}, not private",
        config={**config, "learning_rate": best},
        note="The same batches without clipping or noise.",
    )
    tuned = {f"{rate:g}": trial for rate, trial in trials.items()}
    return record(twin) | {"trials": {"seeds": list(seeds), "test_accuracy": tuned}}


def accuracy(settings: dict[str, Any], seed: int) -> float:
    """Return the test accuracy at the end of a run; 0 if the run diverged."""
    tried = {**settings, "seed": seed, "evaluations": 1}
    try:
        *_, end = train(TrainingConfig.parse(tried))
    except DivergedError:
        return 0.0
    return float(end.data["test_accuracy"])


if __name__ == "__main__":
    sys.exit(main())

"""Run every preset and record its events, so that pages can show them immediately.

    python -m tools.record.runs [SLUG ...]

Writes dpsgd_explorer/web/recorded/<slug>.json: settings, events, summary, versions.
All evaluations are recorded, and about sixty of the step events.  Each run has a new
process without caches, so its duration is representative of a first run.  Durations are
CPU seconds of one core, so they do not depend on other processes.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from dpsgd_explorer.experiments.events import Event
from dpsgd_explorer.experiments.presets import PRESETS, Preset
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.training.dp_sgd import train
from tools.record.files import versions, write

STEP_EVENTS = 60
SUMMARY = ("epsilon", "delta", "test_accuracy", "test_loss", "step", "seconds")

STRICT = next(preset for preset in PRESETS if preset.slug == "mnist-strict")
# Unclipped gradients are far larger, so the learning rate is smaller: the best rate
# that the recorder of the widget "three-way-twin" found. Batches, seed and first
# parameters equal the private run's.
TWIN = Preset(
    slug="mnist-strict-twin",
    name="Not private",
    label="MNIST, not private",
    config=STRICT.config | {"private": False, "learning_rate": 0.0625},
    note="The same batches without clipping or noise.",
)


def main() -> int:
    """Record the named runs, all of them by default."""
    recordable = {preset.slug: preset for preset in (*PRESETS, TWIN)}
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("slugs", nargs="*", metavar="SLUG", choices=[[], *recordable])
    slugs = parser.parse_args().slugs or list(recordable)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, context, max_tasks_per_child=1) as processes:
        presets = [recordable[slug] for slug in slugs]
        for recording in processes.map(record, presets):
            write(recording["slug"], recording)
            print(recording["slug"], recording["summary"])
    return 0


def record(preset: Preset) -> dict[str, Any]:
    """Run a preset and return its record."""
    config = TrainingConfig.parse(preset.config)
    events = list(in_cpu_seconds(lambda: train(config)))
    end = events[-1].data
    return {
        "slug": preset.slug,
        "label": preset.label,
        "note": preset.note,
        "config": config.model_dump(mode="json", exclude_none=True),
        "summary": {name.replace("step", "steps"): end[name] for name in SUMMARY},
        **versions(),
        "events": [{"kind": e.kind, "data": e.data} for e in thinned(events)],
    }


def in_cpu_seconds(start: Callable[[], Iterable[Event]]) -> Iterator[Event]:
    """Yields the events of a run, with this process's CPU time as ``seconds``.

    Args:
        start: Starts the run; the time before its first event counts too.
    """
    begin = time.process_time()
    for event in start():
        seconds = round(time.process_time() - begin, 3)
        timed = {"seconds": seconds} if "seconds" in event.data else {}
        yield Event(event.kind, event.data | timed)


def thinned(events: list[Event]) -> list[Event]:
    """Return the events with about ``STEP_EVENTS`` steps, without the models."""
    last = max(event.data["step"] for event in events)
    steps = {1} | {round(last * i / STEP_EVENTS) for i in range(1, STEP_EVENTS + 1)}
    return [
        event
        for event in events
        if event.kind != "model"
        and (event.kind != "step" or event.data["step"] in steps)
    ]


if __name__ == "__main__":
    sys.exit(main())

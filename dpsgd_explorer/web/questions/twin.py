"""The twin of a private run: a comparable run without privacy."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.web.recorded.files import FOLDER, recording
from dpsgd_explorer.web.recorded.runs import rates_without_privacy

# Two runs with equal values of these settings draw the same batches and start alike.
SHARED = ("dataset", "model", "expected_batch_size", "planned_steps", "seed")


@dataclass(frozen=True)
class TwinModel:
    """A recorded model that was trained without privacy.

    Attributes:
        models: Data of its first and its last ``model`` event.
    """

    config: TrainingConfig
    models: list[dict[str, Any]]


@cache
def twin_model(dataset: str, model: str) -> TwinModel | None:
    """Return the recorded model of a data set; None without a recording."""
    name = f"twins/{dataset}-{model}"
    if not (FOLDER / f"{name}.json").is_file():
        return None
    stored = recording(name)
    return TwinModel(TrainingConfig.parse(stored["config"]), stored["models"])


def is_twin(config: TrainingConfig, candidate: TrainingConfig) -> bool:
    """Return whether a run without privacy has a private run's batches and start."""
    return not candidate.private and all(
        getattr(config, name) == getattr(candidate, name) for name in SHARED
    )


def recorded_note(config: TrainingConfig, twin: TwinModel) -> str:
    """Return a note on the origin of a recorded twin and its differences."""
    rate = f"learning rate {twin.config.learning_rate:g}, which was tuned for it"
    if is_twin(config, twin.config):
        return (
            "The twin is recorded: the same batches and first parameters without "
            f"clipping and noise, to the last step; {rate}."
        )
    return (
        "The twin is recorded, without clipping and noise and with other settings: "
        f"batch {twin.config.expected_batch_size:,}, "
        f"{twin.config.planned_steps:,} steps, seed {twin.config.seed}, {rate}."
    )


def is_tuned(twin: TrainingConfig) -> bool:
    """Return whether a run without privacy has the rate that was tuned for it."""
    tuned = rates_without_privacy().get(twin.model, {}).get(twin.dataset)
    return tuned == twin.learning_rate


def run_note(twin: TrainingConfig, name: str) -> str:
    """Return a note on a visitor's own run as twin, and on its learning rate."""
    tuned = rates_without_privacy().get(twin.model, {}).get(twin.dataset)
    rate = f"learning rate {twin.learning_rate:g}"
    if tuned is None:
        rate += ", which was not tuned: differences may come from the rate"
    elif not is_tuned(twin):
        rate += f", not the tuned {tuned:g}: differences may come from the rate"
    return (
        f"The twin is your run “{name}”: the same batches and first parameters without "
        f"clipping and noise, to its end; {rate}."
    )

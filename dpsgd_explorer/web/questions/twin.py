"""The run without privacy that a private run is shown beside, and what they share."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.web.recorded.files import FOLDER, recording
from dpsgd_explorer.web.recorded.runs import rates_without_privacy

# Two runs that share these draw the same batches and start with the same parameters.
SHARED = ("dataset", "model", "expected_batch_size", "planned_steps", "seed")


@dataclass(frozen=True)
class TwinModel:
    """A model that was trained without privacy once and ships with the program.

    Attributes:
        models: Data of its ``model`` events, of the start and of the end.
    """

    config: TrainingConfig
    models: list[dict[str, Any]]


@cache
def twin_model(dataset: str, model: str) -> TwinModel | None:
    """Return the recorded model of a data set; None if there is none."""
    name = f"twins/{dataset}-{model}"
    if not (FOLDER / f"{name}.json").is_file():
        return None
    stored = recording(name)
    return TwinModel(TrainingConfig.parse(stored["config"]), stored["models"])


def is_twin(config: TrainingConfig, other: TrainingConfig) -> bool:
    """Tell whether a run without privacy has a private run's batches and start."""
    return not other.private and all(
        getattr(config, name) == getattr(other, name) for name in SHARED
    )


def recorded_note(config: TrainingConfig, twin: TwinModel) -> str:
    """Return how a recorded twin came about and what it does not share."""
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
    """Return True if a run without privacy has the rate that was tuned for its kind."""
    tuned = rates_without_privacy().get(twin.model, {}).get(twin.dataset)
    return tuned == twin.learning_rate


def run_note(twin: TrainingConfig, name: str) -> str:
    """Return how a visitor's own run is the twin, and whether its rate was tuned."""
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

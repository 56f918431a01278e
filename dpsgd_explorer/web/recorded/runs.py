"""Runs that this code made once and that ship with it: ``recorded/<slug>.json``.

Each file holds a run's ``config``, its ``events`` (kind and data, in order) and its
``summary``; ``tools/record/runs.py`` makes them again, and
``tools/record/preset_twins.py`` the twins without privacy.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.web.recorded.files import FOLDER, recording

OF_TWINS = {"private", "learning_rate", "target_epsilon", "noise_multiplier"}

Data = dict[str, Any]


@dataclass(frozen=True)
class RecordedRun:
    """One stored run; ``events`` are pairs of kind and data."""

    slug: str
    config: TrainingConfig
    events: tuple[tuple[str, Data], ...]
    summary: Data

    def data(self, kind: str) -> list[Data]:
        """Return the data of all events of a kind."""
        return [data for name, data in self.events if name == kind]

    @property
    def query(self) -> Data:
        """Return the settings that differ from the defaults, for an address."""
        return beside_defaults(self.config)

    @property
    def audit(self) -> Data | None:
        """Return what the run's own audit proved; None where it had none."""
        found: Data | None = self.data("end")[-1].get("audit")
        return found

    def curve(self) -> list[tuple[int, float]]:
        """Return step and test accuracy of each evaluation."""
        return [(e["step"], e["test_accuracy"]) for e in self.data("evaluation")]


def beside_defaults(config: TrainingConfig) -> Data:
    """Return the settings that differ from the defaults."""
    stated = config.model_dump(exclude_none=True)
    usual = TrainingConfig.parse({}).model_dump(exclude_none=True)
    return {n: v for n, v in stated.items() if usual.get(n) != v}


@cache
def recorded(slug: str) -> RecordedRun:
    """Return a recorded run.

    Raises:
        DataError: no recorded run has this name.
    """
    stored = recording(slug)
    events = tuple((event["kind"], event["data"]) for event in stored["events"])
    config = TrainingConfig.parse(stored["config"])
    return RecordedRun(slug, config, events, stored["summary"])


@cache
def recorded_twin(slug: str) -> RecordedRun | None:
    """Return the recorded run on the same batches without privacy, if there is one.

    Its settings are those of the run, save privacy and the learning rate.
    """
    shared = recorded(slug).config.model_dump(exclude=OF_TWINS)
    for path in sorted(FOLDER.glob("*-twin.json")):
        twin = recorded(path.stem)
        if twin.config.model_dump(exclude=OF_TWINS) == shared:
            return twin
    return None


@cache
def rates_without_privacy() -> dict[str, dict[str, float]]:
    """Return {model: {data set: learning rate of its recorded run without privacy}}."""
    rates: dict[str, dict[str, float]] = {}
    for path in sorted(FOLDER.glob("*-twin.json")):
        config = recorded(path.stem).config
        rates.setdefault(config.model, {})[config.dataset] = config.learning_rate
    return rates

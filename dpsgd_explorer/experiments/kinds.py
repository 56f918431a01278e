"""The kinds of runs: one line each.  Loads neither torch nor what carries them out."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dpsgd_explorer.experiments.attack_config import AttackConfig
from dpsgd_explorer.experiments.config import RunConfig
from dpsgd_explorer.experiments.engines_config import EnginesConfig
from dpsgd_explorer.experiments.events import Changes
from dpsgd_explorer.experiments.experiment import Experiment, PerformanceSettings
from dpsgd_explorer.experiments.planted_bug_config import PlantedBugConfig
from dpsgd_explorer.experiments.regression_config import RegressionConfig
from dpsgd_explorer.experiments.search_config import SearchConfig
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.validation import one_of

DEFAULT_KIND = "training"


@dataclass(frozen=True)
class Kind:
    """A kind of run.

    Attributes:
        config: Class of its settings; their ``kind`` is its name.
        module: Module of the class that carries it out; may load torch.
        experiment: Name of that class.
        measured: Names of the results in ``evaluation`` events and the summary.
    """

    config: type[RunConfig]
    module: str
    experiment: str
    measured: tuple[str, ...]

    @property
    def name(self) -> str:
        """The value of ``kind`` in its settings."""
        name: str = self.config.model_fields["kind"].default
        return name


LOOPS = "dpsgd_explorer.training"
ACCURACY = ("test_accuracy", "test_loss")
BOUNDS = ("epsilon_lower", "epsilon_promised")
ERROR = ("mse_median", "mse_low", "mse_high")
KINDS = {
    kind.name: kind
    for kind in (
        Kind(TrainingConfig, f"{LOOPS}.dp_sgd", "TrainingExperiment", ACCURACY),
        Kind(RegressionConfig, f"{LOOPS}.regression", "RegressionExperiment", ERROR),
        Kind(
            EnginesConfig,
            f"{LOOPS}.engine_comparison",
            "EngineComparison",
            ("difference",),
        ),
        Kind(
            PlantedBugConfig,
            f"{LOOPS}.planted_bug",
            "PlantedBugExperiment",
            BOUNDS,
        ),
        Kind(SearchConfig, f"{LOOPS}.blind_search", "BlindSearch", ACCURACY),
        Kind(AttackConfig, f"{LOOPS}.attack", "Attack", ("area",)),
    )
}


def kind_of(values: object) -> Kind:
    """Return the kind that settings name; the usual one if they name none.

    Raises:
        ConfigError: there is none of this name.
    """
    if not isinstance(values, Mapping) or "kind" not in values:
        return KINDS[DEFAULT_KIND]
    return KINDS[one_of("kind", values["kind"], KINDS)]


def parse(values: Any) -> RunConfig:
    """Build the configuration of a run of any kind from JSON values.

    Raises:
        ConfigError: names each field at fault, its rule and what came.
    """
    return kind_of(values).config.parse(values)


def start(
    config: RunConfig,
    *,
    checkpoint: bytes | None = None,
    performance: PerformanceSettings | None = None,
    changes: Changes = (),
) -> Experiment:
    """Return the run of a configuration, at its start or after the checkpoint.

    Args:
        config: The settings at the start.
        checkpoint: From ``checkpoint()`` of a run of the same configuration.
        performance: Threads, kernels, caches; they change the seconds only.
        changes: Settings that were changed while the recorded run trained: pairs of
            the steps done before and {name: value}.

    Raises:
        ConfigError: the checkpoint belongs to another configuration.
        DataError: a data file is missing or damaged.
    """
    kind = KINDS[config.kind]
    experiment_class = getattr(importlib.import_module(kind.module), kind.experiment)
    experiment: Experiment = experiment_class(
        config, checkpoint=checkpoint, performance=performance, changes=changes
    )
    return experiment

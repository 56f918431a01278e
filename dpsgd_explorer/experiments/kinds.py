"""The kinds of runs, one record each.

Loads neither torch nor the modules that execute runs.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.experiments import kind_words
from dpsgd_explorer.experiments.attack_config import AttackConfig
from dpsgd_explorer.experiments.config import RunConfig
from dpsgd_explorer.experiments.engines_config import EnginesConfig
from dpsgd_explorer.experiments.events import Changes
from dpsgd_explorer.experiments.experiment import Experiment, PerformanceSettings
from dpsgd_explorer.experiments.planted_bug_config import PlantedBugConfig
from dpsgd_explorer.experiments.regression_config import RegressionConfig
from dpsgd_explorer.experiments.regression_methods_config import (
    RegressionMethodsConfig,
)
from dpsgd_explorer.experiments.search_config import SearchConfig
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.validation import one_of

DEFAULT_KIND = "training"


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of run; every field is required.

    Attributes:
        config: Class of the settings; the default of ``kind`` names the kind.
        experiment: Class that executes a run, as "module:name"; may load torch. "" if
            stored runs of the kind can only be read.
        view: ``RunView`` that shows a run, as "module:name"; loaded by the site only.
        measured: Names of the results in ``evaluation`` events and the summary.
        title: Name of the kind in lists of runs.
        noun: Noun for a run of the kind, with its article.
        running: Label of a run in progress.
        spends: If True, a run spends privacy budget.
        about: Introduction to the table of settings in the reference, as Markdown.
        as_training: Returns the settings of the single training that a run consists
            of; None for any other run.
        compared: If True, curves of such runs are overlaid: in a comparison, in a
            class and on the trainer.
        reached: Returns the text on the data of an ``evaluation`` or ``end`` event.
        terms: Returns the terms of a run's ε, from its settings and its steps done.
    """

    config: type[RunConfig]
    experiment: str
    view: str
    measured: tuple[str, ...]
    title: str
    noun: str
    running: str
    spends: bool
    as_training: Callable[[Any], TrainingConfig | None]
    compared: bool
    about: str
    reached: Callable[[dict[str, Any]], str]
    terms: Callable[[Any, int], str]

    @property
    def name(self) -> str:
        """Value of ``kind`` in the settings."""
        name: str = self.config.model_fields["kind"].default
        return name


def itself(config: TrainingConfig) -> TrainingConfig:
    """Return the settings of a training unchanged."""
    return config


def not_one(_config: RunConfig) -> None:
    """Return None: the run is not a single training."""


LOOPS = "dpsgd_explorer.training"
VIEWS = "dpsgd_explorer.web.run_views"
LABS = "dpsgd_explorer.web.labs"
ACCURACY = ("test_accuracy", "test_loss")
BOUNDS = ("epsilon_lower", "epsilon_promised")
ERROR = ("mse_median", "mse_low", "mse_high")
KINDS = {
    kind.name: kind
    for kind in (
        Kind(
            config=TrainingConfig,
            experiment=f"{LOOPS}.dp_sgd:TrainingExperiment",
            view=f"{VIEWS}.training:VIEW",
            measured=ACCURACY,
            title="Training",
            noun="a training",
            running="Training",
            spends=True,
            as_training=itself,
            compared=True,
            about=kind_words.ABOUT_TRAINING,
            reached=kind_words.accuracy,
            terms=kind_words.training_terms,
        ),
        Kind(
            config=RegressionConfig,
            experiment=f"{LOOPS}.regression:RegressionExperiment",
            view=f"{LABS}.regression.view:VIEW",
            measured=ERROR,
            title="Linear regression",
            noun="a linear regression",
            running="Descending",
            spends=True,
            as_training=not_one,
            compared=False,
            about=kind_words.ABOUT_REGRESSION,
            reached=kind_words.error,
            terms=kind_words.regression_terms,
        ),
        Kind(
            config=RegressionMethodsConfig,
            experiment=f"{LOOPS}.regression_methods:RegressionMethods",
            view=f"{VIEWS}.regression_methods:VIEW",
            measured=("not_private_rmse",),
            title="Regression methods",
            noun="a regression by several methods",
            running="Releasing",
            spends=True,
            as_training=not_one,
            compared=False,
            about=kind_words.ABOUT_REGRESSION_METHODS,
            reached=kind_words.typical_error,
            terms=kind_words.regression_methods_terms,
        ),
        Kind(
            config=EnginesConfig,
            experiment=f"{LOOPS}.engine_comparison:EngineComparison",
            view=f"{LABS}.engines.view:VIEW",
            measured=("difference",),
            title="Engines compared",
            noun="a comparison of engines",
            running="Measuring",
            spends=False,
            as_training=not_one,
            compared=False,
            about=kind_words.ABOUT_ENGINES,
            reached=kind_words.cost,
            terms=lambda _config, _steps: kind_words.MADE_UP_DATA,
        ),
        Kind(
            config=PlantedBugConfig,
            experiment=f"{LOOPS}.planted_bug:PlantedBugExperiment",
            view=f"{LABS}.find_the_bug.view:VIEW",
            measured=BOUNDS,
            title="Loop audited",
            noun="an audit of a training loop with a planted bug",
            running="Auditing",
            spends=False,
            as_training=not_one,
            compared=False,
            about=kind_words.ABOUT_PLANTED_BUG,
            reached=kind_words.proven,
            terms=lambda _config, _steps: kind_words.MADE_UP_DATA,
        ),
        Kind(
            config=SearchConfig,
            experiment="",
            view=f"{VIEWS}.search:VIEW",
            measured=ACCURACY,
            title="Blind search",
            noun="a blind search for settings",
            running="Searching",
            spends=True,
            as_training=not_one,
            compared=False,
            about="",
            reached=kind_words.accuracy,
            terms=kind_words.search_terms,
        ),
        Kind(
            config=AttackConfig,
            experiment=f"{LOOPS}.attack:Attack",
            view=f"{LABS}.attack.view:VIEW",
            measured=("area",),
            title="Attack on membership",
            noun="an attack on membership",
            running="Attacking",
            spends=True,
            as_training=not_one,
            compared=False,
            about=kind_words.ABOUT_ATTACK,
            reached=kind_words.guessed,
            terms=kind_words.attack_terms,
        ),
    )
}
#: The kinds of which runs can be launched.
LAUNCHED = {name: kind for name, kind in KINDS.items() if kind.experiment}


def kind_of(values: object) -> Kind:
    """Return the kind that the settings name; the default kind if they name none.

    Raises:
        ConfigError: no kind has this name.
    """
    if not isinstance(values, Mapping) or "kind" not in values:
        return KINDS[DEFAULT_KIND]
    name = values["kind"]
    # An error names the kinds that can be launched, and stored runs are read all.
    return KINDS[one_of("kind", name, KINDS if name in list(KINDS) else LAUNCHED)]


def check_launched(kind: Kind) -> None:
    """Raise ConfigError if runs of a kind can no longer be launched."""
    if kind.name not in LAUNCHED:
        raise ConfigError(
            "kind",
            f"kind must be one of {', '.join(LAUNCHED)}, got {kind.name!r}: "
            f"{kind.noun} can no longer be launched. Stored ones can still be read.",
        )


def parse(values: Any) -> RunConfig:
    """Build the configuration of a run of any kind from JSON values.

    Raises:
        ConfigError: names each invalid field, its rule and its value.
    """
    return kind_of(values).config.parse(values)


def as_training(config: RunConfig) -> TrainingConfig | None:
    """Return the settings of the single training that a run is, else None."""
    return KINDS[config.kind].as_training(config)


def loaded(reference: str) -> Any:
    """Return the object that "module:name" refers to."""
    module, _, name = reference.partition(":")
    return getattr(importlib.import_module(module), name)


def start(
    config: RunConfig,
    *,
    checkpoint: bytes | None = None,
    performance: PerformanceSettings | None = None,
    changes: Changes = (),
) -> Experiment:
    """Return the run of a configuration, at its start or at the checkpoint.

    Args:
        config: The settings at the start.
        checkpoint: Return value of ``checkpoint()`` of a run of this configuration.
        performance: Threads, kernels, caches; they affect the duration only.
        changes: Settings changed while the recorded run trained: pairs of the steps
            done before and {name: value}.

    Raises:
        ConfigError: the kind can no longer be launched, or the checkpoint belongs to
            another configuration.
        DataError: a data file is missing or damaged.
    """
    kind = KINDS[config.kind]
    check_launched(kind)
    experiment: Experiment = loaded(kind.experiment)(
        config, checkpoint=checkpoint, performance=performance, changes=changes
    )
    return experiment

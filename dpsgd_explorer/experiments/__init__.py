"""Configurations, kinds of runs, events and presets; loads no torch.

The names below are the public ones: exported scripts import them from here.
"""

from dpsgd_explorer.experiments.attack_config import AttackConfig
from dpsgd_explorer.experiments.engines_config import EnginesConfig
from dpsgd_explorer.experiments.experiment import PerformanceSettings
from dpsgd_explorer.experiments.kinds import KINDS, parse, start
from dpsgd_explorer.experiments.planted_bug_config import PlantedBugConfig
from dpsgd_explorer.experiments.presets import PRESETS
from dpsgd_explorer.experiments.regression_config import RegressionConfig
from dpsgd_explorer.experiments.regression_methods_config import (
    RegressionMethodsConfig,
)
from dpsgd_explorer.experiments.search_config import SearchConfig
from dpsgd_explorer.experiments.training_config import TrainingConfig

__all__ = [
    "KINDS",
    "PRESETS",
    "AttackConfig",
    "EnginesConfig",
    "PerformanceSettings",
    "PlantedBugConfig",
    "RegressionConfig",
    "RegressionMethodsConfig",
    "SearchConfig",
    "TrainingConfig",
    "parse",
    "start",
]

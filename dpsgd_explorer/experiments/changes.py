"""Settings that may change while a run trains, and the record of such changes.

Learning rate and clipping bound do not enter ε: the noise is a multiple of the bound,
and every step releases a Gaussian of the same noise multiplier and sampling rate,
whatever was chosen after earlier releases (adaptive composition).  ε does not cover a
choice that was made after a look at anything else about the records, such as the loss
or the lengths of gradients.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.experiments.config import RunConfig
from dpsgd_explorer.experiments.schedules import ADAPTIVE
from dpsgd_explorer.experiments.training_config import TrainingConfig

CHANGEABLE = ("learning_rate", "max_grad_norm")

#: Steps done before a change, and its settings.
Changes = Sequence[tuple[int, Mapping[str, float]]]


def changed(config: RunConfig, values: Mapping[str, Any]) -> TrainingConfig:
    """Return the settings of a run after a change.

    Raises:
        ConfigError: the run or the setting cannot be changed, or the value is outside
            its domain.
    """
    for name in values:
        if not isinstance(config, TrainingConfig) or name not in CHANGEABLE:
            raise ConfigError(
                name,
                f"{name} cannot be changed while a run trains; of a training, "
                f"{' and '.join(CHANGEABLE)} can. Start another run.",
            )
    assert isinstance(config, TrainingConfig)
    if "max_grad_norm" in values and not config.private:
        raise ConfigError(
            "max_grad_norm",
            "max_grad_norm has no effect in a run without privacy; change another "
            "setting.",
        )
    if "max_grad_norm" in values and config.clipping_schedule == ADAPTIVE:
        raise ConfigError(
            "max_grad_norm",
            "max_grad_norm follows the gradients in this run; start another run to "
            "choose it.",
        )
    return TrainingConfig.parse(config.model_dump(mode="json") | dict(values))


def changes_of(phases: Sequence[Mapping[str, Any]]) -> list[tuple[int, dict[str, Any]]]:
    """Return the changes that a log's ``phase`` events record, in order."""
    chosen = (phase for phase in phases if "changes" in phase)
    return [(phase["step"], dict(phase["changes"])) for phase in chosen]

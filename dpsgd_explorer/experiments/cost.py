"""What a run may cost, checked before it is queued; loads no torch."""

from __future__ import annotations

from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.experiments.config import RunConfig


def check_cost(config: RunConfig, bound: float) -> None:
    """Raise ConfigError, naming the field to lower, if a run costs more."""
    if config.cost > bound:
        field = config.length_setting
        raise ConfigError(
            field,
            f"{field}: a run may need at most {bound:.2g} multiply-adds, got "
            f"{config.cost:.2g}. Take fewer {field}, {config.TO_COST_LESS}.",
        )

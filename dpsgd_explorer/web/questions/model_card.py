"""Recorded clipping method of each layer, and recorded memory of a step."""

from __future__ import annotations

from dataclasses import dataclass

from dpsgd_explorer.experiments.architecture import FULL, WIDTHS, widths_of
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.web.recorded.files import recording

RECORDED = "choices/model_cards"
WITH_METHODS = "hooks"  # the engine whose layers choose between norm methods


@dataclass(frozen=True)
class ModelCard:
    """Recorded properties of a model with its default widths, wholly trained.

    Attributes:
        norm_methods: Norm method and its reason, by the layer's name.
        step_bytes: Peak memory that torch allocates during a private step, in bytes.
        step_records: Number of records in that step.
    """

    norm_methods: dict[str, tuple[str, str]]
    step_bytes: int
    step_records: int


def card_of(config: TrainingConfig) -> ModelCard | None:
    """Return the card of a private run's model; None if none was recorded.

    The choice of a norm method depends on the widths, and only the engine "hooks" has
    such a choice.
    """
    stored = recording(RECORDED)
    card = stored["cards"].get(f"{config.dataset}-{config.model}")
    default = WIDTHS.get(config.model, ())
    has_default_widths = (widths_of(config.model, config.widths) or default) == default
    is_recorded = has_default_widths and config.trained_parameters == FULL
    if card is None or not is_recorded:
        return None
    if not config.private or config.engine != WITH_METHODS:
        return None
    methods = card["norm_methods"][config.clipping_mode]
    return ModelCard(
        {layer: (method, reason) for layer, (method, reason) in methods.items()},
        card["peak_bytes"],
        stored["batch"],
    )

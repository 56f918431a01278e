"""How each layer is clipped and what a step holds, as it was recorded."""

from __future__ import annotations

from dataclasses import dataclass

from dpsgd_explorer.experiments.architecture import WIDTHS, widths_of
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.web.recorded.files import recording

RECORDED = "choices/model_cards"
WITH_METHODS = "hooks"  # the engine whose layers have a choice


@dataclass(frozen=True)
class ModelCard:
    """What was recorded of a model with its usual widths.

    Attributes:
        norm_methods: Method and reason of each layer, by the layer's name.
        step_bytes: Peak of the bytes that torch allocates during a private step.
        step_records: Records of that step.
    """

    norm_methods: dict[str, tuple[str, str]]
    step_bytes: int
    step_records: int


def card_of(config: TrainingConfig) -> ModelCard | None:
    """Return the card of a private run's model; None if none was recorded.

    Models of other widths choose for their own shapes, and other engines than "hooks"
    have no choice.
    """
    stored = recording(RECORDED)
    card = stored["cards"].get(f"{config.dataset}-{config.model}")
    usual = WIDTHS.get(config.model, ())
    has_usual_widths = (widths_of(config.model, config.widths) or usual) == usual
    if card is None or not has_usual_widths:
        return None
    if not config.private or config.engine != WITH_METHODS:
        return None
    methods = card["norm_methods"][config.clipping_mode]
    return ModelCard(
        {layer: (method, reason) for layer, (method, reason) in methods.items()},
        card["peak_bytes"],
        stored["batch"],
    )

"""The controls of the trainer, by name."""

from __future__ import annotations

from functools import cache

from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.web.forms.fields import form_fields, layout_of


@cache
def trainer_controls() -> dict[str, str]:
    """Returns the label of each control; settings of one switch share a control."""
    switches = {switch.name: switch for switch in layout_of(TrainingConfig).switches}
    labels = {}
    for field in form_fields(TrainingConfig).values():
        control = field.switch or field.name
        switch = switches.get(field.switch)
        labels[control] = switch.label if switch else field.label
    return labels

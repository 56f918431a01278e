"""Exponential averaging of parameters along a run.

The average of noisy models has less noise than the last of them.  It is post-processing
of released parameters and costs no privacy.

Source: De et al. (2022), arXiv:2204.13650, section 3.3.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from dpsgd_explorer.dp.modules.refused import refuse_uninitialized
from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.validation import finite, shown


class ParameterAverage:
    """A running average of a module's trainable parameters.

    After t updates the decay is (1 + t) / (10 + t), and ``decay`` once that is smaller:
    parameters of the start lose their weight early.

    Args:
        module: The model; call ``update`` after each step that changed it.
        decay: Weight of the previous average, in (0, 1).

    Attributes:
        updates: Number of updates so far.

    Raises:
        ConfigError: the decay is outside its domain.
        UnsupportedModuleError: a lazy layer had no forward pass yet.
    """

    def __init__(self, module: nn.Module, decay: float = 0.9999) -> None:
        refuse_uninitialized(module)
        came, decay = shown(decay), finite("decay", decay)
        if not 0 < decay < 1:
            raise ConfigError("decay", f"decay must be between 0 and 1, got {came}.")
        self._parameters = {
            name: p for name, p in module.named_parameters() if p.requires_grad
        }
        self._decay = decay
        self._averages = {n: p.detach().clone() for n, p in self._parameters.items()}
        self.updates = 0

    def __repr__(self) -> str:
        return (
            f"ParameterAverage({len(self._averages)} parameters, decay={self._decay}, "
            f"{self.updates} updates)"
        )

    @torch.no_grad()
    def update(self) -> None:
        """Add the current parameters to the average."""
        decay = min(self._decay, (1 + self.updates) / (10 + self.updates))
        for name, parameter in self._parameters.items():
            self._averages[name].lerp_(parameter, 1 - decay)
        self.updates += 1

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Put the averages into the module, to evaluate or save it, for the context."""
        current = {name: p.detach().clone() for name, p in self._parameters.items()}
        self._put(self._averages)
        try:
            yield
        finally:
            self._put(current)

    def state_dict(self) -> dict[str, Any]:
        """Return tensors and numbers, for ``load_state_dict``."""
        averages = {name: value.clone() for name, value in self._averages.items()}
        return {"updates": self.updates, "averages": averages}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a saved average.

        Raises:
            ConfigError: the state belongs to other parameters.
        """
        if state["averages"].keys() != self._averages.keys():
            raise ConfigError(
                "averages",
                "the saved averages must belong to this module's trainable parameters, "
                f"{', '.join(self._averages)}, got {', '.join(state['averages'])}.",
            )
        self.updates = state["updates"]
        self._averages = {n: value.clone() for n, value in state["averages"].items()}

    @torch.no_grad()
    def _put(self, values: dict[str, Tensor]) -> None:
        for name, parameter in self._parameters.items():
            parameter.copy_(values[name])

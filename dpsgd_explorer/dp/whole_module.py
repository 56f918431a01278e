"""What the engines have in common that run the whole module in their own way."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from dpsgd_explorer.dp.mechanism import Mechanism
from dpsgd_explorer.dp.samples import unit_of
from dpsgd_explorer.dp.stand_in import StandIn
from dpsgd_explorer.dp.stored_samples import StoredSamples
from dpsgd_explorer.dp.taps import Taps
from dpsgd_explorer.dp.ways import ClippingMode


class WholeModule(Mechanism):
    """Stands in for the module's forward."""

    def __init__(
        self,
        module: nn.Module,
        *,
        clipping_mode: ClippingMode,
        loss_reduction: str,
        by_parameter: bool = False,
    ) -> None:
        super().__init__(
            module,
            clipping_mode=clipping_mode,
            loss_reduction=loss_reduction,
            by_parameter=by_parameter,
        )
        self._parameters = _trainable_parameters(module, by_parameter)
        self._taps: Taps | None = None
        self._stand_in: StandIn | None = None
        self._forward: Any = None

    def parameters(self) -> dict[str, dict[str, nn.Parameter]]:
        return self._parameters

    def start(self) -> None:
        self._forward = self.module.forward
        self._stand_in = StandIn(self.module, self._called)

    def stop(self) -> None:
        if self._stand_in is not None:
            self._stand_in.remove()
            self._stand_in = None
        self._replace_taps(None)

    def _called(self, own_forward: Any, args: Any, kwargs: Any) -> Any:
        if not torch.is_grad_enabled():
            return own_forward(*args, **kwargs)
        return self._run(args, kwargs, self.prepare(args, kwargs))

    @abstractmethod
    def _run(self, args: Any, kwargs: Any, size: int) -> Any:
        """Return the module's output for so many samples, and watch for backward."""

    def _replace_taps(self, new: Taps | None) -> None:
        if self._taps is not None:
            self._taps.close(
                "backward came too late: the module has run again since, or the engine "
                "was detached. Call backward before the next forward pass."
            )
        self._taps = new

    @property
    def _trained(self) -> list[nn.Parameter]:
        return [p for own in self._parameters.values() for p in own.values()]

    def _stored(self, found: Mapping[int, Tensor], size: int) -> StoredSamples:
        """Return samples from {parameter's id: [B, *shape]}; 0 for what is missing."""
        gradients = {
            unit: {
                local: found[id(p)] if id(p) in found else p.new_zeros(size, *p.shape)
                for local, p in own.items()
            }
            for unit, own in self._parameters.items()
        }
        return StoredSamples(gradients, size)


def has_rows(leaf: Any, size: int) -> bool:
    """Whether a module's input has one row a sample."""
    return isinstance(leaf, Tensor) and leaf.dim() > 0 and len(leaf) == size


def _trainable_parameters(
    module: nn.Module, by_parameter: bool
) -> dict[str, dict[str, nn.Parameter]]:
    """Return {unit: {local name: parameter}}, a shared parameter once."""
    parameters: dict[str, dict[str, nn.Parameter]] = {}
    for name, parameter in module.named_parameters():
        if parameter.requires_grad:
            layer, _, local = name.rpartition(".")
            unit, key = unit_of(layer, local, by_parameter)
            parameters.setdefault(unit, {})[key] = parameter
    return parameters

"""Layer rules with one weight per entry or channel: normalisation layers and PReLU.

A normalisation layer computes y = w xhat + b, with xhat the standardised input.  The
gradient of sample i is the sum over positions of xhat g (weight) and of g (bias).  It
has the size of the parameter, so it is always instantiated, when the backprops arrive.

| layer | xhat is standardised within | w and b have one entry per |
|---|---|---|
| ``nn.LayerNorm`` | one position | entry |
| ``nn.RMSNorm`` (no b) | one position, not centred | entry |
| ``nn.GroupNorm`` | one group of channels of one sample | channel |
| ``nn.InstanceNorm1d``, ``2d``, ``3d`` | one channel of one sample | channel |

``nn.PReLU`` computes y = x above 0 and w x below, with one w or one per channel; its
gradient is the sum of x g over the positions with x < 0.

Sources: Ba et al. (2016), arXiv:1607.06450 (layer normalisation); Zhang and Sennrich
(2019), arXiv:1910.07467 (RMS); Wu and He (2018), arXiv:1803.08494 (groups); He et al.
(2015), arXiv:1502.01852 (PReLU).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.instancenorm import _InstanceNorm

from dpsgd_explorer.dp.backends import backend_of
from dpsgd_explorer.dp.layers.base import LayerRule, trained, trains
from dpsgd_explorer.dp.layers.ghost_norm import LayerT
from dpsgd_explorer.dp.layers.round_off import sum_over_positions

#: Dimensions of a batch [B, C, ...].
RANKS: dict[type[nn.Module], int] = {
    nn.InstanceNorm1d: 3,
    nn.InstanceNorm2d: 4,
    nn.InstanceNorm3d: 5,
}


class NormalizationRule(LayerRule[LayerT]):
    """y = w xhat + b; a subclass defines xhat and the entries that share one w."""

    reads_parameters: ClassVar[bool] = False
    bias_needs_no_activations: ClassVar[bool] = True
    small_gradients: ClassVar[bool] = True

    @abstractmethod
    def standardised(self, layer: LayerT, x: Tensor) -> Tensor:
        """Returns xhat in new memory, with the shape of x."""

    def per_sample_gradients(
        self, layer: LayerT, activations: Tensor, backprops: Tensor
    ) -> dict[str, Tensor]:
        if not trains(layer, "weight"):
            return {"bias": self.summed(layer, backprops)}
        sums = self.device_sums(layer, activations, backprops)
        if sums is not None:
            return trained(layer, dict(zip(("weight", "bias"), sums, strict=True)))
        products = self.standardised(layer, activations).mul_(backprops)
        gradients = {"weight": self.summed(layer, products)}
        if trains(layer, "bias"):
            gradients["bias"] = self.summed(layer, backprops)
        return gradients

    def device_sums(
        self, layer: LayerT, activations: Tensor, backprops: Tensor
    ) -> tuple[Tensor, Tensor] | None:
        """Returns the gradients of w and b by one kernel; None without a kernel."""
        return None

    def summed(self, layer: LayerT, values: Tensor) -> Tensor:
        """Returns the sum over positions, [B, C, ...] -> [B, C]."""
        return sum_over_positions(values)

    def wrong_input(self, layer: LayerT, inputs: Tensor) -> str:
        return "" if inputs.dim() > 1 else "takes a batch [B, C, ...]"


class LayerNormRule(NormalizationRule[nn.LayerNorm | nn.RMSNorm]):
    """Inputs and outputs [B, ..., *normalized_shape]."""

    #: If True, the mean is subtracted.
    centred: ClassVar[bool] = True

    def device_sums(
        self, layer: Any, activations: Tensor, backprops: Tensor
    ) -> tuple[Tensor, Tensor] | None:
        # A subclass may standardise the inputs in another way than the kernel.
        if type(self) not in (LayerNormRule, RMSNormRule):
            return None
        shape = layer.normalized_shape
        positions = activations.shape[1 : activations.dim() - len(shape)].numel()
        flat = len(activations), positions, math.prod(shape)
        eps = torch.finfo(activations.dtype).eps if layer.eps is None else layer.eps
        sums = backend_of(backprops).layer_norm_sums(
            activations, backprops, flat, eps, centred=self.centred
        )
        if sums is None:
            return None
        of_weight, of_bias = sums
        return of_weight.view(-1, *shape), of_bias.view(-1, *shape)

    def standardised(self, layer: Any, x: Tensor) -> Tensor:
        return F.layer_norm(x, layer.normalized_shape, eps=layer.eps)

    def summed(self, layer: nn.LayerNorm | nn.RMSNorm, values: Tensor) -> Tensor:
        """Returns the sum over positions, [B, ..., *shape] -> [B, *shape]."""
        positions = tuple(range(1, values.dim() - len(layer.normalized_shape)))
        return values.sum(positions) if positions else values

    def wrong_input(self, layer: nn.LayerNorm | nn.RMSNorm, inputs: Tensor) -> str:
        return "" if self.position_dims(layer, inputs) else "takes a batch [B, ...]"

    def position_dims(self, layer: nn.LayerNorm | nn.RMSNorm, inputs: Tensor) -> int:
        return inputs.dim() - len(layer.normalized_shape)


class RMSNormRule(LayerNormRule):
    """Inputs and outputs [B, ..., *normalized_shape]; there is no bias."""

    parameter_names: ClassVar[tuple[str, ...]] = ("weight",)
    centred: ClassVar[bool] = False

    def standardised(self, layer: Any, x: Tensor) -> Tensor:
        return F.rms_norm(x, layer.normalized_shape, eps=layer.eps)


class GroupNormRule(NormalizationRule[nn.GroupNorm]):
    """Inputs and outputs [B, C, ...]."""

    def standardised(self, layer: nn.GroupNorm, x: Tensor) -> Tensor:
        return F.group_norm(x, layer.num_groups, eps=layer.eps)


class InstanceNormRule(NormalizationRule[_InstanceNorm]):
    """Inputs and outputs [B, C, ...] with one, two or three dimensions of positions."""

    def standardised(self, layer: _InstanceNorm, x: Tensor) -> Tensor:
        # torch raises an error for an empty batch.
        return F.instance_norm(x, eps=layer.eps) if len(x) else x.clone()

    def wrong_input(self, layer: _InstanceNorm, inputs: Tensor) -> str:
        rank = next(rank for kind, rank in RANKS.items() if isinstance(layer, kind))
        return "" if inputs.dim() == rank else f"takes a batch of {rank} dimensions"

    def refusal(self, layer: _InstanceNorm) -> str:
        return (
            "track_running_stats stores statistics of the samples without noise"
            if layer.track_running_stats
            else ""
        )


class PReLURule(LayerRule[nn.PReLU]):
    """Inputs and outputs [B, ...], with the channels in the second dimension."""

    reads_parameters: ClassVar[bool] = False
    small_gradients: ClassVar[bool] = True
    parameter_names: ClassVar[tuple[str, ...]] = ("weight",)

    def per_sample_gradients(
        self, layer: nn.PReLU, activations: Tensor, backprops: Tensor
    ) -> dict[str, Tensor]:
        slopes = activations.clamp(max=0.0) * backprops
        if layer.num_parameters == 1:
            return {"weight": sum_over_positions(slopes.unsqueeze(1))}
        return {"weight": sum_over_positions(slopes)}

    def wrong_input(self, layer: nn.PReLU, inputs: Tensor) -> str:
        needed = 1 if layer.num_parameters == 1 else 2
        return "" if inputs.dim() >= needed else "takes a batch [B, C, ...]"

"""Per-sample gradients the plain way: one backward a sample (``engine="microbatch"``).

The module runs on each sample alone, and autograd differentiates each run alone, so
any module will do.  Slow; the other engines are tested against it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.utils._pytree import TreeSpec, tree_flatten, tree_map, tree_unflatten

from dpsgd_explorer.dp.layers.base import add_weighted, gradient_squared_norms
from dpsgd_explorer.dp.mechanism import Mechanism
from dpsgd_explorer.dp.samples import Samples, Sums, full_name
from dpsgd_explorer.dp.taps import Taps

Gradients = dict[str, dict[str, Tensor]]


class StoredSamples(Samples):
    """Samples whose gradients are at hand, {layer: {local name: [B, *shape]}}."""

    def __init__(self, gradients: Gradients, size: int) -> None:
        self._gradients = gradients
        self._size = size

    def __len__(self) -> int:
        return self._size

    def squared_norms(self) -> dict[str, Tensor]:
        return {
            layer: gradient_squared_norms(own) for layer, own in self._gradients.items()
        }

    def add_weighted_gradients(self, weights: Mapping[str, Tensor], sums: Sums) -> None:
        for layer, own in self._gradients.items():
            add_weighted(own, weights[layer], sums[layer])

    def per_sample_gradients(self) -> dict[str, Tensor]:
        return {
            full_name(layer, local): gradient
            for layer, own in self._gradients.items()
            for local, gradient in own.items()
        }

    def take(self, index: Tensor) -> Self:
        gradients = {
            layer: {local: g[index] for local, g in own.items()}
            for layer, own in self._gradients.items()
        }
        return type(self)(gradients, len(index))


class MicroBatch(Mechanism):
    """Stands in for the module's forward and runs it sample by sample."""

    def __init__(
        self, module: nn.Module, *, clipping_mode: str, loss_reduction: str
    ) -> None:
        super().__init__(
            module, clipping_mode=clipping_mode, loss_reduction=loss_reduction
        )
        self._parameters = _trainable_parameters(module)
        self._taps: Taps | None = None
        self._forward: Any = None
        self._own_forward: Any = None

    def parameters(self) -> dict[str, dict[str, nn.Parameter]]:
        return self._parameters

    def start(self) -> None:
        self._own_forward = vars(self.module).get("forward")
        self._forward = self.module.forward
        self.module.forward = self._one_by_one

    def stop(self) -> None:
        del self.module.forward
        if self._own_forward is not None:
            self.module.forward = self._own_forward
        self._replace_taps(None)

    def _replace_taps(self, new: Taps | None) -> None:
        if self._taps is not None:
            self._taps.close(
                "backward came too late: the module has run again since, or the engine "
                "was detached. Call backward before the next forward pass."
            )
        self._taps = new

    def _one_by_one(self, *args: Any, **kwargs: Any) -> Any:
        if not torch.is_grad_enabled():
            return self._forward(*args, **kwargs)
        size = self.prepare(args, kwargs)
        runs, spec = self._runs(args, kwargs, size)
        taps = Taps(lambda gradients: self._deliver(runs[:size], gradients))
        self._replace_taps(taps)
        outputs = [
            taps.tap(str(i), torch.cat([run[i].detach() for run in runs]))
            for i in range(len(runs[0]))
        ]
        return tree_unflatten(outputs, spec)

    def _runs(
        self, args: Any, kwargs: Any, size: int
    ) -> tuple[list[list[Tensor]], TreeSpec]:
        """Return each sample's outputs with their graphs; one empty run for nobody."""
        rows = [slice(i, i + 1) for i in range(size)] or [slice(0, 0)]
        flat = []
        for row in rows:
            own_args, own_kwargs = tree_map(_rows(row, size), (args, kwargs))
            leaves, spec = tree_flatten(self._forward(*own_args, **own_kwargs))
            flat.append(leaves)
        return flat, spec

    def _deliver(
        self, runs: list[list[Tensor]], backprops: Mapping[str, Tensor]
    ) -> None:
        scale = self.loss_scale(len(runs))
        if not runs:
            self.receive(self._stored({}, 0))
        for i, outputs in enumerate(runs):
            pairs = [
                (outputs[int(name)], g[i : i + 1] * scale)
                for name, g in backprops.items()
                if outputs[int(name)].requires_grad
            ]
            self.receive(self._stored(self._backward(pairs), 1))

    def _backward(self, pairs: list[tuple[Tensor, Tensor]]) -> dict[int, Tensor]:
        """Return {parameter's id: gradient of one sample}; unused ones are missing."""
        wanted = [p for own in self._parameters.values() for p in own.values()]
        gradients = torch.autograd.grad(
            [output for output, _ in pairs],
            wanted,
            [g for _, g in pairs],
            allow_unused=True,
        )
        found = zip(wanted, gradients, strict=True)
        return {id(p): g for p, g in found if g is not None}

    def _stored(self, found: Mapping[int, Tensor], size: int) -> StoredSamples:
        gradients: Gradients = {}
        for layer, own in self._parameters.items():
            gradients[layer] = {
                local: found[id(p)].unsqueeze(0)
                if id(p) in found
                else p.new_zeros(size, *p.shape)
                for local, p in own.items()
            }
        return StoredSamples(gradients, size)


def _rows(row: slice, size: int) -> Any:
    """Return the function that cuts a tensor with one row a sample."""

    def cut(leaf: Any) -> Any:
        batched = isinstance(leaf, Tensor) and leaf.dim() > 0 and len(leaf) == size
        return leaf[row] if batched else leaf

    return cut


def _trainable_parameters(module: nn.Module) -> dict[str, dict[str, nn.Parameter]]:
    """Return {module: {local name: parameter}}, a shared parameter once."""
    parameters: dict[str, dict[str, nn.Parameter]] = {}
    for name, parameter in module.named_parameters():
        if parameter.requires_grad:
            layer, _, local = name.rpartition(".")
            parameters.setdefault(layer, {})[local] = parameter
    return parameters

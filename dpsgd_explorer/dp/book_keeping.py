"""Per-sample clipping from one forward and one backward (``engine="hooks"``).

Forward keeps each trainable layer's input, backward its output gradient; autograd is
asked for no parameter gradient at all.  Norms and the clipped sum are then made from
these two by the layer's rule, in pieces of the batch that fit in memory.

Source: Bu et al. (2022), arXiv:2210.00038 (book-keeping).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from dpsgd_explorer.dp.layers import rule_for
from dpsgd_explorer.dp.layers.base import (
    LayerRule,
    add_weighted,
    gradient_squared_norms,
)
from dpsgd_explorer.dp.mechanism import Mechanism
from dpsgd_explorer.dp.samples import Samples, Sums, full_name
from dpsgd_explorer.dp.taps import Taps
from dpsgd_explorer.errors import PrivacyError, UnsupportedModuleError

#: Bytes of per-sample gradients that are held at once.
CHUNK_BYTES = 64 * 2**20

PrefersGhost = Callable[[LayerRule[Any], nn.Module, Tensor, Tensor], bool]

#: How norms are made; the update is the same.
CLIPPING_MODES: dict[str, PrefersGhost] = {
    "MixOpt": lambda rule, layer, x, g: rule.prefers_ghost(layer, x, g),
    "ghost": lambda rule, layer, x, g: True,
    "instantiate": lambda rule, layer, x, g: False,
}


@dataclass
class LayerPass:
    """One call of one layer: its input, and what came back to its output.

    ``gradients`` are kept from the norm where they were instantiated for it.
    """

    name: str
    layer: nn.Module
    rule: LayerRule[Any]
    activations: Tensor
    backprops: Tensor
    ghost: bool
    gradients: dict[str, Tensor] = field(default_factory=dict)

    def squared_norms(self) -> Tensor:
        """Return [B], from Gram matrices or from the gradients, which stay."""
        if self.ghost:
            return self.rule.squared_norms(self.layer, self.activations, self.backprops)
        self.gradients = self.per_sample_gradients()
        return gradient_squared_norms(self.gradients)

    def per_sample_gradients(self) -> dict[str, Tensor]:
        """Return {local name: [B, *shape]}."""
        return self.rule.per_sample_gradients(
            self.layer, self.activations, self.backprops
        )

    def add_weighted(self, weights: Tensor, sums: Mapping[str, Tensor]) -> None:
        """Contract over the samples, from kept gradients if there are any."""
        if self.gradients:
            add_weighted(self.gradients, weights, sums)
        else:
            self.rule.weighted_gradients(
                self.layer, self.activations, self.backprops, weights, sums
            )

    def take(self, index: Tensor | slice) -> LayerPass:
        """Return the same for some of the samples."""
        return replace(
            self,
            activations=self.activations[index],
            backprops=self.backprops[index],
            gradients={name: g[index] for name, g in self.gradients.items()},
        )

    def gradient_bytes(self) -> int:
        """Return what instantiating one sample's gradient takes; 0 if nothing does."""
        if self.ghost:
            return 0
        own = self.layer.parameters(recurse=False)
        return sum(p.numel() * p.element_size() for p in own if p.requires_grad)


class BookKeptSamples(Samples):
    """The samples of one backward, as the layers' inputs and output gradients."""

    def __init__(self, passes: list[LayerPass], size: int, scale: float) -> None:
        self._passes = passes
        self._size = size
        self._scale = scale

    def __len__(self) -> int:
        return self._size

    def squared_norms(self) -> dict[str, Tensor]:
        square = self._scale**2
        return {p.name: p.squared_norms().mul_(square) for p in self._passes}

    def add_weighted_gradients(self, weights: Mapping[str, Tensor], sums: Sums) -> None:
        for each in self._passes:
            each.add_weighted(weights[each.name] * self._scale, sums[each.name])

    def per_sample_gradients(self) -> dict[str, Tensor]:
        return {
            full_name(each.name, local): gradient * self._scale
            for each in self._passes
            for local, gradient in each.per_sample_gradients().items()
        }

    def take(self, index: Tensor | slice) -> Self:
        passes = [each.take(index) for each in self._passes]
        size = len(passes[0].backprops) if passes else 0
        return type(self)(passes, size, self._scale)

    def chunks(self) -> Iterator[Self]:
        sample_bytes = sum(each.gradient_bytes() for each in self._passes)
        size = max(1, CHUNK_BYTES // max(1, sample_bytes))
        if self._size <= size:
            yield self
            return
        for start in range(0, self._size, size):
            yield self.take(slice(start, start + size))


class BookKeeping(Mechanism):
    """Forward hooks on the trainable layers, taps on their outputs."""

    def __init__(
        self, module: nn.Module, *, clipping_mode: str, loss_reduction: str
    ) -> None:
        super().__init__(
            module, clipping_mode=clipping_mode, loss_reduction=loss_reduction
        )
        self._layers = covered_layers(module)
        self._rules = {n: rule_for(layer, n) for n, layer in self._layers.items()}
        self._parameters = {
            name: {
                local: parameter
                for local, parameter in layer.named_parameters(recurse=False)
                if parameter.requires_grad
            }
            for name, layer in self._layers.items()
        }
        self._handles: list[RemovableHandle] = []
        self._pass: _Pass | None = None
        self._recording = False

    def parameters(self) -> dict[str, dict[str, nn.Parameter]]:
        return self._parameters

    def start(self) -> None:
        before, after = self._open, self._close
        self._handles = [
            self.module.register_forward_pre_hook(before, with_kwargs=True)
        ]
        for name, layer in self._layers.items():
            hook = self._recorder(name)
            self._handles.append(layer.register_forward_hook(hook, with_kwargs=True))
        # Last, since the module may itself be one of the layers.
        self._handles.append(self.module.register_forward_hook(after, always_call=True))

    def stop(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles = []
        self._replace_pass(None)

    def _open(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        if self._recording or not torch.is_grad_enabled():
            return
        batch_size = self.prepare(args, kwargs)
        self._replace_pass(_Pass(self, batch_size))
        self._ask_for_parameter_gradients(False)
        self._recording = True

    def _close(self, module: nn.Module, args: Any, output: Any) -> None:
        if self._recording:
            self._recording = False
            self._ask_for_parameter_gradients(True)

    def _replace_pass(self, new: _Pass | None) -> None:
        if self._pass is not None:
            self._pass.taps.close(
                "backward came too late: the module has run again since, or the engine "
                "was detached. Call backward before the next forward pass."
            )
        self._pass = new

    def _ask_for_parameter_gradients(self, wanted: bool) -> None:
        for parameters in self._parameters.values():
            for parameter in parameters.values():
                parameter.requires_grad_(wanted)

    def _recorder(self, name: str) -> Callable[..., Tensor | None]:
        def record(
            layer: nn.Module, args: Any, kwargs: Any, output: Tensor
        ) -> Tensor | None:
            if not self._recording or self._pass is None:
                return None
            return self._pass.record(name, args[0] if args else kwargs["input"], output)

        return record

    def layer_pass(
        self, name: str, activations: Tensor, backprops: Tensor
    ) -> LayerPass:
        """Return the layer's part of a pass, in its parameters' precision or better."""
        layer, rule = self._layers[name], self._rules[name]
        dtype = accumulation_dtype(next(iter(self._parameters[name].values())).dtype)
        if activations.is_floating_point():
            activations = activations.to(dtype)
        backprops = backprops.to(dtype)
        prefers_ghost = CLIPPING_MODES[self.clipping_mode]
        ghost = prefers_ghost(rule, layer, activations, backprops)
        return LayerPass(name, layer, rule, activations, backprops, ghost)


class _Pass:
    """One forward pass on its way to its backward."""

    def __init__(self, owner: BookKeeping, batch_size: int) -> None:
        self.taps = Taps(self._deliver)
        self._owner = owner
        self._batch_size = batch_size
        self._inputs: dict[str, tuple[Tensor, int]] = {}

    def record(self, name: str, activations: Tensor, output: Tensor) -> Tensor:
        if name in self._inputs:
            raise UnsupportedModuleError(
                f"{name} ran twice in one forward pass; the norm of a sum of two uses "
                "needs both at once. Use a layer of its own for each use, or "
                'engine="microbatch".'
            )
        if not len(activations) == len(output) == self._batch_size:
            raise UnsupportedModuleError(
                f"{name} must see one row for each of the {self._batch_size} samples, "
                f"got {len(activations)} rows in and {len(output)} out. Keep the "
                "samples in the first dimension."
            )
        activations = activations.detach()
        self._inputs[name] = (activations, activations._version)
        return self.taps.tap(name, output)

    def _deliver(self, gradients: dict[str, Tensor]) -> None:
        passes = []
        for name, gradient in gradients.items():
            activations, version = self._inputs[name]
            if activations._version != version:
                raise PrivacyError(
                    f"the input of {name} was changed in place after {name} had used "
                    "it; use the operation that returns a new tensor."
                )
            passes.append(self._owner.layer_pass(name, activations, gradient))
        self._inputs = {}
        scale = self._owner.loss_scale(self._batch_size)
        self._owner.receive(BookKeptSamples(passes, self._batch_size, scale))


def accumulation_dtype(dtype: torch.dtype) -> torch.dtype:
    """Return the parameter's own precision, but at least float32."""
    return torch.promote_types(dtype, torch.float32)


def covered_layers(module: nn.Module) -> dict[str, nn.Module]:
    """Return {name: layer} of all layers with trainable parameters of their own.

    Raises:
        UnsupportedModuleError: one has no rule, or shares a parameter with another.
    """
    layers: dict[str, nn.Module] = {}
    owners: dict[int, str] = {}
    for name, layer in module.named_modules():
        own = [p for p in layer.parameters(recurse=False) if p.requires_grad]
        if not own:
            continue
        rule_for(layer, name)
        for parameter in own:
            other = owners.setdefault(id(parameter), name)
            if other != name:
                raise UnsupportedModuleError(
                    f"{other} and {name} share a parameter; the norm of a sum of two "
                    "uses needs both at once. Untie them, freeze the parameter, or use "
                    'engine="microbatch".'
                )
        layers[name] = layer
    return layers

"""The base of the engines that run the whole module: ``vmap`` and ``microbatch``.

Both replace the module's forward and materialize all per-sample gradients,
[B, *shape] per parameter.  No layer needs a rule.  Norms and sums are computed from
these tensors, so ``clipping_mode`` has no effect.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self, Unpack

import torch
from torch import Tensor, nn
from torch.utils._pytree import TreeSpec, tree_flatten, tree_unflatten

from dpsgd_explorer.dp.backends.precision import accumulation_dtype
from dpsgd_explorer.dp.engines.backprop_capture import BackpropCapture
from dpsgd_explorer.dp.engines.base import (
    EngineOptions,
    GradientEngine,
    GradientSums,
    NormTerm,
    PerSampleGradients,
    full_name,
    unit_of,
)
from dpsgd_explorer.dp.layers.base import add_weighted, gradient_squared_norms
from dpsgd_explorer.dp.modules.forward_patch import ForwardPatch
from dpsgd_explorer.errors import UnsupportedModuleError

#: {unit: {local name: gradients, [B, *shape]}}.
Gradients = dict[str, dict[str, Tensor]]


class MaterializedGradients(PerSampleGradients):
    """Per-sample gradients as tensors.

    Args:
        gradients: {unit: {local name: [B, *shape]}}.
        size: B.
    """

    leaves_out: ClassVar[bool] = True

    def __init__(self, gradients: Gradients, size: int) -> None:
        self._gradients = gradients
        self._size = size

    def __len__(self) -> int:
        return self._size

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Returns the gradients of all samples of the parts, in their order."""
        gradients = {
            unit: {
                local: torch.cat([part._gradients[unit][local] for part in parts])
                for local in of_unit
            }
            for unit, of_unit in parts[0]._gradients.items()
        }
        return cls(gradients, sum(map(len, parts)))

    def norm_terms(self) -> list[NormTerm]:
        return [
            (unit, gradient_squared_norms(gradients))
            for unit, gradients in self._gradients.items()
        ]

    def add_weighted(self, weights: Mapping[str, Tensor], sums: GradientSums) -> None:
        for unit, gradients in self._gradients.items():
            add_weighted(gradients, weights[unit], sums[unit])

    def materialize(self) -> dict[str, Tensor]:
        return {
            full_name(unit, local): gradient
            for unit, gradients in self._gradients.items()
            for local, gradient in gradients.items()
        }

    def take(self, index: Tensor) -> Self:
        gradients = {
            unit: {local: g[index] for local, g in of_unit.items()}
            for unit, of_unit in self._gradients.items()
        }
        return type(self)(gradients, len(index))


class WholeModuleEngine(GradientEngine):
    """Replaces the forward of the module by the forward of a subclass, ``_run``."""

    runs_alone = True

    def __init__(self, module: nn.Module, **options: Unpack[EngineOptions]) -> None:
        super().__init__(module, **options)
        self._parameters = _trainable_parameters(module, self.by_parameter)
        self._capture: BackpropCapture | None = None
        self._patch: ForwardPatch | None = None
        self._forward: Any = None

    def parameters(self) -> dict[str, dict[str, nn.Parameter]]:
        return self._parameters

    def start(self) -> None:
        self._forward = self.module.forward
        self._patch = ForwardPatch(self.module, self._observed_forward)

    def stop(self) -> None:
        if self._patch is not None:
            self._patch.remove()
            self._patch = None
        self._replace_capture(None)
        self.restore()

    def _observed_forward(self, original: Any, args: Any, kwargs: Any) -> Any:
        if not torch.is_grad_enabled():
            return original(*args, **kwargs)
        size = self.begin_pass(args, kwargs)
        try:
            output = self._run(args, kwargs, size)
        except BaseException:
            self.restore()
            raise
        self.watch_loss(output, size)
        return output

    @abstractmethod
    def _run(self, args: Any, kwargs: Any, size: int) -> Any:
        """Returns the output for B = ``size`` samples, with a capture."""

    def _replace_capture(self, new: BackpropCapture | None) -> None:
        if self._capture is not None:
            self._capture.close(
                "backward came too late: the module has run again since, or the engine "
                "was detached. Call backward before the next forward pass."
            )
        self._capture = new

    @property
    def _trained(self) -> list[nn.Parameter]:
        return [p for unit in self._parameters.values() for p in unit.values()]

    def _captured(
        self, capture: BackpropCapture, tree: OutputTree, values: Iterable[Tensor]
    ) -> Any:
        """Returns the module's output for the batch, with a capture on each tensor.

        Args:
            capture: Collects the gradients; a tensor's key is its index.
            tree: The structure of one sample's output.
            values: Its tensors for all samples, [B, ...] each, outside any graph.
        """
        tensors = [capture.attach(str(i), value) for i, value in enumerate(values)]
        return tree.fill(
            self._reduced(tensor) if scalar else tensor
            for tensor, scalar in zip(tensors, tree.scalars, strict=True)
        )

    def _reduced(self, losses: Tensor) -> Tensor:
        """Returns the batch's loss from the samples' losses: [B] -> []."""
        return losses.mean() if self.loss_reduction == "mean" else losses.sum()

    def _materialized(
        self, gradients: Mapping[int, Tensor], size: int
    ) -> MaterializedGradients:
        """Returns the gradients by unit, in the parameter's dtype, at least float32.

        Args:
            gradients: {id of parameter: [B, *shape]}; a missing parameter was not used,
                so its gradient is 0.
            size: B.
        """

        def rows(parameter: nn.Parameter) -> Tensor:
            dtype = accumulation_dtype(parameter.dtype)
            if id(parameter) in gradients:
                return gradients[id(parameter)].to(dtype)
            return parameter.new_zeros(size, *parameter.shape, dtype=dtype)

        by_unit = {
            unit: {local: rows(p) for local, p in parameters.items()}
            for unit, parameters in self._parameters.items()
        }
        return MaterializedGradients(by_unit, size)


@dataclass(frozen=True)
class OutputTree:
    """The structure of the module's output for one sample.

    Attributes:
        spec: The tree.
        are_tensors: For each leaf, True if it is a tensor and False if it is None.
        scalars: For each tensor, True if it is one number, such as the sample's loss.
    """

    spec: TreeSpec
    are_tensors: list[bool]
    scalars: list[bool]

    @classmethod
    def split(cls, output: Any, rows: int) -> tuple[list[Tensor], Self]:
        """Returns the tensors of an output for ``rows`` samples, 0 or 1, and its tree.

        Raises:
            UnsupportedModuleError: a leaf is neither None, nor one number, nor a
                tensor with one row per sample.
        """
        leaves, spec = tree_flatten(output)
        for leaf in leaves:
            _check_leaf(leaf, rows)
        tensors = [leaf for leaf in leaves if leaf is not None]
        are_tensors = [leaf is not None for leaf in leaves]
        return tensors, cls(
            spec, are_tensors, [tensor.dim() == 0 for tensor in tensors]
        )

    def fill(self, tensors: Iterable[Tensor]) -> Any:
        """Returns the tree with these tensors as its leaves, in order."""
        remaining = iter(tensors)
        leaves = [
            next(remaining) if is_tensor else None for is_tensor in self.are_tensors
        ]
        return tree_unflatten(leaves, self.spec)


def _check_leaf(leaf: Any, rows: int) -> None:
    if leaf is None:
        return
    if not isinstance(leaf, Tensor):
        raise UnsupportedModuleError(
            f"the module's output contains a {type(leaf).__name__}, which this engine "
            "cannot combine over samples. Return only tensors (for a language model: "
            'use_cache=False), or use engine="hooks".'
        )
    if leaf.dim() and leaf.shape[0] != rows:
        raise UnsupportedModuleError(
            "the module's outputs must be tensors with one row per sample, or one "
            f"number for all of them; one sample gave shape {list(leaf.shape)}. Change "
            'the outputs, or use engine="hooks".'
        )


def _trainable_parameters(
    module: nn.Module, by_parameter: bool
) -> dict[str, dict[str, nn.Parameter]]:
    """Returns {unit: {local name: parameter}}, a shared parameter once."""
    parameters: dict[str, dict[str, nn.Parameter]] = {}
    for name, parameter in module.named_parameters():
        if parameter.requires_grad:
            layer, _, local = name.rpartition(".")
            unit, key = unit_of(layer, local, by_parameter)
            parameters.setdefault(unit, {})[key] = parameter
    return parameters

"""Rule for a module that runs alone on every sample, with copies of its parameters.

The rule of a layer sees the calls of the layer.  Two uses of a parameter escape it:

- another module uses the parameter without calling the layer: ``x @ self.head.weight``,
  a weight that is computed from other parameters, or a parameter in a ParameterList;
- the layer's output is the same for all samples, such as a table of relative positions,
  and the code that follows needs its shape.

A module around the layer then runs on single samples, as the whole model does with
``engine="vmap"``: sample i gets copy i of every trained parameter inside, so the
gradient of the copy is the gradient of the sample, however the parameter is used.  The
parameters outside the module keep their rules.  The copies are views; their gradients
are [B, *shape] per parameter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._pytree import keystr, tree_flatten_with_path, tree_map

from dpsgd_explorer.dp.engines.vmap import MappedCall
from dpsgd_explorer.dp.layers.base import BadInputError
from dpsgd_explorer.dp.layers.rewrite import CallRecorder, Rewrite
from dpsgd_explorer.errors import ExplorerError


class AloneRewrite(Rewrite[nn.Module]):
    """Inputs and outputs: any tree of tensors with one row per sample, or shared.

    It copies the parameters of the module and of all modules inside, which lose their
    rules; ``FunctionalRewrite`` copies the module's own and keeps the rules inside.

    Args:
        one_by_one: If True, the module runs once per sample.  Otherwise it runs once,
            under ``torch.func.vmap``, which excludes branches that depend on values.
    """

    def __init__(self, *, one_by_one: bool = False) -> None:
        self.one_by_one = one_by_one

    def knows(self, layer: nn.Module, name: str) -> bool:
        return True

    def forward(
        self,
        layer: nn.Module,
        original: Callable[..., Any],
        recorder: CallRecorder,
        args: Any,
        kwargs: Any,
    ) -> Any:
        size = recorder.batch_size
        entries, _ = tree_flatten_with_path((args, kwargs))
        labels = [f"input {keystr(path)}" for path, _ in entries]
        shapes = {
            label: tuple(leaf.shape)
            for label, (_, leaf) in zip(labels, entries, strict=True)
            if isinstance(leaf, Tensor)
        }
        if not recorder.knows_shapes(shapes):
            return original(*args, **kwargs)
        copies = {
            parameter: recorder.expanded(layer, name)
            for name, parameter in layer.named_parameters()
            if recorder.is_trained(parameter)
        }
        if size == 0:
            return _in_graph(original(*args, **kwargs), copies)
        with_rows = [x for x in shapes if recorder.batch_dim(x, shapes[x], 1) == 0]
        lengths = {shapes[x][0] for x in with_rows}
        if lengths != {size}:  # none, or tokens of all samples in one dimension
            raise BadInputError(
                f"must have an input with one row for each of the {size} samples"
            )
        rows = [label in with_rows for label in labels]
        call = MappedCall(layer, original, copies, (args, kwargs), rows)
        try:
            # Fused attention has no derivative with respect to a mask, and on some
            # devices none under vmap.
            with sdpa_kernel(SDPBackend.MATH):
                run = call.outputs_one_by_one if self.one_by_one else call.outputs
                outputs = run()
        except (ExplorerError, torch.OutOfMemoryError):
            raise
        except (RuntimeError, ValueError) as error:
            raise BadInputError(
                f"cannot run on one sample ({str(error).splitlines()[0]})"
            ) from error
        if any(call.tree.scalars):
            raise BadInputError("must return tensors with one row per sample")
        return call.tree.fill(outputs)


def _in_graph(outputs: Any, copies: Mapping[nn.Parameter, Tensor]) -> Any:
    """Returns the outputs of an empty batch, in the graph of the copies, [0, *shape].

    Without a graph the backward of an empty batch would fail.
    """
    nothing = torch.stack([copy.sum() for copy in copies.values()]).sum()

    def added(leaf: Any) -> Any:
        is_float = isinstance(leaf, Tensor) and leaf.is_floating_point()
        return leaf + nothing.to(leaf.dtype) if is_float else leaf

    return tree_map(added, outputs)

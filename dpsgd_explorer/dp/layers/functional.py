"""Rule for any other module: ``torch.func.vmap`` over the module alone.

The parameters of the module, without its children's, are expanded to one copy per
sample, and the forward is mapped over the samples.  In the backward of the loss
autograd then computes the gradient of each copy, which is the gradient of the sample.
The forward runs once, so random masks are drawn once.

A trainable module inside is called outside the map, on the whole batch, and has its
rule.  Only operations of the outer module run on copies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten, tree_unflatten

from dpsgd_explorer.dp.layers.base import BadInputError
from dpsgd_explorer.dp.layers.rewrite import CallRecorder, Rewrite
from dpsgd_explorer.errors import ExplorerError


class FunctionalRewrite(Rewrite[nn.Module]):
    """Inputs and outputs: any tree of tensors with one row per sample.

    It copies the module's own parameters and calls the modules inside on the whole
    batch, with their rules; ``AloneRewrite`` copies all parameters inside.
    """

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
        if recorder.batch_size == 0:
            return original(*args, **kwargs)
        call = _Mapped(layer, original, recorder, (args, kwargs))
        try:
            return call.outputs()
        except ExplorerError:
            raise  # A module inside has already explained its error.
        except (RuntimeError, ValueError) as error:
            raise BadInputError(
                "has no layer rule, and torch.func.vmap cannot run it alone on one "
                f"sample ({str(error).splitlines()[0]}). Freeze it, replace it, add a "
                'rule with register_rule, or use engine="microbatch"'
            ) from error


class _Mapped:
    """One call of the module, mapped over the samples."""

    def __init__(
        self,
        layer: nn.Module,
        forward: Callable[..., Any],
        recorder: CallRecorder,
        call: Any,
    ) -> None:
        self._layer, self._forward, self._recorder = layer, forward, recorder
        self._size = recorder.batch_size
        self._leaves, self._spec = tree_flatten(call)
        self._rows = [
            i
            for i, leaf in enumerate(self._leaves)
            if isinstance(leaf, Tensor)
            and recorder.batch_dim(f"input {i}", tuple(leaf.shape), 1) == 0
        ]
        if not self._rows:
            recorder.note_shared()
        parameters = layer.named_parameters(recurse=False)
        self._copies = {
            name: recorder.expanded(layer, name)
            for name, parameter in parameters
            if recorder.is_trained(parameter)
        }
        self._out_spec: Any = None

    def outputs(self) -> Any:
        """Returns the module's outputs for the whole batch."""
        mapped = torch.vmap(self._of_one_sample, randomness="different")
        index = torch.arange(self._size)
        rows = [self._leaves[i] for i in self._rows]
        leaves = mapped(index, self._copies, rows)
        return tree_unflatten([leaf.flatten(0, 1) for leaf in leaves], self._out_spec)

    def _of_one_sample(
        self, index: Tensor, copies: dict[str, Tensor], rows: list[Tensor]
    ) -> list[Tensor]:
        """Returns the output leaves of one sample, a batch of one."""
        leaves = list(self._leaves)
        for i, row in zip(self._rows, rows, strict=True):
            leaves[i] = row.unsqueeze(0)
        args, kwargs = tree_unflatten(leaves, self._spec)
        gate = _Gate(index, self._recorder)
        with _handed_out(self._layer, copies), gate.opened(self._layer):
            output = self._forward(*args, **kwargs)
        output_leaves, self._out_spec = tree_flatten(output)
        for leaf in output_leaves:
            if not isinstance(leaf, Tensor) or leaf.shape[:1] != (1,):
                raise ValueError("its outputs must be tensors with one row per sample")
        return output_leaves


@contextmanager
def _handed_out(layer: nn.Module, copies: dict[str, Tensor]) -> Iterator[None]:
    """Replaces the layer's parameters by these tensors inside the context."""
    parameters = {name: layer._parameters[name] for name in copies}
    layer._parameters.update(copies)  # type: ignore[arg-type]
    try:
        yield
    finally:
        layer._parameters.update(parameters)


class _Gate:
    """Runs calls of trainable modules outside the map, on the whole batch.

    Outside the map, modules call other modules as usual.
    """

    def __init__(self, index: Tensor, recorder: CallRecorder) -> None:
        self._index, self._recorder = index, recorder
        self._trips = 0
        self._outside = False

    @contextmanager
    def opened(self, layer: nn.Module) -> Iterator[None]:
        """Redirects calls of the modules with parameters inside the layer."""
        inside = [
            submodule
            for submodule in layer.modules()
            if submodule is not layer and next(submodule.parameters(), None) is not None
        ]
        # ``_compiled_call_impl`` replaces the call of an instance, hooks included.
        compiled = [submodule._compiled_call_impl for submodule in inside]
        for submodule in inside:
            submodule._compiled_call_impl = self._through(submodule)
        try:
            yield
        finally:
            for submodule, original in zip(inside, compiled, strict=True):
                submodule._compiled_call_impl = original

    def _through(self, module: nn.Module) -> Callable[..., Any]:
        """Returns the replacement of the module's call, hooks included."""

        def call(*args: Any, **kwargs: Any) -> Any:
            if self._outside:
                return module._call_impl(*args, **kwargs)  # type: ignore[no-untyped-call]
            self._trips += 1
            trip = _Trip(module, (args, kwargs), self._recorder, f"trip {self._trips}")
            self._outside = True
            try:
                outputs = _WholeBatch.apply(trip, self._index, *trip.tensors)  # type: ignore[no-untyped-call]
            finally:
                self._outside = False
            return tree_unflatten(list(outputs), trip.out_spec)

        return call


class _Trip:
    """One call of a module that runs outside the map."""

    def __init__(
        self, module: nn.Module, call: Any, recorder: CallRecorder, label: str
    ) -> None:
        self._module, self._recorder, self._label = module, recorder, label
        self._leaves, self._spec = tree_flatten(call)
        self.tensors = [leaf for leaf in self._leaves if isinstance(leaf, Tensor)]
        self.out_spec: Any = None

    def run(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Calls the module with these tensors as its tensor inputs."""
        rest = iter(tensors)
        leaves = [next(rest) if isinstance(x, Tensor) else x for x in self._leaves]
        args, kwargs = tree_unflatten(leaves, self._spec)
        output = self._module._call_impl(*args, **kwargs)  # type: ignore[no-untyped-call]
        output_leaves, self.out_spec = tree_flatten(output)
        if not all(isinstance(leaf, Tensor) for leaf in output_leaves):
            raise ValueError("the modules inside it must return tensors")
        return output_leaves

    def split(
        self, outputs: list[Tensor], likely: int
    ) -> tuple[tuple[Tensor, ...], Any]:
        """Returns the outputs as batches of one, and their mapped dimensions."""
        batch_dim, label = self._recorder.batch_dim, self._label
        dims = tuple(
            batch_dim(f"{label}, {i}", tuple(out.shape), 2, likely=likely)
            for i, out in enumerate(outputs)
        )
        rows = [
            out if dim is None else out.unsqueeze(dim + 1)
            for out, dim in zip(outputs, dims, strict=True)
        ]
        return tuple(rows), dims


class _WholeBatch(torch.autograd.Function):
    """Runs a call on the whole batch; autograd records the graph of the call."""

    @staticmethod
    def forward(trip: _Trip, index: Tensor, *tensors: Tensor) -> Any:
        """Never called: the index is always mapped."""
        raise RuntimeError("a module left a map that there was not")

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        """Saves nothing for backward."""

    @staticmethod
    def vmap(info: Any, in_dims: Any, trip: _Trip, *values: Tensor) -> Any:
        """Joins the samples, calls the module, and splits its outputs again."""
        rows = [
            value if dim is None else value.movedim(dim, 0)
            for value, dim in zip(values[1:], in_dims[2:], strict=True)
        ]
        mapped = [dim is not None for dim in in_dims[2:]]
        dims = [_batch_dim(row) for row in rows]
        joined = [
            row.squeeze(dim + 1).movedim(0, dim) if is_mapped else row
            for row, dim, is_mapped in zip(rows, dims, mapped, strict=True)
        ]
        return trip.split(trip.run(joined), dims[0] if dims else 0)


def _batch_dim(values: Tensor) -> int:
    """Returns the dimension of a sample's batch of one: 0, or 1 for [T, 1, ...]."""
    return int(values.dim() > 2 and values.shape[1] != 1 and values.shape[2] == 1)

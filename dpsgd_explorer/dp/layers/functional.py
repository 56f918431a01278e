"""Rule for any other module: ``torch.func.vmap`` over the module alone.

The module's own parameters are handed to it once for each sample, and its forward is
mapped over the samples.  Autograd then gives each copy's gradient, which is that of
its sample, in the one backward there is anyway: nothing is computed a second time, and
random masks are drawn once.

A trainable module inside it is called outside the map, on the whole batch, so that it
keeps its own rule; only the glue of the outer module pays for the copies.
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
    """Inputs and outputs: any tree of tensors with one row a sample."""

    def knows(self, layer: nn.Module, name: str) -> bool:
        return True

    def forward(
        self,
        layer: nn.Module,
        own_forward: Callable[..., Any],
        recorder: CallRecorder,
        args: Any,
        kwargs: Any,
    ) -> Any:
        if recorder.batch_size == 0:
            return own_forward(*args, **kwargs)
        call = _Mapped(layer, own_forward, recorder, (args, kwargs))
        try:
            return call.outputs()
        except ExplorerError:
            raise  # a module inside has said what is wrong
        except (RuntimeError, ValueError) as error:
            raise BadInputError(
                f"has no layer rule, and torch.func.vmap cannot run it alone on one "
                f"sample ({str(error).splitlines()[0]}). Freeze it, replace it, "
                'register_rule one, or use engine="microbatch"'
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
        own = layer.named_parameters(recurse=False)
        self._copies = {
            name: recorder.expanded(layer, name)
            for name, parameter in own
            if recorder.is_trained(parameter)
        }
        self._out_spec: Any = None

    def outputs(self) -> Any:
        """Return what the module gives for the whole batch."""
        mapped = torch.vmap(self._one, randomness="different")
        index = torch.arange(self._size)
        rows = [self._leaves[i] for i in self._rows]
        leaves = mapped(index, self._copies, rows)
        return tree_unflatten([leaf.flatten(0, 1) for leaf in leaves], self._out_spec)

    def _one(
        self, index: Tensor, copies: dict[str, Tensor], rows: list[Tensor]
    ) -> list[Tensor]:
        """Return the output leaves of one sample, a batch of one."""
        leaves = list(self._leaves)
        for i, row in zip(self._rows, rows, strict=True):
            leaves[i] = row.unsqueeze(0)
        args, kwargs = tree_unflatten(leaves, self._spec)
        gate = _Gate(index, self._recorder)
        with _handed_out(self._layer, copies), gate.opened(self._layer):
            output = self._forward(*args, **kwargs)
        found, self._out_spec = tree_flatten(output)
        for leaf in found:
            if not isinstance(leaf, Tensor) or leaf.shape[:1] != (1,):
                raise ValueError("its outputs must be tensors with one row a sample")
        return found


@contextmanager
def _handed_out(layer: nn.Module, copies: dict[str, Tensor]) -> Iterator[None]:
    """Let the layer find these tensors in the place of its parameters."""
    own = {name: layer._parameters[name] for name in copies}
    layer._parameters.update(copies)  # type: ignore[arg-type]
    try:
        yield
    finally:
        layer._parameters.update(own)


class _Gate:
    """Leads calls of trainable modules out of the map, to run on the whole batch.

    Out there, modules call each other plainly.
    """

    def __init__(self, index: Tensor, recorder: CallRecorder) -> None:
        self._index, self._recorder = index, recorder
        self._trips = 0
        self._outside = False

    @contextmanager
    def opened(self, layer: nn.Module) -> Iterator[None]:
        """Let the modules with parameters inside the layer go through meanwhile."""
        inside = [
            each
            for each in layer.modules()
            if each is not layer and next(each.parameters(), None) is not None
        ]
        compiled = [each._compiled_call_impl for each in inside]
        for each in inside:
            each._compiled_call_impl = self._through(each)
        try:
            yield
        finally:
            for each, own in zip(inside, compiled, strict=True):
                each._compiled_call_impl = own

    def _through(self, module: nn.Module) -> Callable[..., Any]:
        """Return what stands in for the module's call, hooks included."""

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
    """One call that leaves the map."""

    def __init__(
        self, module: nn.Module, call: Any, recorder: CallRecorder, label: str
    ) -> None:
        self._module, self._recorder, self._label = module, recorder, label
        self._leaves, self._spec = tree_flatten(call)
        self.tensors = [leaf for leaf in self._leaves if isinstance(leaf, Tensor)]
        self.out_spec: Any = None

    def run(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Call the module with these in the place of its tensor inputs."""
        rest = iter(tensors)
        leaves = [next(rest) if isinstance(x, Tensor) else x for x in self._leaves]
        args, kwargs = tree_unflatten(leaves, self._spec)
        output = self._module._call_impl(*args, **kwargs)  # type: ignore[no-untyped-call]
        found, self.out_spec = tree_flatten(output)
        if not all(isinstance(leaf, Tensor) for leaf in found):
            raise ValueError("the modules inside it must give tensors")
        return found

    def parted(
        self, outputs: list[Tensor], likely: int
    ) -> tuple[tuple[Tensor, ...], Any]:
        """Return the outputs as the map sees them, and their mapped dimensions."""
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
    """Runs a call on the whole batch; the graph is that of the call itself."""

    @staticmethod
    def forward(trip: _Trip, index: Tensor, *tensors: Tensor) -> Any:
        """Never called: the index is always mapped."""
        raise RuntimeError("a module left a map that there was not")

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        """Keep nothing."""

    @staticmethod
    def vmap(info: Any, in_dims: Any, trip: _Trip, *values: Tensor) -> Any:
        """Join the samples, lead the call out, and part its outputs again."""
        rows = [
            value if dim is None else value.movedim(dim, 0)
            for value, dim in zip(values[1:], in_dims[2:], strict=True)
        ]
        mapped = [dim is not None for dim in in_dims[2:]]
        places = [_place(each) for each in rows]
        joined = [
            each.squeeze(place + 1).movedim(0, place) if own else each
            for each, place, own in zip(rows, places, mapped, strict=True)
        ]
        return trip.parted(trip.run(joined), places[0] if places else 0)


def _place(values: Tensor) -> int:
    """Return where each sample, [B, ...], has its batch of one: first or second."""
    return int(values.dim() > 2 and values.shape[1] != 1 and values.shape[2] == 1)

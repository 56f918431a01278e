"""Per-sample gradients by ``torch.func.vmap`` of the whole module (``engine="vmap"``).

Every sample gets its own copy of the parameters (a view, no memory) and the forward is
mapped over samples and copies together.  The gradient of sample i's copy is then the
gradient of sample i.  No rule for any layer is needed, but what vmap cannot map is
refused, and all per-sample gradients are held at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten, tree_unflatten

from dpsgd_explorer.dp.engines.backprop_capture import BackpropCapture
from dpsgd_explorer.dp.engines.whole_module import OutputTree, WholeModuleEngine
from dpsgd_explorer.errors import ExplorerError, UnsupportedModuleError


class VmapEngine(WholeModuleEngine):
    """Maps the module over the samples."""

    def _run(self, args: Any, kwargs: Any, size: int) -> Any:
        copies = {p: _copies(p, size) for p in self._trained}
        outputs, tree = self._outputs(args, kwargs, size, copies)
        taps = BackpropCapture(
            lambda gradients: self._deliver(outputs, copies, gradients, size)
        )
        self._replace_taps(taps)
        return self._tapped(taps, tree, (output.detach() for output in outputs))

    def _outputs(
        self,
        args: Any,
        kwargs: Any,
        size: int,
        copies: Mapping[nn.Parameter, Tensor],
    ) -> tuple[list[Tensor], OutputTree]:
        """Return the tensors of the module's output, [B, ...] each, and their tree."""
        if size == 0:
            tensors, tree = OutputTree.part(self._forward(*args, **kwargs), 0)
            return [t if t.dim() else t.new_zeros(0) for t in tensors], tree
        rows = self.input_rows.of((args, kwargs), size)
        call = _Call(self.module, self._forward, copies, (args, kwargs), rows)
        try:
            return call.outputs(), call.tree
        except ExplorerError:
            raise
        except (RuntimeError, ValueError) as error:
            raise UnsupportedModuleError(
                f"{_where_it_fails(self.module, call)} cannot be run by "
                f"torch.func.vmap on one sample ({str(error).splitlines()[0]}). "
                'Replace it, or use engine="hooks" or "microbatch".'
            ) from error

    def _deliver(
        self,
        outputs: list[Tensor],
        copies: Mapping[nn.Parameter, Tensor],
        backprops: Mapping[str, Tensor],
        size: int,
    ) -> None:
        self.report_loss()
        scale = self.gradient_scale(size)
        pairs = [
            (outputs[int(name)], gradient * scale)
            for name, gradient in backprops.items()
            if size and outputs[int(name)].requires_grad
        ]
        found: dict[int, Tensor] = {}
        if pairs:
            gradients = self._backward(pairs, list(copies.values()))
            each = zip(copies, gradients, strict=True)
            found = {id(p): g for p, g in each if g is not None}
        self.on_gradients(self._stored(found, size))

    def _backward(
        self, pairs: list[tuple[Tensor, Tensor]], copies: list[Tensor]
    ) -> tuple[Tensor | None, ...]:
        try:
            return torch.autograd.grad(
                [output for output, _ in pairs],
                copies,
                [gradient for _, gradient in pairs],
                allow_unused=True,
            )
        except RuntimeError as error:
            raise UnsupportedModuleError(
                "the module's backward cannot be run by torch.func.vmap: it has a "
                "checkpointed part, or an operation without a derivative under vmap. "
                'Use engine="hooks" or "microbatch".'
            ) from error


class _Call:
    """One call of the module, mapped over its samples."""

    def __init__(
        self,
        module: nn.Module,
        forward: Callable[..., Any],
        copies: Mapping[nn.Parameter, Tensor],
        call: Any,
        rows: Sequence[bool],
    ) -> None:
        self._forward, self._copies = forward, copies
        self._places = [
            (each, name, parameter)
            for each in module.modules()
            for name, parameter in each._parameters.items()
            if parameter is not None and parameter in copies
        ]
        self._padded = [
            each
            for each in module.modules()
            if isinstance(each, nn.Embedding) and each.padding_idx is not None
        ]
        self._leaves, self._call_spec = tree_flatten(call)
        self._rows = [i for i, has_rows in enumerate(rows) if has_rows]
        self.tree: Any = None

    def outputs(self) -> list[Tensor]:
        """Return the leaves of the output for the whole batch, [B, ...] each."""
        mapped = torch.vmap(self._one, randomness="different")
        with _without_fast_attention():
            outputs = mapped(
                list(self._copies.values()), [self._leaves[i] for i in self._rows]
            )
        return [out.flatten(0, 1) if out.dim() > 1 else out for out in outputs]

    def _one(self, copies: list[Tensor], rows: list[Tensor]) -> list[Tensor]:
        """Return the output tensors of one sample, a batch of one."""
        leaves = list(self._leaves)
        for i, row in zip(self._rows, rows, strict=True):
            leaves[i] = row.unsqueeze(0)
        args, kwargs = tree_unflatten(leaves, self._call_spec)
        with self._handed_out(dict(zip(self._copies, copies, strict=True))):
            tensors, self.tree = OutputTree.part(self._forward(*args, **kwargs), 1)
        return tensors

    @contextmanager
    def _handed_out(self, copies: Mapping[nn.Parameter, Tensor]) -> Iterator[None]:
        """Let all modules find these tensors in the place of their parameters."""
        handles = [
            each.register_forward_hook(_without_padding) for each in self._padded
        ]
        try:
            for each, name, parameter in self._places:
                each._parameters[name] = copies[parameter]  # type: ignore[assignment]
            yield
        finally:
            for handle in handles:
                handle.remove()
            for each, name, parameter in self._places:
                each._parameters[name] = parameter


@contextmanager
def _without_fast_attention() -> Iterator[None]:
    """Keep torch from its fused encoder layer, which has no derivative."""
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)


def _copies(parameter: nn.Parameter, size: int) -> Tensor:
    return parameter.detach().expand(size, *parameter.shape).requires_grad_()


def _without_padding(table: nn.Embedding, args: Any, output: Tensor) -> Tensor:
    """Keep gradients from the padding row, which torch.func.vmap gives them."""
    padding = (args[0] == table.padding_idx).unsqueeze(-1)
    return torch.where(padding, output.detach(), output)


def _where_it_fails(module: nn.Module, call: _Call) -> str:
    """Run a failing call again, and name the innermost module that was running."""
    running: list[nn.Module] = []
    names = {each: name for name, each in module.named_modules()}
    handles = []
    for each in module.modules():
        handles += [
            each.register_forward_pre_hook(lambda own, _: running.append(own)),
            each.register_forward_hook(lambda *_: _leave(running)),
        ]
    try:
        call.outputs()
    except (RuntimeError, ValueError):
        pass
    finally:
        for handle in handles:
            handle.remove()
    culprit = running[-1] if running else module
    return f"{names[culprit] or 'the module'} ({type(culprit).__name__})"


def _leave(running: list[nn.Module]) -> None:
    running.pop()

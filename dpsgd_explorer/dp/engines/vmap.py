"""Per-sample gradients by ``torch.func.vmap`` of the whole module (``engine="vmap"``).

Each sample has a copy of the parameters, theta_i = theta (a view [B, *shape] without
additional memory), and the forward is mapped over samples and copies together.  The
gradient of the loss with respect to copy i is the gradient of sample i, because no
other sample uses that copy.  One backward computes all of them, [B, *shape] per
parameter.  No layer needs a rule.  Modules that vmap cannot map raise an error.

Source: Subramani et al. (2021), arXiv:2010.09063 (per-sample gradients by
vectorisation).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._pytree import tree_flatten, tree_unflatten

from dpsgd_explorer.dp.engines.backprop_capture import BackpropCapture
from dpsgd_explorer.dp.engines.whole_module import OutputTree, WholeModuleEngine
from dpsgd_explorer.errors import ExplorerError, UnsupportedModuleError


class VmapEngine(WholeModuleEngine):
    """Maps the module over the samples."""

    _call: MappedCall | None = None

    def restore(self) -> None:
        if self._call is not None:
            self._call.restore()
            self._call = None

    def _run(self, args: Any, kwargs: Any, size: int) -> Any:
        copies = {p: _copies(p, size) for p in self._trained}
        outputs, tree = self._outputs(args, kwargs, size, copies)
        capture = BackpropCapture(
            lambda gradients: self._deliver(outputs, copies, gradients, size)
        )
        self._replace_capture(capture)
        return self._captured(capture, tree, (output.detach() for output in outputs))

    def _outputs(
        self,
        args: Any,
        kwargs: Any,
        size: int,
        copies: Mapping[nn.Parameter, Tensor],
    ) -> tuple[list[Tensor], OutputTree]:
        """Returns the tensors of the module's output, [B, ...] each, and their tree."""
        if size == 0:  # vmap raises an error for an empty batch.
            tensors, tree = OutputTree.split(self._forward(*args, **kwargs), 0)
            return [t if t.dim() else t.new_zeros(0) for t in tensors], tree
        rows = self.input_rows.of((args, kwargs), size)
        call = MappedCall(self.module, self._forward, copies, (args, kwargs), rows)
        self._call = call
        on_device = any(p.is_cuda for p in self._trained)
        try:
            # A device's fused attention has no derivative under vmap.
            with sdpa_kernel(SDPBackend.MATH) if on_device else nullcontext():
                outputs = call.outputs(), call.tree
        except ExplorerError:
            raise
        except (RuntimeError, ValueError) as error:
            raise UnsupportedModuleError(
                f"{_where_it_fails(self.module, call)} cannot be run by "
                f"torch.func.vmap on one sample ({str(error).splitlines()[0]}). "
                'Replace it, or use engine="hooks" or "microbatch".'
            ) from error
        self._call = None
        return outputs

    def _deliver(
        self,
        outputs: list[Tensor],
        copies: Mapping[nn.Parameter, Tensor],
        backprops: Mapping[str, Tensor],
        size: int,
    ) -> None:
        """Continues backward from the outputs to the copies, and deliver.

        Args:
            outputs: The tensors of the output, [B, ...] each, with their graph.
            copies: {parameter: its copies, [B, *shape]}.
            backprops: {index of the output: gradient, [B, ...]}.
            size: B.
        """
        if not self.report_loss():
            return
        scale = self.gradient_scale(size)
        pairs = [
            (outputs[int(key)], gradient * scale)
            for key, gradient in backprops.items()
            if size and outputs[int(key)].requires_grad
        ]
        by_id: dict[int, Tensor] = {}
        if pairs:
            gradients = self._backward(pairs, list(copies.values()))
            by_parameter = zip(copies, gradients, strict=True)
            by_id = {id(p): g for p, g in by_parameter if g is not None}
        self.on_gradients(self._materialized(by_id, size))

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


class MappedCall:
    """One call of the module, mapped over its samples.

    Args:
        module: The model.
        forward: The original forward of the model.
        copies: {parameter: its copies, [B, *shape]}.
        call: (args, kwargs).
        rows: For each leaf of the call, True if it has one row per sample.

    Attributes:
        tree: The structure of one sample's output, after ``outputs``.
    """

    def __init__(
        self,
        module: nn.Module,
        forward: Callable[..., Any],
        copies: Mapping[nn.Parameter, Tensor],
        call: Any,
        rows: Sequence[bool],
    ) -> None:
        self._forward, self._copies = forward, copies
        # (module, name, parameter) of all uses; a tied parameter has several uses.
        self._uses = [
            (owner, name, parameter)
            for owner in module.modules()
            for name, parameter in owner._parameters.items()
            if parameter is not None and parameter in copies
        ]
        self._padded_tables = [
            table
            for table in module.modules()
            if isinstance(table, nn.Embedding) and table.padding_idx is not None
        ]
        self._fast_attention = torch.backends.mha.get_fastpath_enabled()
        self._leaves, self._call_spec = tree_flatten(call)
        self._rows = [i for i, has_rows in enumerate(rows) if has_rows]
        self.tree: Any = None

    def outputs(self) -> list[Tensor]:
        """Returns the leaves of the output for the whole batch, [B, ...] each."""
        mapped = torch.vmap(self._of_one_sample, randomness="different")
        with _without_fast_attention():
            outputs = mapped(*self._mapped_values())
        # Each sample was a batch of one: [B, 1, ...] -> [B, ...].
        return [out.flatten(0, 1) if out.dim() > 1 else out for out in outputs]

    def outputs_one_by_one(self) -> list[Tensor]:
        """Returns ``outputs`` from one run per sample, without vmap."""
        copies, rows = self._mapped_values()
        with _without_fast_attention():
            samples = [
                self._of_one_sample([x[i] for x in copies], [x[i] for x in rows])
                for i in range(len(copies[0]))
            ]
        return [
            torch.cat(parts) if parts[0].dim() else torch.stack(parts)
            for parts in zip(*samples, strict=True)
        ]

    def _mapped_values(self) -> tuple[list[Tensor], list[Tensor]]:
        """Returns the copies and the inputs with one row per sample."""
        return list(self._copies.values()), [self._leaves[i] for i in self._rows]

    def _of_one_sample(self, copies: list[Tensor], rows: list[Tensor]) -> list[Tensor]:
        """Returns the output tensors of one sample, a batch of one."""
        leaves = list(self._leaves)
        for i, row in zip(self._rows, rows, strict=True):
            leaves[i] = row.unsqueeze(0)
        args, kwargs = tree_unflatten(leaves, self._call_spec)
        with self._parameters_replaced(dict(zip(self._copies, copies, strict=True))):
            tensors, self.tree = OutputTree.split(self._forward(*args, **kwargs), 1)
        return tensors

    @contextmanager
    def _parameters_replaced(
        self, copies: Mapping[nn.Parameter, Tensor]
    ) -> Iterator[None]:
        """Replaces the parameters of all modules by the copies inside the context."""
        handles = [
            table.register_forward_hook(_without_padding)
            for table in self._padded_tables
        ]
        try:
            for owner, name, parameter in self._uses:
                owner._parameters[name] = copies[parameter]  # type: ignore[assignment]
            yield
        finally:
            for handle in handles:
                handle.remove()
            self._put_back()

    def _put_back(self) -> None:
        for owner, name, parameter in self._uses:
            owner._parameters[name] = parameter

    def restore(self) -> None:
        """Restores the parameters of the module after an interrupted call."""
        self._put_back()
        torch.backends.mha.set_fastpath_enabled(self._fast_attention)


@contextmanager
def _without_fast_attention() -> Iterator[None]:
    """Disables torch's fused encoder layer, which has no derivative."""
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)


def _copies(parameter: nn.Parameter, size: int) -> Tensor:
    """Returns one copy of the parameter per sample, [B, *shape], in shared memory."""
    return parameter.detach().expand(size, *parameter.shape).requires_grad_()


def _without_padding(table: nn.Embedding, args: Any, output: Tensor) -> Tensor:
    """Stops the gradient to the padding row, which torch.func.vmap does not stop."""
    padding = (args[0] == table.padding_idx).unsqueeze(-1)
    return torch.where(padding, output.detach(), output)


def _where_it_fails(module: nn.Module, call: MappedCall) -> str:
    """Runs a failing call again and returns the innermost module that was running."""
    running: list[nn.Module] = []
    names = {owner: name for name, owner in module.named_modules()}
    handles = []
    for owner in module.modules():
        handles += [
            owner.register_forward_pre_hook(lambda entered, _: running.append(entered)),
            owner.register_forward_hook(lambda *_: _leave(running)),
        ]
    try:
        call.outputs()
    except (RuntimeError, ValueError):
        pass
    finally:
        for handle in handles:
            handle.remove()
    failing = running[-1] if running else module
    return f"{names[failing] or 'the module'} ({type(failing).__name__})"


def _leave(running: list[nn.Module]) -> None:
    running.pop()

"""Per-sample gradients by one backward per sample (``engine="microbatch"``).

This engine is the definition of a per-sample gradient as a program: the module runs on
one sample at a time, a batch of one, and autograd differentiates each run.  It supports
any module, at B times the calls, and stores the gradients of one sample at a time.  The
tests compare the other engines with this one.

The user computes one loss from the outputs of the batch.  So the B outputs are joined
to one tensor [B, ...] outside of any graph.  Backward of the loss ends at this tensor
with a gradient [B, ...], and row i of the gradient continues into run i.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_unflatten

from dpsgd_explorer.dp.engines.backprop_capture import BackpropCapture
from dpsgd_explorer.dp.engines.whole_module import OutputTree, WholeModuleEngine


class MicrobatchEngine(WholeModuleEngine):
    """Runs the module sample by sample."""

    def _run(self, args: Any, kwargs: Any, size: int) -> Any:
        runs, tree = self._runs(args, kwargs, size)
        capture = BackpropCapture(
            lambda gradients: self._deliver(runs[:size], gradients)
        )
        self._replace_capture(capture)
        joined = (_joined(outputs) for outputs in zip(*runs, strict=True))
        return self._captured(capture, tree, joined)

    def _runs(
        self, args: Any, kwargs: Any, size: int
    ) -> tuple[list[list[Tensor]], OutputTree]:
        """Returns each sample's output tensors with their graphs, and their tree.

        An empty batch, which Poisson sampling may draw, has one run on no rows, which
        determines the tree.
        """
        has_rows = self.input_rows.of((args, kwargs), size)
        leaves, spec = tree_flatten((args, kwargs))
        runs = []
        for row in [slice(i, i + 1) for i in range(size)] or [slice(0, 0)]:
            pairs = zip(leaves, has_rows, strict=True)
            of_sample = [leaf[row] if cut else leaf for leaf, cut in pairs]
            sample_args, sample_kwargs = tree_unflatten(of_sample, spec)
            output = self._forward(*sample_args, **sample_kwargs)
            tensors, tree = OutputTree.split(output, min(size, 1))
            runs.append(tensors)
        return runs, tree

    def _deliver(
        self, runs: list[list[Tensor]], backprops: Mapping[str, Tensor]
    ) -> None:
        """Delivers the gradients sample by sample; memory contains one at a time.

        Args:
            runs: Each sample's output tensors.
            backprops: {index of the tensor: gradient of the joined tensor, [B, ...]}.
        """
        if not self.report_loss():
            return
        scale = self.gradient_scale(len(runs))
        if not runs:
            self.on_gradients(self._materialized({}, 0))
        for i, outputs in enumerate(runs):
            pairs = [
                (outputs[int(key)], _row_of(g, i, outputs[int(key)]) * scale)
                for key, g in backprops.items()
                if outputs[int(key)].requires_grad
            ]
            self.on_gradients(self._materialized(self._backward(pairs), 1))

    def _backward(self, pairs: list[tuple[Tensor, Tensor]]) -> dict[int, Tensor]:
        """Returns {id of parameter: one sample's gradient, [1, *shape]}.

        Parameters that the sample did not use are missing.
        """
        if not pairs:
            return {}
        gradients = torch.autograd.grad(
            [output for output, _ in pairs],
            self._trained,
            [g for _, g in pairs],
            allow_unused=True,
        )
        by_parameter = zip(self._trained, gradients, strict=True)
        return {id(p): g.unsqueeze(0) for p, g in by_parameter if g is not None}


def _joined(tensors: tuple[Tensor, ...]) -> Tensor:
    """Returns the samples' outputs as one tensor: [1, ...] or [] each -> [B, ...]."""
    return torch.cat([t.detach() if t.dim() else t.detach()[None] for t in tensors])


def _row_of(gradient: Tensor, i: int, output: Tensor) -> Tensor:
    """Returns sample i's gradient in the shape of its output."""
    return gradient[i].reshape(output.shape)

"""Per-sample gradients the plain way: one backward a sample (``engine="microbatch"``).

The module runs on each sample alone, and autograd differentiates each run alone, so
any module will do.  Slow; the other engines are tested against it.
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
        taps = BackpropCapture(lambda gradients: self._deliver(runs[:size], gradients))
        self._replace_taps(taps)
        joined = (_joined(each) for each in zip(*runs, strict=True))
        return self._tapped(taps, tree, joined)

    def _runs(
        self, args: Any, kwargs: Any, size: int
    ) -> tuple[list[list[Tensor]], OutputTree]:
        """Return each sample's outputs with their graphs; one empty run for nobody."""
        has_rows = self.input_rows.of((args, kwargs), size)
        leaves, spec = tree_flatten((args, kwargs))
        runs = []
        for row in [slice(i, i + 1) for i in range(size)] or [slice(0, 0)]:
            pairs = zip(leaves, has_rows, strict=True)
            own = [leaf[row] if cut else leaf for leaf, cut in pairs]
            own_args, own_kwargs = tree_unflatten(own, spec)
            output = self._forward(*own_args, **own_kwargs)
            tensors, tree = OutputTree.part(output, min(size, 1))
            runs.append(tensors)
        return runs, tree

    def _deliver(
        self, runs: list[list[Tensor]], backprops: Mapping[str, Tensor]
    ) -> None:
        self.report_loss()
        scale = self.gradient_scale(len(runs))
        if not runs:
            self.on_gradients(self._stored({}, 0))
        for i, outputs in enumerate(runs):
            pairs = [
                (outputs[int(name)], _row_of(g, i, outputs[int(name)]) * scale)
                for name, g in backprops.items()
                if outputs[int(name)].requires_grad
            ]
            self.on_gradients(self._stored(self._backward(pairs), 1))

    def _backward(self, pairs: list[tuple[Tensor, Tensor]]) -> dict[int, Tensor]:
        """Return {parameter's id: gradient of one sample}; unused ones are missing."""
        if not pairs:  # this sample used no parameter
            return {}
        gradients = torch.autograd.grad(
            [output for output, _ in pairs],
            self._trained,
            [g for _, g in pairs],
            allow_unused=True,
        )
        found = zip(self._trained, gradients, strict=True)
        return {id(p): g.unsqueeze(0) for p, g in found if g is not None}


def _joined(tensors: tuple[Tensor, ...]) -> Tensor:
    """Return the samples' outputs as one tensor: [1, ...] or [] each -> [B, ...]."""
    return torch.cat([t.detach() if t.dim() else t.detach()[None] for t in tensors])


def _row_of(gradient: Tensor, i: int, output: Tensor) -> Tensor:
    """Return sample i's gradient in the shape of its output."""
    return gradient[i].reshape(output.shape)

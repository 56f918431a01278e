"""Per-sample gradients the plain way: one backward a sample (``engine="microbatch"``).

The module runs on each sample alone, and autograd differentiates each run alone, so
any module will do.  Slow; the other engines are tested against it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import TreeSpec, tree_flatten, tree_map, tree_unflatten

from dpsgd_explorer.dp.taps import Taps
from dpsgd_explorer.dp.whole_module import WholeModule, has_rows


class MicroBatch(WholeModule):
    """Runs the module sample by sample."""

    def _run(self, args: Any, kwargs: Any, size: int) -> Any:
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


def _rows(row: slice, size: int) -> Any:
    """Return the function that cuts a tensor with one row a sample."""

    def cut(leaf: Any) -> Any:
        return leaf[row] if has_rows(leaf, size) else leaf

    return cut

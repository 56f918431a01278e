"""Measures a loss function on random outputs, with targets that are seldom seen.

A class with a weight of its own, a target that is ignored, a mask with zeros: a loss
may mix samples for these alone.  The module is not needed for that, so every class can
be tried, and one sample changed at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from dpsgd_explorer.dp.losses.graph import Reader
from dpsgd_explorer.dp.losses.marks import ModulePass, mark_outputs
from dpsgd_explorer.dp.modules import probe_inputs as random_batch
from dpsgd_explorer.dp.modules.probe_inputs import SAMPLES, SEED
from dpsgd_explorer.dp.modules.pytree import tensors_of
from dpsgd_explorer.errors import MixedLossError

LossFunction = Callable[[Any, Any], Tensor]

MOST_DRAWS = 64
"""Draws of targets that are tried: of many classes, not all are seen."""
MOST_NUMBERS = 10**7
"""Entries of outputs that all draws together may have."""


class TargetCheck:
    """Changes one sample after the other under one loss function.

    Args:
        loss_fn: ``loss_fn(outputs, targets)``, a mean or a sum over samples.
        outputs: Of the module for SAMPLES rows.
        others: The same for other inputs.
        targets: An example of the second argument; shapes and dtypes are used.
        size: Its number of samples.
        loss_reduction: "mean" or "sum".
        tolerance: Largest relative difference that is round-off.
    """

    def __init__(
        self,
        loss_fn: LossFunction,
        outputs: Any,
        others: Any,
        targets: Any,
        *,
        size: int,
        loss_reduction: str,
        tolerance: float,
    ) -> None:
        self._loss_fn = loss_fn
        self._outputs, self._others = outputs, others
        self._example, self._size = targets, size
        self._reduction = loss_reduction
        self._tolerance = tolerance

    def run(self) -> None:
        """Raise MixedLossError if a sample moves the gradient of another's outputs."""
        if not self._entries():
            return  # a loss inside the module, measured with it
        draws = [self._draw(number) for number in range(self._draws())]
        for targets, others in pairwise([*draws, draws[0]]):
            self._compare(targets, others)
        if all(not leaf.is_cuda for leaf in tensors_of(self._example)):
            self._compare_ignored(draws[0])  # a bad index is no more than an exception

    def _entries(self) -> int:
        leaves = tensors_of(self._outputs)
        return sum(leaf.numel() for leaf in leaves if _is_compared(leaf))

    def _draws(self) -> int:
        """Return how many draws of targets are tried: enough to see all classes."""
        example = self._example, self._size, self._outputs
        most = min(MOST_DRAWS, MOST_NUMBERS // self._entries())
        return max(2, min(most, random_batch.draws_of_all_classes(*example)))

    def _draw(self, number: int) -> Any:
        example = self._example, self._size, self._outputs
        return random_batch.random_targets(*example, number)

    def _compare_ignored(self, targets: Any) -> None:
        """Compare with some targets ignored, if the loss knows of such."""
        some = random_batch.with_ignored(targets)
        try:
            self._gradients(self._outputs, some)
        except MixedLossError:
            return  # its graph shows it, so it is refused when such a batch comes
        except (RuntimeError, LookupError, ValueError):
            return  # no target of this loss
        self._compare(some, targets)

    def _compare(self, targets: Any, others: Any) -> None:
        expected = self._gradients(self._outputs, targets)
        for j in range(SAMPLES):
            changed = [
                tree_map(partial(random_batch.replace_row, i=j), first, second)
                for first, second in (
                    (self._outputs, self._others),
                    (targets, others),
                )
            ]
            found = self._gradients(*changed)
            for before, after in zip(expected, found, strict=True):
                self._compare_rest(before, after, j)

    def _compare_rest(self, before: Tensor, after: Tensor, j: int) -> None:
        kept = torch.arange(SAMPLES, device=before.device) != j
        difference = (before - after)[kept].abs().max()
        if not difference <= self._tolerance * before.abs().max():
            raise MixedLossError(
                "the loss mixes the samples of a batch: the gradient of one sample "
                "moves when another, or its target, changes. Use a loss that is a mean "
                "or sum of a term for each sample, such as "
                "dpsgd_explorer.dp.losses.per_sample_mean(losses, mask)."
            )

    def _gradients(self, outputs: Any, targets: Any) -> list[Tensor]:
        """Return the loss's gradients with respect to the outputs.

        Raises:
            MixedLossError: its graph shows that it mixes the samples.
        """
        outputs = tree_map(_as_input, outputs)
        inputs = [leaf for leaf in tensors_of(outputs) if _is_compared(leaf)]
        mark_outputs(outputs, ModulePass(SAMPLES, self._reduction, lambda: 1.0))
        torch.manual_seed(SEED)
        loss = self._loss_fn(outputs, targets)
        if loss.grad_fn is None:
            return [torch.zeros_like(each) for each in inputs]
        Reader().read([(loss.grad_fn, loss.output_nr)])
        found = torch.autograd.grad(loss, inputs, allow_unused=True)
        pairs = zip(found, inputs, strict=True)
        return [torch.zeros_like(x) if g is None else g for g, x in pairs]


def _is_compared(leaf: Tensor) -> bool:
    rows = random_batch.has_rows(leaf, SAMPLES)
    return rows and leaf.is_floating_point() and leaf.numel() > 0


def _as_input(leaf: Any) -> Any:
    """Return what a loss may differentiate, and write to, as a module's output is."""
    if not isinstance(leaf, Tensor) or not _is_compared(leaf):
        return leaf
    return leaf.detach().requires_grad_().clone()

"""Measures a loss function on random outputs, with rare targets.

A class with a weight, an ignored target, a mask with zeros: a loss may mix samples for
these alone.  The module is not needed to see it, so every class can be tried, and one
sample changed at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from dpsgd_explorer.dp.checks.loss.graph import Reader
from dpsgd_explorer.dp.checks.loss.marks import ModulePass, mark_outputs
from dpsgd_explorer.dp.modules import probe_inputs
from dpsgd_explorer.dp.modules.probe_inputs import NUMBERS, SAMPLES, SEED
from dpsgd_explorer.dp.modules.pytree import tensors_of
from dpsgd_explorer.dp.modules.seeding import seed_draws
from dpsgd_explorer.errors import MixedLossError

LossFunction = Callable[[Any, Any], Tensor]

#: Most draws of targets: of more classes than they hold, some are not tried.
MOST_DRAWS = 64
#: Most entries of outputs in all draws together; it bounds the time.
MOST_NUMBERS = 10**7


class TargetCheck:
    """Compares a loss's gradients before and after one sample changes.

    Args:
        loss_fn: ``loss_fn(outputs, targets)``, a mean or a sum over samples.
        outputs: Of the module for SAMPLES rows.
        others: Its outputs for other inputs.
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
            return  # the module returns its loss, which is measured with it
        draws = [self._draw(number) for number in range(self._draws())]
        for targets, others in pairwise([*draws, draws[0]]):
            self._compare(targets, others)
        for numbers in NUMBERS[1:]:
            self._compare_numbers(numbers)
        if all(not leaf.is_cuda for leaf in tensors_of(self._example)):
            # On a GPU a bad index would end the process's use of the device.
            self._compare_ignored(draws[0])

    def _entries(self) -> int:
        leaves = tensors_of(self._outputs)
        return sum(leaf.numel() for leaf in leaves if _is_compared(leaf))

    def _draws(self) -> int:
        """Return the number of draws of targets: enough for all classes, if allowed."""
        example = self._example, self._size, self._outputs
        most = min(MOST_DRAWS, MOST_NUMBERS // self._entries())
        return max(2, min(most, probe_inputs.draws_of_all_classes(*example)))

    def _draw(self, number: int, numbers: str = NUMBERS[0]) -> Any:
        example = self._example, self._size, self._outputs
        return probe_inputs.random_targets(*example, number, numbers)

    def _compare_numbers(self, numbers: str) -> None:
        """Compare with targets of 0 and 1, or of both signs, if the loss takes them.

        A weight by the share of positive targets is 1 for all targets in (0, 1).
        """
        if not any(_is_number(leaf, self._size) for leaf in tensors_of(self._example)):
            return
        targets, others = self._draw(0, numbers), self._draw(1, numbers)
        try:
            found = self._gradients(self._outputs, targets)
        except MixedLossError:
            raise
        except (RuntimeError, ValueError):
            return  # as the binary cross entropy of a target below 0
        if all(bool(gradient.isfinite().all()) for gradient in found):
            self._compare(targets, others)

    def _compare_ignored(self, targets: Any) -> None:
        """Compare with some targets ignored, if the loss takes such targets."""
        some = probe_inputs.with_ignored(targets)
        try:
            self._gradients(self._outputs, some)
        except MixedLossError:
            return  # its graph shows it, so such a batch is refused in training
        except (RuntimeError, LookupError, ValueError):
            return  # -100 is no valid target of this loss
        self._compare(some, targets)

    def _compare(self, targets: Any, others: Any) -> None:
        expected = self._gradients(self._outputs, targets)
        for j in range(SAMPLES):
            changed = [
                tree_map(partial(probe_inputs.replace_row, i=j), first, second)
                for first, second in (
                    (self._outputs, self._others),
                    (targets, others),
                )
            ]
            actual = self._gradients(*changed)
            for before, after in zip(expected, actual, strict=True):
                self._compare_rest(before, after, j)

    def _compare_rest(self, before: Tensor, after: Tensor, j: int) -> None:
        others = torch.arange(SAMPLES, device=before.device) != j
        difference = (before - after)[others].abs().max()
        if not difference <= self._tolerance * before.abs().max():
            raise MixedLossError(
                "the loss mixes the samples of a batch: the gradient of one sample "
                "moves when another sample or its target changes. Use a loss that is a "
                "mean or sum of one term per sample, such as "
                "dpsgd_explorer.dp.per_sample_mean(losses, mask)."
            )

    def _gradients(self, outputs: Any, targets: Any) -> list[Tensor]:
        """Return the loss's gradients with respect to the outputs.

        Raises:
            MixedLossError: its graph shows that it mixes the samples.
        """
        outputs = tree_map(_as_input, outputs)
        inputs = [leaf for leaf in tensors_of(outputs) if _is_compared(leaf)]
        mark_outputs(outputs, ModulePass(SAMPLES, self._reduction, lambda: 1.0))
        seed_draws(SEED)
        loss = self._loss_fn(outputs, targets)
        if loss.grad_fn is None:
            return [torch.zeros_like(entry) for entry in inputs]
        Reader().read([(loss.grad_fn, loss.output_nr)]).settle()
        gradients = torch.autograd.grad(loss, inputs, allow_unused=True)
        pairs = zip(gradients, inputs, strict=True)
        return [torch.zeros_like(x) if g is None else g for g, x in pairs]


def _is_number(leaf: Tensor, size: int) -> bool:
    return probe_inputs.has_rows(leaf, size) and leaf.is_floating_point()


def _is_compared(leaf: Tensor) -> bool:
    rows = probe_inputs.has_rows(leaf, SAMPLES)
    return rows and leaf.is_floating_point() and leaf.numel() > 0


def _as_input(leaf: Any) -> Any:
    """Return a tensor that a loss may differentiate and change in place."""
    if not isinstance(leaf, Tensor) or not _is_compared(leaf):
        return leaf
    return leaf.detach().requires_grad_().clone()

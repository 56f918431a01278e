"""Measures a loss function on random outputs, with rare targets.

A loss may mix samples only for some targets: a class with a weight, an ignored target,
a mask with zeros.  The check runs the loss alone, without the module.  It is therefore
fast enough to try every class, and to change one sample at a time.  If a module returns
its loss, ``labels_of`` finds the labels among the module's inputs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

from dpsgd_explorer.dp.checks.loss.autograd_nodes import likelihood_targets
from dpsgd_explorer.dp.checks.loss.graph import outline, read
from dpsgd_explorer.dp.checks.loss.marks import ModulePass, mark_outputs
from dpsgd_explorer.dp.modules import probe_inputs
from dpsgd_explorer.dp.modules.input_rows import call_module
from dpsgd_explorer.dp.modules.probe_inputs import (
    NUMBER_KINDS,
    SAMPLES,
    SEED,
    has_rows,
    smallest_table,
)
from dpsgd_explorer.dp.modules.pytree import tensors_of
from dpsgd_explorer.dp.modules.seeding import seed_draws
from dpsgd_explorer.errors import ConfigError, MixedLossError

LossFunction = Callable[[Any, Any], Tensor]

#: Maximum number of draws of targets, which bounds the time.  If the draws have room
#: for fewer targets than classes, some classes are not tried.
MAX_DRAWS = 64
#: Maximum number of entries of outputs in all draws together, which bounds the time.
MAX_ENTRIES = 10**7
#: Number of nodes, from a scalar output on, that are searched for a likelihood.
MAX_LIKELIHOOD_DISTANCE = 50


class TargetCheck:
    """Compares a loss's gradients before and after one sample changes.

    Args:
        loss_fn: ``loss_fn(outputs, targets)``, a mean or a sum over samples.
        outputs: Outputs of the module for SAMPLES rows.
        others: Outputs of the module for SAMPLES other rows.
        targets: An example of the second argument; shapes and dtypes are used.
        size: Number of samples of ``targets``.
        loss_reduction: "mean" or "sum".
        tolerance: Largest relative difference that counts as round-off.
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
        """Raises MixedLossError if one sample changes the gradient of another."""
        if not self._entries():
            return  # the module returns its loss, and was checked with it
        draws = [self._draw(number) for number in range(self._draws())]
        for targets, others in pairwise([*draws, draws[0]]):
            self._compare(targets, others)
        for numbers in NUMBER_KINDS[1:]:
            self._compare_numbers(numbers)
        if all(not leaf.is_cuda for leaf in tensors_of(self._example)):
            # An index error on a GPU makes the device unusable to the process.
            self._compare_ignored(draws[0])

    def _entries(self) -> int:
        leaves = tensors_of(self._outputs)
        return sum(leaf.numel() for leaf in leaves if _is_compared(leaf))

    def _draws(self) -> int:
        """Returns the number of draws: enough for all classes, within the limits."""
        example = self._example, self._size, self._outputs
        max_draws = min(MAX_DRAWS, MAX_ENTRIES // self._entries())
        return max(2, min(max_draws, probe_inputs.draws_of_all_classes(*example)))

    def _draw(self, number: int, numbers: str = NUMBER_KINDS[0]) -> Any:
        example = self._example, self._size, self._outputs
        return probe_inputs.random_targets(*example, number, numbers)

    def _compare_numbers(self, numbers: str) -> None:
        """Compares with targets of 0 and 1, or of both signs, if the loss takes them.

        Targets in (0, 1), as in the other draws, are all positive.  They would not show
        a weight that depends on the share of positive targets.
        """
        if not any(_is_number(leaf, self._size) for leaf in tensors_of(self._example)):
            return
        targets, others = self._draw(0, numbers), self._draw(1, numbers)
        try:
            gradients = self._gradients(self._outputs, targets)
        except MixedLossError:
            raise
        except (RuntimeError, ValueError):
            return  # such as binary cross entropy for a target below 0
        if all(bool(gradient.isfinite().all()) for gradient in gradients):
            self._compare(targets, others)

    def _compare_ignored(self, targets: Any) -> None:
        """Compares with some targets ignored, if the loss takes such targets."""
        ignored = probe_inputs.with_ignored(targets)
        try:
            self._gradients(self._outputs, ignored)
        except MixedLossError:
            return  # the graph shows the weight, so training rejects such a batch
        except (RuntimeError, LookupError, ValueError):
            return  # -100 is no valid target of this loss
        self._compare(ignored, targets)

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
        """Returns the gradients of the loss with respect to the outputs.

        Raises:
            MixedLossError: the graph of the loss shows that it mixes the samples.
        """
        outputs = tree_map(_as_input, outputs)
        inputs = [leaf for leaf in tensors_of(outputs) if _is_compared(leaf)]
        mark_outputs(outputs, ModulePass(SAMPLES, self._reduction, lambda: 1.0))
        seed_draws(SEED)
        loss = self._loss_fn(outputs, targets)
        if loss.grad_fn is None:
            return [torch.zeros_like(entry) for entry in inputs]
        read([(loss.grad_fn, loss.output_nr)])[0].settle()
        gradients = torch.autograd.grad(loss, inputs, allow_unused=True)
        pairs = zip(gradients, inputs, strict=True)
        return [torch.zeros_like(x) if g is None else g for g, x in pairs]


def _is_number(leaf: Tensor, size: int) -> bool:
    return has_rows(leaf, size) and leaf.is_floating_point()


def _is_compared(leaf: Tensor) -> bool:
    rows = has_rows(leaf, SAMPLES)
    return rows and leaf.is_floating_point() and leaf.numel() > 0


def _as_input(leaf: Any) -> Any:
    """Returns a tensor that a loss may differentiate and change in place."""
    if not isinstance(leaf, Tensor) or not _is_compared(leaf):
        return leaf
    return leaf.detach().requires_grad_().clone()


class MeasuredLoss:
    """Calls a loss function, and stores the operations of each loss.

    Args:
        loss_fn: ``loss_fn(outputs, targets)``.

    Attributes:
        forms: Operations of each loss; see ``graph.outline``.
    """

    def __init__(self, loss_fn: Callable[[Any, Any], Tensor]) -> None:
        self._loss_fn = loss_fn
        self.forms: set[str] = set()

    def __call__(self, outputs: Any, targets: Any) -> Tensor:
        """Returns the loss.

        Raises:
            ConfigError: the loss function returned something else than a tensor.
        """
        loss: object = self._loss_fn(outputs, targets)
        if not isinstance(loss, Tensor):
            raise ConfigError(
                "loss_fn",
                "loss_fn must return a tensor of one number, got "
                f"{type(loss).__name__}.",
            )
        if loss.grad_fn is not None:
            form, _ = outline([(loss.grad_fn, loss.output_nr)])
            self.forms |= {form} - {""}
        return loss


def labels_of(module: nn.Module, call: Any, size: int) -> dict[int, int]:
    """Returns {index of a leaf: number of classes} of the labels among the inputs.

    The module runs on inputs of ones, then with zeros in one input after the other.  A
    label is an input that changes the targets of a likelihood.  Inputs are 1, which is
    valid as an id, as a class and as a length.

    Args:
        module: The model, without an engine's hooks.
        call: (args, kwargs) of the module; shapes and dtypes are used.
        size: Number of samples of the call.
    """
    leaves, spec = tree_flatten(call)
    ones = [_ones(leaf, size, module) for leaf in leaves]
    candidates = [i for i, leaf in enumerate(ones) if _may_be_labels(leaf)]
    rows = [leaf for leaf in ones if has_rows(leaf, SAMPLES)]
    if not candidates or len(rows) < 2:
        return {}
    before = _targets(module, tree_unflatten(ones, spec))
    labels: dict[int, int] = {}
    for i in candidates if before else []:
        changed = list(ones)
        changed[i] = torch.zeros_like(ones[i])
        for (classes, old), (_, new) in zip(
            before, _targets(module, tree_unflatten(changed, spec)), strict=False
        ):
            if not torch.equal(old, new):
                labels[i] = min(classes, labels.get(i, classes))
    return labels


def _ones(leaf: Any, size: int, module: nn.Module) -> Any:
    if not has_rows(leaf, size):
        return leaf
    ones = leaf.new_ones((SAMPLES, *leaf.shape[1:]))
    return ones * min(1, smallest_table(module) - 1) if _may_be_labels(ones) else ones


def _may_be_labels(leaf: Any) -> bool:
    return has_rows(leaf, SAMPLES) and leaf.dtype == torch.int64


def _targets(module: nn.Module, call: Any) -> list[tuple[int, Tensor]]:
    """Returns (number of classes, targets) of each likelihood near a scalar output."""
    try:
        outputs = call_module(module, call)
    except (RuntimeError, LookupError, ValueError, TypeError, AssertionError):
        return []  # for example lengths of 0; the safety check reports other errors
    likelihoods: list[tuple[int, Tensor]] = []
    for leaf in tensors_of(outputs):
        if leaf.dim() == 0 and leaf.grad_fn is not None:
            likelihoods += likelihood_targets(leaf.grad_fn, MAX_LIKELIHOOD_DISTANCE)
    return likelihoods

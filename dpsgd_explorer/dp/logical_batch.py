"""The logical batch: what was drawn and computed since the last step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from torch import nn

from dpsgd_explorer.dp.clipping.clipped_sum import ClippedSum
from dpsgd_explorer.dp.distributed.sharding import local
from dpsgd_explorer.dp.engines.base import PerSampleGradients
from dpsgd_explorer.errors import PrivacyError


class LogicalBatch:
    """One batch from its draw to its release; several backward calls may share it.

    Args:
        total: Sum that the clipped gradients are added to.
        parameters: All trainable parameters.
        checked: Whether batches must come from the engine's own loader.

    Attributes:
        total: The clipped sum.
        code: Of the whole batch that was drawn last; ranks that share it compare it.
    """

    def __init__(
        self, total: ClippedSum, parameters: Iterable[nn.Parameter], *, checked: bool
    ) -> None:
        self.total = total
        self.code = 0
        self._parameters = list(parameters)
        self._checked = checked
        self._drawn: int | None = None
        self._held: int | None = None  # samples of the parts before the last
        self._to_come = 0
        self._backward_ran = False
        self._released = False
        self._accumulating = False

    @property
    def is_in_flight(self) -> bool:
        """Whether a batch was drawn or computed that no step has used."""
        return self._drawn is not None or self._backward_ran

    def refuse_in_flight(self, action: str) -> None:
        """Raise PrivacyError if a batch was drawn or computed that no step has used.

        Args:
            action: What the engine would be: "saved", "restored".
        """
        if self.is_in_flight:
            raise PrivacyError(
                f"the engine cannot be {action} between a batch's draw and its step: "
                "the noise of that step would be used twice. Do it after step()."
            )

    @contextmanager
    def accumulate(self) -> Iterator[None]:
        """Let the backward calls inside be parts of a batch that a later one ends."""
        self._accumulating = True
        try:
            yield
        finally:
            self._accumulating = False

    @property
    def awaits_more(self) -> bool:
        """Whether samples of the batch have still to go through backward."""
        return self._accumulating or self.total.size < (self._drawn or 0)

    def draw(
        self, size: int, to_come: int = 0, begins: bool = True, code: int = 0
    ) -> None:
        """Record that the loader yields a part of a batch, or all of it.

        Args:
            size: Number of samples of the part.
            to_come: Number of parts of the batch after this one.
            begins: Whether it is the first part.
            code: Of the whole batch.

        Raises:
            PrivacyError: no step followed the part before.
        """
        waiting = begins or self._held != self._drawn
        if self._drawn is not None and waiting:
            raise PrivacyError(
                f"a batch of {self._drawn} samples was drawn and no step made of it; "
                "skipping batches changes what the accountant assumes. Call "
                "optimizer.step() once for each batch, empty ones included."
            )
        self._drawn, self._to_come = (self._drawn or 0) + size, to_come
        self.code = code

    def add(self, samples: PerSampleGradients) -> None:
        """Clip and add the samples of one backward."""
        if self._released:
            self._drop_cleared()
            self._released = False
        if not self._backward_ran:
            self.total.reset()
            self._backward_ran = True
        self.total.add(samples)

    def clear(self) -> None:
        """Drop the sum, as zero_grad does; the draw remains.

        Between the parts of a batch that the loader splits, the sum remains too.
        """
        if self._held is None or self.total.size != self._held:
            self._backward_ran = self._released = False

    def close(self) -> bool:
        """Check that a step may follow, and end the batch.

        Returns:
            Whether the batch is complete; if not, its next part must follow.

        Raises:
            PrivacyError: the step would not release one noisy sum over one Poisson
                batch.
        """
        self._check_backward()
        self._check_gradients()
        if not self._backward_ran:
            self.total.reset()
        self._check_size()
        if self._to_come:
            self._held = self._drawn
            return False
        self._drawn, self._held = None, None
        self._backward_ran, self._released = False, True
        return True

    def _drop_cleared(self) -> None:
        """Drop the gradients that ``zero_grad(set_to_none=False)`` filled with zeros.

        Looking at them is post-processing: they were released.
        """
        gradients = [local(p.grad) for p in self._parameters if p.grad is not None]
        if not gradients:
            return
        if any(bool(gradient.any()) for gradient in gradients):
            raise PrivacyError(
                "backward came after a step, but the old gradients are still "
                "there. Call optimizer.zero_grad() after each step."
            )
        for parameter in self._parameters:
            parameter.grad = None

    def _check_backward(self) -> None:
        if not self._backward_ran and self._drawn != 0:
            raise PrivacyError(
                "step must follow a backward of the engine's module, and there was "
                "none since the last step or zero_grad. Call loss.backward() first."
            )

    def _check_gradients(self) -> None:
        present = [p for p in self._parameters if p.grad is not None]
        if present and not self._released:
            raise PrivacyError(
                "a parameter has a gradient that did not go through the engine, as "
                "from a penalty in the loss or a layer called on its own. Use the "
                "optimizer's weight_decay, and call the whole module."
            )

    def _check_size(self) -> None:
        size = self.total.size
        if self._checked and size != self._drawn:
            drawn = "none was drawn" if self._drawn is None else f"{self._drawn} drawn"
            raise PrivacyError(
                f"the step must be made of one batch of the engine's loader: {size} "
                f"samples went through backward, {drawn}. Iterate over "
                'engine.poisson_loader(dataset), or pass sampling="unchecked".'
            )

"""The logical batch: what was drawn and computed since the last step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import repeat
from operator import is_

from torch import nn

from dpsgd_explorer.dp.clipping.clipped_sum import ClippedSum
from dpsgd_explorer.dp.distributed.sharding import local
from dpsgd_explorer.dp.engines.base import PerSampleGradients
from dpsgd_explorer.dp.optimizer_hooks import FOREIGN_GRADIENT
from dpsgd_explorer.dp.pending_gradients import PendingGradients
from dpsgd_explorer.errors import PrivacyError


class LogicalBatch:
    """One batch from its draw to its release; several backward calls may share it.

    Args:
        total: Sum that the clipped gradients are added to.
        parameters: All trainable parameters.
        checked: If True, batches must come from the engine's own loader.
        pending: Stand-ins for the gradients until the step; None where backward itself
            ends the batch.

    Attributes:
        total: The clipped sum.
        code: Of the whole batch that was drawn last; ranks that share it compare it.
    """

    def __init__(
        self,
        total: ClippedSum,
        parameters: Iterable[nn.Parameter],
        *,
        checked: bool,
        pending: PendingGradients | None = None,
    ) -> None:
        self.total = total
        self.code = 0
        self._parameters = list(parameters)
        self._checked = checked
        self._pending = PendingGradients(()) if pending is None else pending
        self._drawn: int | None = None
        self._held: int | None = None  # samples of the parts before the last
        self._to_come = 0
        self._backward_ran = False
        self._released = False
        self._accumulating = False
        self._pass: object = None  # of the last backward, with the sum's size before it
        self._size_before = 0
        self._is_spoiled = False

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
                f"the engine cannot be {action} between the draw of a batch and its "
                "step, because the noise of that step would be used twice. Try again "
                "after step()."
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
                f"a batch of {self._drawn} samples was drawn, but no step followed; "
                "the accountant assumes a step for every batch. Call optimizer.step() "
                "once for each batch, also for an empty one. After an interrupt the "
                "batch is still in your variables: run its forward and backward again, "
                "call step(), then iterate over the loader again. If the batch is "
                "lost, and nothing in the data was the reason, call detach() and "
                "attach() to start the next one."
            )
        self._drawn, self._to_come = (self._drawn or 0) + size, to_come
        self.code = code

    def add(self, samples: PerSampleGradients, of_pass: object = None) -> None:
        """Clip and add the samples of one backward.

        Args:
            samples: All of them, or one of several parts of a backward.
            of_pass: Identifies the forward pass, for ``take_back``.

        Raises:
            PrivacyError: gradients of an earlier step are still there, or a backward
                that shared the sum with others was interrupted.
        """
        if of_pass is None or of_pass is not self._pass:
            self._begin_backward(of_pass)
        self.total.add(samples)
        self._pending.place()

    def _begin_backward(self, of_pass: object) -> None:
        if self._released:
            self._drop_cleared()
            self._released = False
        self._notice_dropped()
        self._check_whole()
        if not self._backward_ran:
            self._begin_sum()
            self._backward_ran = True
        self._pass, self._size_before = of_pass, self.total.size

    def _begin_sum(self) -> None:
        for parameter in self._parameters:  # else the buffer counts as held
            vars(parameter).pop("private_grad", None)
        self.total.reset()

    def take_back(self, of_pass: object) -> None:
        """Drop the samples of a backward that was interrupted.

        What the sum held before cannot be told from them: then the whole batch must be
        dropped, which the next backward or step demands.
        """
        if of_pass is not self._pass:
            return  # it added nothing
        self._pass = None
        if self._size_before:
            self._is_spoiled = True
        else:
            self._drop()

    def clear(self) -> None:
        """Drop the sum, as zero_grad does; the draw remains.

        Between the parts of a batch that the loader splits, the sum remains too.
        """
        if self._held is None or self.total.size != self._held:
            self._drop()

    def abandon(self) -> None:
        """Take the stand-ins out: no gradients will take their place."""
        self._pending.take_out()

    def gradients_are_set(self) -> None:
        """Record that every parameter got its gradient."""
        self._pending.forget()

    def _drop(self) -> None:
        self._pending.take_out()
        self._backward_ran = self._is_spoiled = False
        # Another optimizer's gradients may still be there.
        self._released = self._released and self._gradients_are_there()

    def _gradients_are_there(self) -> bool:
        gradients = [parameter.grad for parameter in self._parameters]
        return not all(map(is_, gradients, repeat(None)))

    def _notice_dropped(self) -> None:
        """Drop the sum if zero_grad was called on the module, not the optimizer.

        Raises:
            PrivacyError: some gradients were dropped, or came from elsewhere.
        """
        if self._pending.are_intact():
            return
        dropped = self._pending.dropped()
        if dropped == len(self._parameters):
            self.clear()
        elif dropped:
            raise PrivacyError(
                f"the gradients of {dropped} of {len(self._parameters)} parameters "
                "were removed between backward and step, but the clipped sum includes "
                "all of them. Call optimizer.zero_grad(), and run backward again."
            )
        else:
            raise PrivacyError(FOREIGN_GRADIENT)

    def _check_whole(self) -> None:
        if self._is_spoiled:
            raise PrivacyError(
                "the sum must contain whole batches: a backward was interrupted after "
                "an earlier backward of the same step. Call optimizer.zero_grad() and "
                "run the whole batch again. If the loader splits batches and the first "
                "parts are lost, call detach() and attach() to start the next batch."
            )

    def close(self) -> bool:
        """Check that a step may follow, and end the batch.

        Returns:
            Whether the batch is complete; if not, its next part must follow.

        Raises:
            PrivacyError: the step would not release one noisy sum over one Poisson
                batch.
        """
        self._notice_dropped()
        self._check_whole()
        self._check_backward()
        self._check_gradients()
        if not self._backward_ran:
            self._begin_sum()
        self._check_size()
        if self._to_come:
            self._pending.take_out()
            self._held = self._drawn
            return False
        self._drawn, self._held, self._pass = None, None, None
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
                "step must follow a backward of the engine's module, but none ran "
                "since the last step or zero_grad. Call loss.backward() first."
            )

    def _check_gradients(self) -> None:
        if self._pending.are_placed or self._released:
            return  # checked, or those of the step before
        if self._gradients_are_there():
            raise PrivacyError(FOREIGN_GRADIENT)

    def _check_size(self) -> None:
        size = self.total.size
        if self._checked and size != self._drawn:
            drawn = "none was drawn" if self._drawn is None else f"{self._drawn} drawn"
            raise PrivacyError(
                f"each step must use exactly one batch of the engine's loader: {size} "
                f"samples went through backward, {drawn}. Iterate over "
                'engine.poisson_loader(dataset), or pass sampling="unchecked".'
            )

"""One attached run: a batch is drawn, goes through backward, is clipped, and released.

``Session`` is what an engine attaches to a model and its optimizers; ``LogicalBatch``
is what was drawn and computed since the last step, whose order of calls it checks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import repeat
from operator import is_
from typing import Any
from weakref import finalize, ref

from torch import Tensor, nn
from torch.optim import Optimizer

from dpsgd_explorer.dp import taken
from dpsgd_explorer.dp.backends import keep_memory
from dpsgd_explorer.dp.checks.attach_check import PassCheck, likely_size
from dpsgd_explorer.dp.checks.loss.reading import REMEDY, LossReading
from dpsgd_explorer.dp.checks.loss.target import MeasuredLoss
from dpsgd_explorer.dp.checks.loss.watch import WATCH
from dpsgd_explorer.dp.checks.optimizer_check import OptimizerCheck
from dpsgd_explorer.dp.checks.passes import LossFunction
from dpsgd_explorer.dp.clipping.clipped_sum import ClippedSum
from dpsgd_explorer.dp.clipping.groups import clipping_groups
from dpsgd_explorer.dp.clipping.sums import clipped_sum
from dpsgd_explorer.dp.config import ENGINES
from dpsgd_explorer.dp.distributed.agreement import require_equal_replicas
from dpsgd_explorer.dp.distributed.ranks import ALONE
from dpsgd_explorer.dp.distributed.sharding import (
    check_sharding,
    is_sharded,
    local,
    reshard,
)
from dpsgd_explorer.dp.engines.base import (
    PerSampleGradients,
    batch_size_of,
    unit_loss_scale,
)
from dpsgd_explorer.dp.engines.norm_choice import NormChoice
from dpsgd_explorer.dp.functional import AveragedViews
from dpsgd_explorer.dp.ledger import spending
from dpsgd_explorer.dp.ledger.ledger import Ledger
from dpsgd_explorer.dp.ledger.noisy_release import Gradients
from dpsgd_explorer.dp.ledger.weights import can_be_watched
from dpsgd_explorer.dp.modules.refused import refuse_by_kind, refuse_compiled
from dpsgd_explorer.dp.optimizers import (
    FOREIGN_GRADIENT,
    BackwardBinding,
    OptimizerBinding,
    PendingGradients,
    WaitingGradients,
)
from dpsgd_explorer.dp.state import EngineState
from dpsgd_explorer.errors import PrivacyError
from dpsgd_explorer.privacy_warning import warn

WRITTEN_OUTSIDE = (
    "parameters were changed since the last step, outside the optimizer; the receipt "
    "counts this change. If the change used records (a refit, ordinary steps while "
    "detached), epsilon is too small. If it used only earlier parameters (slow weights "
    "of a wrapper such as Lookahead, an average, half()), epsilon holds. To make such "
    "a change part of the step, apply it in a hook registered with "
    "optimizer.register_step_post_hook before attach()."
)
SEED_IS_SHARED = (
    "another run in this process, with other settings, has used the same seed: equal "
    "noise cancels in the difference of the two releases. Leave seed= out, or pass a "
    "different seed for each run."
)


class Session:
    """Makes every gradient of some optimizers private, until it is undone.

    All steps of the optimizers after one batch are one private step: the first of them
    draws the noise, and each uses the gradients of its own parameters, once.

    Args:
        module: The model.
        optimizers: Must train the module's trainable parameters, all of them and
            nothing else; see OptimizerCheck.
        state: The run; it releases the gradients of each step.
        engine: Whoever may undo this; once it is gone, the next session does.
        user_loss_scale: Returns the factor by which the user multiplies each loss.
        physical_batch_size: Most samples per part of a batch, if batches are split.

    Attributes:
        batch: The logical batch since the last step.
        dropped: Ledgers of engines that were attached before, and are gone.
        loss_is_vouched: If True, a loss that cannot be read is no reason to warn.

    Raises:
        UnsupportedModuleError: a trainable module is not covered.
        ConfigError: clipping_style does not fit the module.
        PrivacyError: the optimizers train something else, or another engine is
            attached to a module inside.
    """

    def __init__(
        self,
        module: nn.Module,
        optimizers: Sequence[Optimizer],
        state: EngineState,
        engine: object,
        user_loss_scale: Callable[[], float] = unit_loss_scale,
        physical_batch_size: int | None = None,
    ) -> None:
        options = state.options
        self._engine = ref(engine)
        self.dropped = taken.release_dropped(module, optimizers)
        reshard(module)
        refuse_by_kind(module)
        check_sharding(module, state.ranks, options.engine)
        refuse_compiled(module)
        require_equal_replicas(module, state.ranks)
        groups = clipping_groups(options.clipping_style, module)
        self._gradient_engine = ENGINES[options.engine](
            module,
            clipping_mode=options.clipping_mode,
            loss_reduction=options.loss_reduction,
            by_parameter=groups.by_parameter,
        )
        self._optimizers = OptimizerCheck(optimizers, module)
        parameters = self._gradient_engine.parameters()
        self._parameters = [p for own in parameters.values() for p in own.values()]
        self._clipper = options.clipper(groups)
        in_backward = self._gradient_engine.releases_in_backward
        self.batch = LogicalBatch(
            clipped_sum(parameters, self._clipper, state.ranks),
            self._parameters,
            checked=options.sampling == "poisson",
            pending=None if in_backward else PendingGradients(self._parameters),
        )
        self._waiting: dict[Optimizer, WaitingGradients] = {}
        self._state = state
        self._spending_is_recorded = self.loss_is_vouched = False
        self._user_loss_scale = self._gradient_engine.user_loss_scale = user_loss_scale
        self._views = options.augmentation_multiplicity
        self._gradient_engine.on_gradients = self._add
        self._gradient_engine.on_failure = self.batch.take_back
        together = state.ranks if is_sharded(module) else ALONE
        likely = 0  # of batches from elsewhere, the first is like the others
        if options.sampling == "poisson":
            expected = state.plan.expected_batch_size / state.ranks.size
            likely = self._views * likely_size(expected, physical_batch_size)
        self._check = PassCheck(self._gradient_engine, self._clipper, together, likely)
        self._gradient_engine.on_loss = self._record_loss
        self._gradient_engine.before_forward = self._check
        self.set_bound()
        with ExitStack() as undo:
            self._install(module, optimizers, undo)
            self._undo = undo.pop_all()

    def _install(
        self, module: nn.Module, optimizers: Sequence[Optimizer], undo: ExitStack
    ) -> None:
        """Change module, optimizers and torch; how to undo it goes into the stack."""
        undo.callback(self._drop_gradients)
        undo.callback(self._gradient_engine.stop)
        self._gradient_engine.start()
        held: list[nn.Module | Optimizer] = [*module.modules(), *optimizers]
        undo.callback(taken.give_back, held)
        taken.take(self, held)
        undo.callback(setattr, self._state, "on_draw", None)
        self._state.on_draw = self.batch.draw
        self._bind(optimizers, undo)
        # Also run where the engine is dropped without detach().
        WATCH.begin()
        for end in (WATCH.end, keep_memory()):
            finalizer = finalize(self, end)
            finalizer.atexit = False
            undo.callback(finalizer)

    def _bind(self, optimizers: Sequence[Optimizer], undo: ExitStack) -> None:
        """Make the gradients due at the first step, or when backward ends."""
        if self._gradient_engine.releases_in_backward:
            self._gradient_engine.on_gradients = self._add_and_release
            undo.callback(BackwardBinding(self._parameters).release)
            return
        self._watched = can_be_watched(self._parameters)
        if self._watched:
            self._compare_weights()
        for each in optimizers:
            if self._watched:
                undo.callback(
                    each.register_step_post_hook(self._remember_weights).remove
                )
            binding = OptimizerBinding(each, self._make_step, self._clear)
            undo.callback(binding.release)

    @property
    def is_dropped(self) -> bool:
        """Whether its engine is gone, so that nobody can call detach()."""
        return self._engine() is None

    @property
    def ledger(self) -> Ledger:
        """Record of the steps that were made."""
        return self._state.ledger

    def undo_too(self, change: Callable[[], None]) -> None:
        """Undo a change that was made for this, as with all else."""
        self._undo.callback(change)

    def undo(self) -> None:
        """Leave module and optimizers as they were."""
        self._undo.close()

    def _drop_gradients(self) -> None:
        self.batch.abandon()
        self._drop_waiting()
        for parameter in self._parameters:
            vars(parameter).pop("private_grad", None)

    def choose_bound(self, max_grad_norm: float) -> None:
        """Clips at this bound from the next step on."""
        if self.batch.is_in_flight:
            raise PrivacyError(
                "max_grad_norm must not change between the draw of a batch and its "
                "step: gradients would be clipped at one bound and get noise for "
                "another. Change it after step()."
            )
        self._state.choose_bound(max_grad_norm)
        self.set_bound()

    def set_bound(self) -> None:
        """Clip the next batch with the bound of its step."""
        self._clipper.rescale(self._state.bound_factor)

    def explain(self) -> list[NormChoice]:
        """Return how the norms of the last pass were made."""
        return self._gradient_engine.explain()

    def check_example(self, example: tuple[Any, Any], loss_fn: LossFunction) -> None:
        """Run the safety check on an example ``(inputs, targets)``.

        Raises:
            UnsupportedModuleError: it failed, and the session was undone.
        """
        inputs, targets = example
        args = inputs if isinstance(inputs, tuple) else (inputs,)
        size = batch_size_of(args, {})
        measured = MeasuredLoss(loss_fn)
        self._check(args, {}, size, targets=targets, loss_fn=measured)
        self._state.ledger.losses.measured_forms = frozenset(measured.forms)

    def _make_step(self, optimizer: Optimizer) -> None:
        """Set the gradients that a step of the optimizer will use."""
        self._optimizers.check()
        if not self.batch.is_in_flight and optimizer in self._waiting:
            waiting = self._waiting.pop(optimizer)
            if waiting.take():
                _set(waiting.gradients)
                return
        self._drop_waiting()
        if not self.batch.close():
            return  # no gradient: torch's optimizers leave such a parameter alone
        if self._watched:
            self._compare_weights()
        try:
            gradients = self._release()
        except BaseException:
            self.batch.abandon()
            raise
        if len(self._optimizers.optimizers) > 1:
            self.batch.abandon()
            gradients = self._share(gradients, optimizer)
        _set(gradients)
        self.batch.gradients_are_set()

    def _share(self, gradients: Gradients, first: Optimizer) -> Gradients:
        """Return the gradients of one optimizer; those of the others wait."""
        shares = {
            each: {
                p: gradients[p]
                for group in each.param_groups
                for p in group["params"]
                if p in gradients
            }
            for each in self._optimizers.optimizers
        }
        own = shares.pop(first)
        self._waiting = {
            each: WaitingGradients(share) for each, share in shares.items()
        }
        return own

    def _clear(self, optimizer: Optimizer) -> None:
        """Drop the batch, and what waits for the optimizer, as zero_grad does."""
        waiting = self._waiting.pop(optimizer, None)
        if waiting is not None:
            waiting.discard()
        self.batch.clear()

    def _drop_waiting(self) -> None:
        for waiting in self._waiting.values():
            waiting.discard()
        self._waiting = {}

    def _remember_weights(self, *_: Any) -> None:
        self._state.weights.remember(self._parameters)

    def _compare_weights(self) -> None:
        """Record parameters that were written since the last step, and warn once."""
        if self._state.weights.were_written(self._parameters):
            self._state.weights.remember(self._parameters)
            self._state.ledger.outside_writes += 1
            if self._state.ledger.outside_writes == 1:
                warn(WRITTEN_OUTSIDE)

    def _release(self) -> Gradients:
        """Return the noisy gradients of the logical batch, and record the step."""
        gradients = self._state.release(self.batch.total, self.batch.code)
        if not self._spending_is_recorded:
            spending.record(gradients, self._state.ledger.writer)
            if self._state.note_seed(self.batch.total.numel):
                warn(SEED_IS_SHARED)
            self._spending_is_recorded = True
        self.set_bound()
        return gradients

    def _record_loss(self, reading: LossReading, size: int) -> None:
        losses = self._state.ledger.losses
        losses.note(reading, size)
        if losses.noted_refusal and not self.loss_is_vouched:
            self.loss_is_vouched = True  # and said once
            _warn_of_loss(losses.noted_refusal, is_private=self._state.plan.is_private)

    def _add(self, samples: PerSampleGradients) -> None:
        """Add the samples of a backward to the batch."""
        self._gradient_engine.outputs.check()
        if not self._gradient_engine.module.training:
            raise PrivacyError(
                "the module must be in training mode when it computes gradients; it "
                "was in evaluation mode. Call module.train() before the forward pass, "
                "and evaluate under torch.no_grad()."
            )
        if self._views > 1:
            own = self._gradient_engine.parameters()
            samples = AveragedViews(samples, self._views, own)
        if self._waiting:
            self._drop_waiting()
        self.batch.add(samples, self._gradient_engine.current_pass)

    def _add_and_release(self, samples: PerSampleGradients) -> None:
        """Add the samples of a backward; if they end the batch, set the gradients."""
        self._optimizers.check()
        self._add(samples)
        if self.batch.awaits_more or not self.batch.close():
            return
        scale = self._user_loss_scale()
        for parameter, gradient in self._release().items():
            parameter.grad = gradient if scale == 1.0 else gradient * scale


def _set(gradients: Mapping[nn.Parameter, Tensor]) -> None:
    for parameter, gradient in gradients.items():
        parameter.private_grad = gradient  # type: ignore[attr-defined]
        parameter.grad = gradient


def _warn_of_loss(refusal: str, *, is_private: bool) -> None:
    """Say at once that the loss will give no epsilon."""
    if is_private:
        warn(
            "the loss must be a mean or sum of one term per sample, and the engine "
            f"cannot confirm that: {refusal}. get_epsilon() will raise. {REMEDY}"
        )


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

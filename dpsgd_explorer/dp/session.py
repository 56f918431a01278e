"""The attachment of an engine to a model and its optimizers.

A ``Session`` connects backward and ``optimizer.step()`` with the engine: every batch is
drawn, goes through backward, is clipped, and is released with noise.  A
``LogicalBatch`` holds the batch since the last step, and checks the order of the calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import repeat
from operator import is_
from typing import Any
from weakref import finalize, ref

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from dpsgd_explorer.dp import attachments
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
from dpsgd_explorer.dp.modules.rejected import check_kinds, check_not_compiled
from dpsgd_explorer.dp.optimizers import (
    FOREIGN_GRADIENT,
    BackwardBinding,
    OptimizerBinding,
    PendingGradients,
    WaitingGradients,
)
from dpsgd_explorer.dp.state import EngineState
from dpsgd_explorer.dp.user_gradients import UserRows
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
    """Makes the gradients of optimizers private, until ``undo`` is called.

    The steps of all optimizers after a batch are one private step.  The first optimizer
    to step draws the noise, and each optimizer uses the gradients of its parameters
    once.

    Args:
        module: The model.
        optimizers: The optimizers of the module's trainable parameters; see
            OptimizerCheck.
        state: The state of the run, which releases the gradients of each step.
        engine: The engine, which may call ``undo``.  If it is garbage collected before,
            the next session of the module calls ``undo``.
        user_loss_scale: Returns the factor by which the user multiplies each loss.
        physical_batch_size: Maximum number of samples per part of a batch; None without
            parts.

    Attributes:
        batch: The logical batch since the last step.
        dropped: Ledgers of engines that were attached before and were garbage
            collected.
        loss_is_vouched: If True, a loss that cannot be confirmed causes no warning.

    Raises:
        UnsupportedModuleError: a module cannot be trained with the guarantee.
        ConfigError: ``clipping_style`` does not fit the module.
        PrivacyError: the optimizers train other parameters, or another engine is
            attached to the module or a module inside.
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
        self.dropped = attachments.detach_dropped(module, optimizers)
        reshard(module)
        check_kinds(module)
        check_sharding(module, state.ranks, options.engine)
        check_not_compiled(module)
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
        self._parameters = [p for unit in parameters.values() for p in unit.values()]
        self._clipper = options.clipper(groups)
        in_backward = self._gradient_engine.releases_in_backward
        self.batch = LogicalBatch(
            clipped_sum(parameters, self._clipper, state.ranks),
            self._parameters,
            checked=state.samples_itself,
            pending=None if in_backward else PendingGradients(self._parameters),
        )
        self._waiting: dict[Optimizer, WaitingGradients] = {}
        self._state = state
        self._spending_is_recorded = self.loss_is_vouched = False
        self._user_loss_scale = self._gradient_engine.user_loss_scale = user_loss_scale
        self._views = options.augmentation_multiplicity
        self._user_rows = UserRows(parameters)
        self._gradient_engine.on_gradients = self._add
        self._gradient_engine.on_failure = self.batch.take_back
        check_ranks = state.ranks if is_sharded(module) else ALONE
        # Batches of another loader usually have one size, which the first pass shows.
        size = 0
        if state.samples_itself:
            expected = state.plan.mean_batch_size / state.ranks.size
            if state.users is not None:
                expected *= float(state.users.limits.double().mean())
            size = self._views * likely_size(expected, physical_batch_size)
        self._check = PassCheck(
            self._gradient_engine,
            self._clipper,
            check_ranks,
            size,
            self.batch.has_parts_to_come,
        )
        self._gradient_engine.on_loss = self._record_loss
        self._gradient_engine.before_forward = self._check
        self.set_bound()
        with ExitStack() as undo:
            self._install(module, optimizers, undo)
            self._undo = undo.pop_all()
        self._is_attached = True

    def _install(
        self, module: nn.Module, optimizers: Sequence[Optimizer], undo: ExitStack
    ) -> None:
        """Changes module, optimizers and torch, and adds the reversal to a stack."""
        undo.callback(self._drop_gradients)
        undo.callback(self._gradient_engine.stop)
        self._gradient_engine.start()
        held: list[nn.Module | Optimizer] = [*module.modules(), *optimizers]
        undo.callback(attachments.remove, held)
        attachments.add(self, held)
        undo.callback(setattr, self._state, "on_draw", None)
        self._state.on_draw = self.batch.draw
        self._bind(optimizers, undo)
        # A finalizer also runs if the session is garbage collected without ``undo``.
        WATCH.begin()
        for end in (WATCH.end, keep_memory()):
            finalizer = finalize(self, end)
            finalizer.atexit = False
            undo.callback(finalizer)

    def _bind(self, optimizers: Sequence[Optimizer], undo: ExitStack) -> None:
        """Makes the first step, or the end of backward, release the gradients."""
        if self._gradient_engine.releases_in_backward:
            self._gradient_engine.on_gradients = self._add_and_release
            undo.callback(BackwardBinding(self._parameters).release)
            return
        weights = self._state.weights
        self._watched = can_be_watched(self._parameters)
        if self._watched and weights.begin(self._parameters):
            self._record_outside_write()
        for optimizer in optimizers:
            if self._watched:
                hook = optimizer.register_step_post_hook(weights.remember)
                undo.callback(hook.remove)
            binding = OptimizerBinding(optimizer, self._make_step, self._clear)
            undo.callback(binding.release)

    @property
    def is_dropped(self) -> bool:
        """True if the engine was garbage collected, so that nobody can detach it."""
        return self._engine() is None

    @property
    def ledger(self) -> Ledger:
        """Record of the steps done."""
        return self._state.ledger

    def add_undo(self, callback: Callable[[], None]) -> None:
        """Adds a function that ``undo`` calls."""
        self._undo.callback(callback)

    def undo(self) -> None:
        """Restores module, optimizers and torch."""
        self._is_attached = False
        self._undo.close()

    def _drop_gradients(self) -> None:
        self.batch.pending.take_out()
        self.batch.public = {}
        self._drop_waiting()
        for parameter in self._parameters:
            vars(parameter).pop("private_grad", None)

    @contextmanager
    def public(self) -> Iterator[None]:
        """Makes the passes in the context ordinary ones; see ``PrivacyEngine.public``.

        Raises:
            PrivacyError: passes in the context cannot be told from private ones.
        """
        if self._gradient_engine.releases_in_backward or not self._state.ranks.is_alone:
            raise PrivacyError(
                "public() needs gradients that are released by optimizer.step() in one "
                'process. Use engine="hooks", "vmap" or "microbatch" without group=.'
            )
        self.batch.check_not_public("another public()")
        if self._waiting:
            raise PrivacyError(
                "public() must come after the steps of all optimizers of a batch."
            )
        self.batch.begin_public()
        self._gradient_engine.stop()
        try:
            yield
            self.batch.keep_public()
            self._state.ledger.public_passes += 1
        finally:
            self.batch.end_public()
            if self._is_attached:
                self._gradient_engine.start()
            else:  # the engine was detached inside
                self._drop_gradients()

    def choose_bound(self, max_grad_norm: float) -> None:
        """Sets the clipping bound of the next step and all later steps.

        Raises:
            ConfigError: the bound is not a number above 0, or the run adapts the bound
                to the gradients.
            PrivacyError: a batch was drawn, and its step was not made yet.
        """
        if self.batch.is_in_flight:
            raise PrivacyError(
                "max_grad_norm must not change between the draw of a batch and its "
                "step: gradients would be clipped at one bound and get noise for "
                "another. Change it after step()."
            )
        self._state.choose_bound(max_grad_norm)
        self.set_bound()

    def set_bound(self) -> None:
        """Sets the clipper to the bound of the next step."""
        state = self._state
        self._clipper.rescale(state.bound.factor(state.ledger.steps))

    def explain(self) -> list[NormChoice]:
        """Returns how the norms of the last pass were computed."""
        return self._gradient_engine.explain()

    def check_example(self, example: tuple[Any, Any], loss_fn: LossFunction) -> None:
        """Runs the safety check on an example ``(inputs, targets)``.

        Raises:
            UnsupportedModuleError: the check failed.
        """
        inputs, targets = example
        args = inputs if isinstance(inputs, tuple) else (inputs,)
        size = batch_size_of(args, {})
        measured = MeasuredLoss(loss_fn)
        self._check(args, {}, size, targets=targets, loss_fn=measured)
        self._state.ledger.losses.measured_forms = frozenset(measured.forms)

    def _make_step(self, optimizer: Optimizer) -> None:
        """Sets the private gradients before a step of the optimizer."""
        self.batch.check_not_public("optimizer.step()")
        self._optimizers.check()
        if self._waiting:
            in_flight = self.batch.is_in_flight
            waiting = None if in_flight else self._waiting.pop(optimizer, None)
            if waiting is not None and waiting.use():
                return
            self._drop_waiting()
        if not self.batch.close():
            return  # torch's optimizers skip parameters without a gradient
        if self._watched and self._state.weights.were_written():
            self._record_outside_write()
        pending = self.batch.pending
        try:
            gradients = self._release()
        except BaseException:
            pending.take_out()
            raise
        for parameter, public in self.batch.take_public().items():
            gradients[parameter] = gradients[parameter] + public
        if len(self._optimizers.optimizers) > 1:
            pending.take_out()
            gradients = self._share(gradients, optimizer)
        pending.replace(gradients)

    def _share(self, gradients: Gradients, first: Optimizer) -> Gradients:
        """Returns the gradients of the first optimizer, and stores those for others."""
        shares = {
            optimizer: {
                p: gradients[p]
                for group in optimizer.param_groups
                for p in group["params"]
                if p in gradients
            }
            for optimizer in self._optimizers.optimizers
        }
        first_share = shares.pop(first)
        self._waiting = {
            optimizer: WaitingGradients(share) for optimizer, share in shares.items()
        }
        return first_share

    def _clear(self, optimizer: Optimizer) -> None:
        """Drops the batch and the optimizer's unused gradients, as zero_grad does."""
        waiting = self._waiting.pop(optimizer, None)
        if waiting is not None:
            waiting.discard()
        self.batch.clear()

    def _drop_waiting(self) -> None:
        for waiting in self._waiting.values():
            waiting.discard()
        self._waiting = {}

    def _record_outside_write(self) -> None:
        """Counts a write to parameters outside the optimizer; warns of the first."""
        self._state.ledger.outside_writes += 1
        if self._state.ledger.outside_writes == 1:
            warn(WRITTEN_OUTSIDE)

    def _release(self) -> Gradients:
        """Returns the noisy gradients of the logical batch, and records the step."""
        gradients = self._state.release(self.batch.total, self.batch.code)
        if not self._spending_is_recorded:
            spending.record(gradients, self._state.ledger.writer)
            if self._state.note_seed(self.batch.total.numel):
                warn(SEED_IS_SHARED)
            self._spending_is_recorded = True
        if not self._state.bound.is_constant:
            self.set_bound()
        return gradients

    def _record_loss(self, reading: LossReading, size: int) -> None:
        losses = self._state.ledger.losses
        losses.note(reading, size)
        if losses.noted_rejection and not self.loss_is_vouched:
            self.loss_is_vouched = True  # warn once
            _warn_of_loss(
                losses.noted_rejection, is_private=self._state.plan.is_private
            )

    def _add(self, samples: PerSampleGradients) -> None:
        """Adds the samples of a backward to the batch."""
        self._gradient_engine.outputs.check()
        if not self._gradient_engine.module.training:
            raise PrivacyError(
                "the module must be in training mode when it computes gradients; it "
                "was in evaluation mode. Call module.train() before the forward pass, "
                "and evaluate under torch.no_grad()."
            )
        if self._views > 1:
            parameters = self._gradient_engine.parameters()
            samples = AveragedViews(samples, self._views, parameters)
        of_pass = self._gradient_engine.current_pass
        if self._state.users is not None:
            assert of_pass is not None, "gradients come from a pass"
            users = self._user_rows.of_users(samples, self.batch.counts, of_pass)
            if users is None:
                return
            samples = users
        if self._waiting:
            self._drop_waiting()
        self.batch.add(samples, of_pass)

    def _add_and_release(self, samples: PerSampleGradients) -> None:
        """Adds the samples of a backward, and sets the gradients if the batch ends."""
        self._optimizers.check()
        self._add(samples)
        if self.batch.awaits_more or not self.batch.close():
            return
        scale = self._user_loss_scale()
        for parameter, gradient in self._release().items():
            parameter.grad = gradient if scale == 1.0 else gradient * scale


def _warn_of_loss(rejection: str, *, is_private: bool) -> None:
    """Warns at the first backward that the run will have no epsilon."""
    if is_private:
        warn(
            "the loss must be a mean or sum of one term per sample, and the engine "
            f"cannot confirm that: {rejection}. get_epsilon() will raise. {REMEDY}"
        )


class LogicalBatch:
    """One batch from its draw to its release; several backward calls may share it.

    Args:
        total: Sum that the clipped gradients are added to.
        parameters: All trainable parameters.
        checked: If True, batches must come from the loader of the engine.
        pending: Placeholders for the gradients until the step; None if the end of
            backward sets the gradients.

    Attributes:
        total: The clipped sum.
        pending: The placeholders; none if the end of backward sets the gradients.
        code: Code of the whole batch that was drawn last, which the ranks compare.
        public: Gradients of public passes since the last step.
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
        self.counts = torch.zeros(0, dtype=torch.int64)
        self._parameters = list(parameters)
        self._checked = checked
        self.pending = PendingGradients(()) if pending is None else pending
        self._drawn: int | None = None
        self._held: int | None = None  # samples of the parts before the last
        self._to_come = 0
        self._backward_ran = False
        self._released = False
        self._accumulating = False
        self._pass: object = None  # the forward pass of the last backward
        self._size_before = 0  # number of samples in the sum before that backward
        self._is_spoiled = False
        self.public: Gradients = {}
        self._is_public = False

    @property
    def is_in_flight(self) -> bool:
        """True if a batch was drawn or went through backward, and no step followed."""
        return self._drawn is not None or self._backward_ran

    def check_not_in_flight(self, action: str) -> None:
        """Raises PrivacyError if a batch is in flight.

        Args:
            action: The action for the message: "saved" or "restored".
        """
        if self.is_in_flight:
            raise PrivacyError(
                f"the engine cannot be {action} between the draw of a batch and its "
                "step, because the noise of that step would be used twice. Try again "
                "after step()."
            )

    @contextmanager
    def accumulate(self) -> Iterator[None]:
        """Makes the backward calls in the context parts of a longer batch.

        The first backward after the context ends the batch.
        """
        self._accumulating = True
        try:
            yield
        finally:
            self._accumulating = False

    @property
    def awaits_more(self) -> bool:
        """True if further samples of the batch must go through backward."""
        return self._accumulating or self.total.size < (self._drawn or 0)

    def begin_public(self) -> None:
        """Takes the placeholders out of ``param.grad`` for public passes.

        Raises:
            PrivacyError: ``param.grad`` has a gradient of an earlier step, or one that
                did not go through the engine.
        """
        self._check_sum()
        if self._released:
            self._drop_cleared()
            self._released = False
        self.pending.take_out()
        if self._gradients_are_there():
            raise PrivacyError(FOREIGN_GRADIENT)
        self._is_public = True

    def check_not_public(self, action: str) -> None:
        """Raises PrivacyError while public passes run.

        Args:
            action: What must not happen then, for the message.
        """
        if self._is_public:
            raise PrivacyError(
                f"{action} must come after the end of public(), got it inside: passes "
                "in it have no protection."
            )

    def keep_public(self) -> None:
        """Adds the gradients in ``param.grad`` to those of earlier public passes."""
        for parameter in self._parameters:
            gradient = parameter.grad
            if gradient is not None:
                earlier = self.public.get(parameter)
                self.public[parameter] = (
                    gradient if earlier is None else earlier + gradient
                )

    def end_public(self) -> None:
        """Puts placeholders into ``param.grad``, which ``zero_grad`` removes."""
        self._is_public = False
        for parameter in self._parameters:
            parameter.grad = None
        if self._backward_ran or self.public:
            self.pending.place()

    def take_public(self) -> Gradients:
        """Returns the gradients of public passes, and forgets them."""
        taken, self.public = self.public, {}
        return taken

    def has_parts_to_come(self) -> bool:
        """Returns True if further parts of the drawn batch follow."""
        return self._to_come > 0

    def draw(
        self,
        size: int,
        to_come: int = 0,
        begins: bool = True,
        code: int = 0,
        counts: Tensor | None = None,
    ) -> None:
        """Records that the loader yields a part of a batch, or all of it.

        Args:
            size: Number of samples of the part.
            to_come: Number of parts of the batch after this part.
            begins: If True, it is the first part of the batch.
            code: Code of the whole batch.
            counts: Number of records of each user of the part; None if samples are
                records.

        Raises:
            PrivacyError: no step followed the part before, or public passes run.
        """
        self.check_not_public("a batch of the engine's loader")
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
        if counts is not None:
            self.counts = counts

    def add(self, samples: PerSampleGradients, of_pass: object = None) -> None:
        """Clips and adds the samples of one backward.

        Args:
            samples: All samples of a backward, or a chunk of them.
            of_pass: Identifies the forward pass, for ``take_back``.

        Raises:
            PrivacyError: gradients of an earlier step are still there, or an earlier
                backward of the batch was interrupted.
        """
        if of_pass is None or of_pass is not self._pass:
            self._begin_backward(of_pass)
        self.total.add(samples)
        self.pending.place()

    def _begin_backward(self, of_pass: object) -> None:
        if self._released:
            self._drop_cleared()
            self._released = False
        self._check_sum()
        if not self._backward_ran:
            self._begin_sum()
            self._backward_ran = True
        self._pass, self._size_before = of_pass, self.total.size

    def _begin_sum(self) -> None:
        # A reference to the last gradient would keep the buffer of the sum from reuse.
        for parameter in self._parameters:
            vars(parameter).pop("private_grad", None)
        self.total.reset()

    def take_back(self, of_pass: object) -> None:
        """Drops the samples of a backward that was interrupted.

        Samples cannot be subtracted from the sum.  If the sum also contains earlier
        samples, the whole batch must be dropped, and the next backward or step raises
        an error until then.

        Args:
            of_pass: The forward pass whose backward was interrupted.
        """
        if of_pass is not self._pass:
            return  # the backward added no samples
        self._pass = None
        if self._size_before:
            self._is_spoiled = True
        else:
            self._drop()

    def clear(self) -> None:
        """Drops the sum, as zero_grad does, but not the record of the draw.

        Between the parts of a batch that the loader splits, the sum remains too.
        """
        if self._held is None or self.total.size != self._held:
            self._drop()

    def _drop(self) -> None:
        self.pending.take_out()
        self.public = {}
        self._backward_ran = self._is_spoiled = False
        # The gradients of another optimizer may still be there.
        self._released = self._released and self._gradients_are_there()

    def _gradients_are_there(self) -> bool:
        gradients = [parameter.grad for parameter in self._parameters]
        return not all(map(is_, gradients, repeat(None)))

    def _check_sum(self) -> None:
        """Drops the sum if zero_grad was called on the module, not the optimizer.

        Raises:
            PrivacyError: the gradients of some parameters were dropped, a gradient did
                not go through the engine, or a part of a batch was interrupted.
        """
        if not self.pending.are_intact():
            dropped = self.pending.dropped()
            if not dropped:
                raise PrivacyError(FOREIGN_GRADIENT)
            if dropped < len(self._parameters):
                raise PrivacyError(
                    f"the gradients of {dropped} of {len(self._parameters)} parameters "
                    "were removed between backward and step, but the clipped sum "
                    "includes all of them. Call optimizer.zero_grad(), and run "
                    "backward again."
                )
            self.clear()
        if self._is_spoiled:
            raise PrivacyError(
                "the sum must contain whole batches: a backward was interrupted after "
                "an earlier backward of the same step. Call optimizer.zero_grad() and "
                "run the whole batch again. If the loader splits batches and the first "
                "parts are lost, call detach() and attach() to start the next batch."
            )

    def close(self) -> bool:
        """Checks that a step may follow, and ends the batch.

        Returns:
            True if the batch is complete; if False, the next part must follow.

        Raises:
            PrivacyError: the step would not release one noisy sum over one batch of
                the engine's loader.
        """
        self._check_sum()
        if not self._backward_ran and self._drawn != 0:
            raise PrivacyError(
                "step must follow a backward of the engine's module, but none ran "
                "since the last step or zero_grad. Call loss.backward() first."
            )
        # Placeholders, and the gradients of the step before, are the engine's.
        are_known = self.pending.are_placed or self._released
        if not are_known and self._gradients_are_there():
            raise PrivacyError(FOREIGN_GRADIENT)
        if not self._backward_ran:
            self._begin_sum()  # of an empty batch
        if self._checked and self.total.size != self._drawn:
            drawn = "none was drawn" if self._drawn is None else f"{self._drawn} drawn"
            others = ""
            if self._drawn is not None:
                others = " Run rows that are nobody's record inside engine.public()."
            raise PrivacyError(
                "each step must use exactly one batch of the engine's loader: "
                f"{self.total.size} samples went through backward, {drawn}. Iterate "
                "over the engine's loader, such as engine.poisson_loader(dataset), or "
                f'pass sampling="unchecked".{others}'
            )
        if self._to_come:
            self.pending.take_out()
            self._held = self._drawn
            return False
        self._drawn, self._held, self._pass = None, None, None
        self._backward_ran, self._released = False, True
        return True

    def _drop_cleared(self) -> None:
        """Drops the gradients that ``zero_grad(set_to_none=False)`` filled with zeros.

        Reading these gradients is post-processing, since they were released.
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

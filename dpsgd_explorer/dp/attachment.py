"""A PrivacyEngine at work: a gradient engine, its optimizers, one logical batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any
from weakref import finalize, ref

from torch import Tensor, nn
from torch.optim import Optimizer

from dpsgd_explorer.dp import taken
from dpsgd_explorer.dp.augmentation import AveragedViews
from dpsgd_explorer.dp.backends.heap import HEAP, KEPT
from dpsgd_explorer.dp.checks.loss.measured import MeasuredLoss
from dpsgd_explorer.dp.checks.loss.reading import REMEDY, LossReading
from dpsgd_explorer.dp.checks.loss.watch import WATCH
from dpsgd_explorer.dp.clipping.groups import clipping_groups
from dpsgd_explorer.dp.clipping.sums import clipped_sum
from dpsgd_explorer.dp.config import ENGINES
from dpsgd_explorer.dp.distributed.agreement import refuse_unlike
from dpsgd_explorer.dp.distributed.ranks import ALONE
from dpsgd_explorer.dp.distributed.sharding import (
    is_sharded,
    refuse_sharding,
    reshard,
)
from dpsgd_explorer.dp.engine_state import EngineState
from dpsgd_explorer.dp.engines.base import (
    PerSampleGradients,
    batch_size_of,
    unit_loss_scale,
)
from dpsgd_explorer.dp.engines.norm_choice import NormChoice
from dpsgd_explorer.dp.ledger import spending
from dpsgd_explorer.dp.ledger.ledger import Ledger
from dpsgd_explorer.dp.ledger.noisy_release import Gradients
from dpsgd_explorer.dp.ledger.weights import can_be_watched
from dpsgd_explorer.dp.logical_batch import LogicalBatch
from dpsgd_explorer.dp.modules.refused import refuse_by_kind, refuse_compiled
from dpsgd_explorer.dp.optimizer_hooks import (
    BackwardBinding,
    OptimizerBinding,
)
from dpsgd_explorer.dp.pending_gradients import PendingGradients, WaitingGradients
from dpsgd_explorer.dp.safety.attach_check import PassCheck, likely_size
from dpsgd_explorer.dp.safety.optimizer_check import OptimizerCheck
from dpsgd_explorer.dp.safety.passes import LossFunction
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


class Attachment:
    """Makes every gradient of some optimizers private, until it is undone.

    All steps of the optimizers after one batch are one private step: the first of them
    draws the noise, and each uses the gradients of its own parameters, once.

    Args:
        module: The model.
        optimizers: Must train the module's trainable parameters, all of them and
            nothing else; see OptimizerCheck.
        state: The run; it releases the gradients of each step.
        engine: Whoever may undo this; once it is gone, the next attachment does.
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
        refuse_sharding(module, state.ranks, options.engine)
        refuse_compiled(module)
        refuse_unlike(module, state.ranks)
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
        self._spending_noted = self.loss_is_vouched = False
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
        for end in (WATCH.end, HEAP.ask(KEPT)):
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
        """Clip at this bound from the next step on.

        The noise is a multiple of the bound, so epsilon does not change.  The choice
        may depend on what was released, such as earlier parameters; where it depends on
        records in another way, as on gradient norms, epsilon does not cover it.

        Args:
            max_grad_norm: Bound on a sample's whole gradient; clipping groups keep
                their shares.

        Raises:
            ConfigError: it is no bound, or the bound follows the gradients.
            PrivacyError: a batch was drawn, and its step is not made yet.
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
        """Clip the next batch with the bound of its step."""
        self._clipper.rescale(self._state.bound_factor)

    def explain(self) -> list[NormChoice]:
        """Return how the norms of the last pass were made."""
        return self._gradient_engine.explain()

    def check_example(self, example: tuple[Any, Any], loss_fn: LossFunction) -> None:
        """Run the safety check on an example ``(inputs, targets)``.

        Raises:
            UnsupportedModuleError: it failed, and the attachment was undone.
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
        if not self._spending_noted:
            spending.note(gradients, self._state.ledger.writer)
            if self._state.note_seed(self.batch.total.numel):
                warn(SEED_IS_SHARED)
            self._spending_noted = True
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

"""A PrivacyEngine at work: one gradient engine, one optimizer, one logical batch."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any
from weakref import WeakSet

from torch import nn
from torch.optim import Optimizer

from dpsgd_explorer.dp.augmentation import AveragedViews
from dpsgd_explorer.dp.clipping.groups import clipping_groups
from dpsgd_explorer.dp.clipping.sums import clipped_sum
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
from dpsgd_explorer.dp.engines.methods.norm_methods import NormChoice
from dpsgd_explorer.dp.ledger import spending
from dpsgd_explorer.dp.ledger.noisy_release import Gradients
from dpsgd_explorer.dp.logical_batch import LogicalBatch
from dpsgd_explorer.dp.losses.reading import LossReading
from dpsgd_explorer.dp.losses.watch import WATCH
from dpsgd_explorer.dp.modules.refused import refuse_by_kind, refuse_compiled
from dpsgd_explorer.dp.optimizer_hooks import BackwardBinding, OptimizerBinding
from dpsgd_explorer.dp.options import ENGINES
from dpsgd_explorer.dp.safety.attach_check import PassCheck, likely_size
from dpsgd_explorer.dp.safety.optimizer_check import OptimizerCheck
from dpsgd_explorer.dp.safety.passes import LossFunction
from dpsgd_explorer.errors import PrivacyError

#: Modules that an engine is attached to, with all modules inside them.
_TAKEN: WeakSet[nn.Module] = WeakSet()


class Attachment:
    """Makes every gradient of an optimizer private, until it is undone.

    Args:
        module: The model.
        optimizer: Must train the module's trainable parameters, all of them and
            nothing else; see OptimizerCheck.
        state: The run; it releases the gradients of each step.
        user_loss_scale: Returns the factor by which the user multiplies each loss.
        physical_batch_size: Most samples per part of a batch, if batches are split.

    Attributes:
        batch: The logical batch since the last step.

    Raises:
        UnsupportedModuleError: a trainable module is not covered.
        ConfigError: clipping_style does not fit the module.
        PrivacyError: the optimizer trains something else, or another engine is
            attached to a module inside.
    """

    def __init__(
        self,
        module: nn.Module,
        optimizer: Optimizer,
        state: EngineState,
        user_loss_scale: Callable[[], float] = unit_loss_scale,
        physical_batch_size: int | None = None,
    ) -> None:
        options = state.options
        _refuse_taken(module)
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
            norm_methods=state.norm_methods,
        )
        self._optimizer = OptimizerCheck(optimizer, module)
        parameters = self._gradient_engine.parameters()
        self._parameters = [p for own in parameters.values() for p in own.values()]
        self._clipper = options.clipper(groups)
        self.batch = LogicalBatch(
            clipped_sum(parameters, self._clipper, state.ranks),
            self._parameters,
            checked=options.sampling == "poisson",
        )
        self._state = state
        self._spending_noted = False
        self._user_loss_scale = self._gradient_engine.user_loss_scale = user_loss_scale
        self._views = options.augmentation_multiplicity
        self._gradient_engine.on_gradients = self._add
        together = state.ranks if is_sharded(module) else ALONE
        likely = 0  # of batches from elsewhere, the first is like the others
        if options.sampling == "poisson":
            expected = state.plan.expected_batch_size / state.ranks.size
            likely = self._views * likely_size(expected, physical_batch_size)
        self._check = PassCheck(self._gradient_engine, self._clipper, together, likely)
        self._gradient_engine.on_loss = self._record_loss
        self._gradient_engine.before_forward = self._check
        self._gradient_engine.start()
        self._modules = list(module.modules())
        _TAKEN.update(self._modules)
        self._binding = self._bind(optimizer)
        WATCH.begin()
        self.set_bound()

    def _bind(self, optimizer: Optimizer) -> OptimizerBinding | BackwardBinding:
        """Make the gradients due at the optimizer's step, or when backward ends."""
        if not self._gradient_engine.releases_in_backward:
            return OptimizerBinding(optimizer, self._make_step, self.batch.clear)
        self._gradient_engine.on_gradients = self._add_and_release
        return BackwardBinding(self._parameters)

    def undo(self) -> None:
        """Leave module and optimizer as they were."""
        WATCH.end()
        self._binding.release()
        self._gradient_engine.stop()
        _TAKEN.difference_update(self._modules)
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
                "max_grad_norm cannot be chosen between a batch's draw and its step: "
                "clipped at one bound, it would get the noise of another. Do it after "
                "step()."
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

        Norm methods that are measured are those of its shapes.

        Raises:
            UnsupportedModuleError: it failed, and the attachment was undone.
        """
        inputs, targets = example
        args = inputs if isinstance(inputs, tuple) else (inputs,)
        with ExitStack() as on_failure:
            on_failure.callback(self.undo)
            size = batch_size_of(args, {})
            self._check(args, {}, size, targets=targets, loss_fn=loss_fn)
            on_failure.pop_all()
        self._state.norm_methods.settle()

    def _make_step(self) -> None:
        """Turn the logical batch into the gradients that the step will use."""
        self._optimizer.check()
        if not self.batch.close():
            return  # no gradient: torch's optimizers leave such a parameter alone
        for parameter, gradient in self._release().items():
            parameter.private_grad = gradient  # type: ignore[attr-defined]
            parameter.grad = gradient

    def _release(self) -> Gradients:
        """Return the noisy gradients of the logical batch, and record the step."""
        gradients = self._state.release(self.batch.total, self.batch.code)
        if not self._spending_noted:
            spending.note(gradients, self._state.ledger.writer)
            self._spending_noted = True
        self.set_bound()
        return gradients

    def _record_loss(self, reading: LossReading, size: int) -> None:
        self._state.ledger.losses.note(reading, size)

    def _add(self, samples: PerSampleGradients) -> None:
        """Add the samples of a backward to the batch."""
        self._gradient_engine.outputs.check()
        if not self._gradient_engine.module.training:
            raise PrivacyError(
                "the module must be in training mode when its gradients are made; it "
                "was in evaluation mode. Call module.train() before the forward pass, "
                "and evaluate under torch.no_grad()."
            )
        if self._views > 1:
            own = self._gradient_engine.parameters()
            samples = AveragedViews(samples, self._views, own)
        self.batch.add(samples)

    def _add_and_release(self, samples: PerSampleGradients) -> None:
        """Add the samples of a backward; if they end the batch, set the gradients."""
        self._optimizer.check()
        self._add(samples)
        if self.batch.awaits_more or not self.batch.close():
            return
        scale = self._user_loss_scale()
        for parameter, gradient in self._release().items():
            parameter.grad = gradient if scale == 1.0 else gradient * scale


def _refuse_taken(module: nn.Module) -> None:
    for name, each in module.named_modules():
        if each in _TAKEN:
            raise PrivacyError(
                f"{name or 'the module'} is attached to another engine; detach that "
                "one first."
            )

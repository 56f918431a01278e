"""Attaches DP-SGD to an ordinary PyTorch training loop.

The loop stays ``loss.backward(); optimizer.step(); optimizer.zero_grad()``.  All
backward calls between two steps are one logical batch: every sample is clipped, the
clipped gradients are added, noise is drawn once, and the sum is divided by the
expected batch size, a public constant.

Source: Abadi et al. (2016), arXiv:1607.00133, Algorithm 1.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from torch import Tensor, nn
from torch.amp import GradScaler
from torch.optim import Optimizer
from torch.utils.data import Dataset

from dpsgd_explorer.accounting import Plan
from dpsgd_explorer.dp import options
from dpsgd_explorer.dp.attachment import Attachment
from dpsgd_explorer.dp.clipping.bound import ClippingSchedule, bound_of
from dpsgd_explorer.dp.clipping.clipped_sum import ClippedSum
from dpsgd_explorer.dp.clipping.groups import ClippingStyle, partition
from dpsgd_explorer.dp.engine_state import EngineState
from dpsgd_explorer.dp.engines.base import unit_loss_scale
from dpsgd_explorer.dp.engines.norm_methods import ClippingMode
from dpsgd_explorer.dp.ledger import phases, spending
from dpsgd_explorer.dp.ledger.diagnostics import Diagnostics, diagnose
from dpsgd_explorer.dp.ledger.ledger import Ledger
from dpsgd_explorer.dp.ledger.noisy_release import noisy_release
from dpsgd_explorer.dp.noise.generators import sources
from dpsgd_explorer.dp.noise.schedules import Schedule
from dpsgd_explorer.dp.safety.check import LossFunction
from dpsgd_explorer.dp.sampling.sampler import Collate, PoissonLoader, PoissonSampler
from dpsgd_explorer.errors import PrivacyError


class PrivacyEngine(EngineState):
    """Makes an optimizer's steps differentially private, or refuses.

    Args:
        module: The model.  What has ``requires_grad`` when attached is trained.
        batch_size: Expected size of a logical batch: the sample rate is
            ``batch_size / sample_size`` and the noisy sum is divided by it.
        sample_size: Records in the data set, N.
        target_epsilon: Spend this over all steps; the noise is chosen for it.
        target_delta: delta, below 1/N; 1/(2N) if not given.
        max_grad_norm: Clipping bound C on a sample's gradient (L2), shared equally by
            the blocks; or the bound of each block.
        epochs: Length of the run; or give ``steps``.  With ``noise_multiplier`` neither
            need be given: the run is open-ended, epsilon is that of the steps done,
            ``poisson_loader`` yields one epoch each time it is iterated, and
            ``plan.steps`` is the batches of one.
        noise_multiplier: Noise std over C; or give ``target_epsilon``.  0 clips only,
            and epsilon is infinite.
        accounting_mode: A key of ACCOUNTANTS, or "all": the exact accountant decides,
            and the receipt says what each of them makes of the run.
        named_params: For users of FastDP: must be all trainable parameters.
        clipping_mode: A key of CLIPPING_MODES, or {layer's name: such a key}; how norms
            are made, not what they are.
        clipping_fn: A key of CLIPPING_FUNCTIONS.
        clipping_style: A key of CLIPPING_STYLES; or names of the layers at which a
            block begins; or the blocks, as lists of names.
        clipping_threshold: Longer gradients than this are left out by "global";
            ``max_grad_norm`` if not given.
        origin_params: For users of FastDP; checked, and changes nothing.
        loss_reduction: "mean" or "sum": how the loss joins the samples.  As in other
            libraries, the gradient of a "sum" is not divided by the batch size.
        noise: "secure": of noise and batches nobody can know or repeat anything.
            "seeded": both come again with the seed, and whoever knows it can take the
            noise away.
        engine: A key of ENGINES.
        physical_batch_size: Largest part in which ``poisson_loader`` hands a batch
            out.  The loop stays as it is; a step before the last part does nothing.
        sampling: "poisson": batches must come from ``poisson_loader``.  "unchecked":
            from anywhere, and epsilon is given only to those who vouch for them.
        example_inputs: A batch ``(inputs, targets)`` as the loader yields it: the
            safety check then runs when attached, and checks the loss too.  Shapes and
            dtypes are used, not values.
        loss_fn: ``loss_fn(outputs, targets)``; given with ``example_inputs``.
        steps: Length of the run; or give ``epochs``, or neither.
        seed: Of seeded noise and its batches; drawn from the operating system if not
            given.
        plan: Instead of sizes, length, noise, delta and accountant.
        noise_schedule: How the noise multiplier changes (``dp.schedules``); it is that
            of the first step.  Accounted step by step.
        clipping_schedule: How the clipping bound changes: a schedule, or
            ``AdaptiveClipping`` to follow a quantile of the norms.
        augmentation_multiplicity: Views of each sample, one after the other in the
            batch; a sample's gradient is the mean over its views (``dp.augmentation``).
        grad_scaler: What scales the losses against underflow in half precision; the
            scale is taken out before clipping.  With ``engine="extending"`` only, for
            a scaler looks for gradients before the step.
        after: The engine of an earlier phase on the same records: ``get_epsilon`` is
            then that of both.  ``target_epsilon`` is that of this phase alone.

    Attributes:
        module: The model.
        plan: What the accountant is told.
        options: How gradients are clipped, noised and sampled.
        seed: Of noise and sampling, given or drawn; None if noise is secure.

    Raises:
        ConfigError: naming the argument at fault.
    """

    def __init__(
        self,
        module: nn.Module,
        *,
        batch_size: int | None = None,
        sample_size: int | None = None,
        target_epsilon: float | None = None,
        target_delta: float | None = None,
        max_grad_norm: float | Sequence[float] = 1.0,
        epochs: float | None = None,
        noise_multiplier: float | None = None,
        accounting_mode: str = "exact",
        named_params: Sequence[tuple[str, nn.Parameter]] | None = None,
        clipping_mode: ClippingMode = "MixOpt",
        clipping_fn: str = "automatic",
        clipping_style: ClippingStyle = "all-layer",
        clipping_threshold: float | None = None,
        origin_params: Sequence[str] | None = None,
        loss_reduction: str = "mean",
        noise: str = "secure",
        engine: str = "hooks",
        physical_batch_size: int | None = None,
        sampling: str = "poisson",
        example_inputs: tuple[Any, Any] | None = None,
        loss_fn: LossFunction | None = None,
        steps: int | None = None,
        seed: int | None = None,
        plan: Plan | None = None,
        noise_schedule: Schedule | None = None,
        clipping_schedule: ClippingSchedule | None = None,
        augmentation_multiplicity: int = 1,
        grad_scaler: GradScaler | None = None,
        after: PrivacyEngine | None = None,
    ) -> None:
        self.options = options.Options(
            engine=engine,
            clipping_mode=clipping_mode,
            clipping_fn=clipping_fn,
            clipping_style=clipping_style,
            max_grad_norm=max_grad_norm,
            clipping_threshold=clipping_threshold,
            loss_reduction=loss_reduction,
            noise=noise,
            sampling=sampling,
            noise_schedule=noise_schedule,
            clipping_schedule=clipping_schedule,
            augmentation_multiplicity=augmentation_multiplicity,
        )
        options.check_grad_scaler(grad_scaler, engine)
        options.check_physical_batch_size(physical_batch_size, sampling)
        options.check_parameter_lists(module, named_params, origin_params)
        self.options.clipper(partition(clipping_style, module))  # refuses unknown names
        options.require_together(example_inputs=example_inputs, loss_fn=loss_fn)
        self.module = module
        asked: dict[str, Any] = {
            "batch_size": batch_size,
            "sample_size": sample_size,
            "steps": steps,
            "epochs": epochs,
            "noise_multiplier": noise_multiplier,
            "target_epsilon": target_epsilon,
            "target_delta": target_delta,
        }
        self.plan = plan = options.plan_from(plan, accounting_mode, **asked)
        self._open_ended = options.is_open_ended(**asked)
        if self._open_ended:
            options.refuse_schedules(
                noise_schedule=noise_schedule, clipping_schedule=clipping_schedule
            )
        if noise_schedule is not None and target_epsilon is not None:
            self.plan = plan = phases.calibrated(plan, noise_schedule, target_epsilon)
        self._bound = bound_of(clipping_schedule, plan)
        self._noise, coins, self.seed = sources(noise, seed)
        self._steps_are_final = noise_multiplier is None
        self._example = example_inputs
        self._loss_fn = loss_fn
        epoch = plan.steps if self._open_ended else None
        self._sampler = PoissonSampler(plan, coins, epoch=epoch)
        self._ledger = Ledger()
        self._part_size = physical_batch_size
        self._after = after
        self._user_loss_scale = (
            grad_scaler.get_scale if grad_scaler else unit_loss_scale
        )
        self._vouched = self._loss_vouched = self._noted = False
        self._attachment: Attachment | None = None
        self._diagnostics: Diagnostics | None = None

    def poisson_loader(
        self,
        dataset: Dataset[Any] | Sequence[Tensor],
        *,
        steps: int | None = None,
        collate: Collate | None = None,
        num_workers: int = 0,
    ) -> PoissonLoader:
        """Return the loader whose batches the accountant assumes.

        Args:
            dataset: A TensorDataset, a tuple of tensors, or any map-style data set.
            steps: Batches of the whole run, if not the plan's.  An open-ended run, if
                it is not given, yields ceil(N / batch_size) at each iteration.
            collate: Joins a list of items; torch's own by default.
            num_workers: Processes that fetch records ahead; the batches are the same,
                and a saved state is that of the last batch handed out.
        """
        if steps is not None:
            self._sampler.end_after(steps)
        return PoissonLoader(
            dataset,
            self._sampler,
            self._note_draw,
            collate,
            self._part_size,
            num_workers,
        )

    def attach(self, optimizer: Optimizer) -> None:
        """Take over the optimizer's gradients.

        Raises:
            UnsupportedModuleError: the model cannot be trained with the guarantee.
            PrivacyError: the optimizer trains something else than the module.

        Warns:
            PrivacyWarning: another engine has spent on these parameters, and is not in
                ``after``.
        """
        if self._attachment is not None:
            raise PrivacyError("the engine is attached already; call detach() first.")
        self._attachment = Attachment(
            self.module,
            optimizer,
            self.options,
            self._release,
            self._user_loss_scale,
            on_loss=lambda reading, size: self._ledger.losses.note(reading, size),
        )
        self._set_bound()
        self._noted = False
        self._warn_of_uncounted_steps()
        if self._example is not None and self._loss_fn is not None:
            with ExitStack() as undo:
                undo.callback(self.detach)
                self._attachment.check_example(self._example, self._loss_fn)
                undo.pop_all()

    def detach(self) -> None:
        """Leave module and optimizer as they were; what was spent stays counted."""
        if self._attachment is not None:
            self._attachment.undo()
            self._attachment = None

    @contextmanager
    def accumulating(self) -> Iterator[None]:
        """Let the backward calls inside be parts of the batch that the next one ends.

        Only ``engine="extending"`` has to be told, and only of batches that do not come
        from ``poisson_loader``: elsewhere ``step()`` or the loader says where one ends.
        """
        if self._attachment is None:
            raise PrivacyError("there is no batch to add to before attach().")
        batch = self._attachment.batch
        batch.accumulating = True
        try:
            yield
        finally:
            batch.accumulating = False

    def _note_draw(self, size: int, to_come: int, begins: bool) -> None:
        if self._attachment is None:
            raise PrivacyError(
                "a batch was drawn with no optimizer attached; call "
                "engine.attach(optimizer) before the loop."
            )
        self._attachment.batch.draw(size, to_come, begins)

    def _release(self, total: ClippedSum) -> dict[nn.Parameter, Tensor]:
        """Return the gradients of one step, and write it down."""
        if self._steps_are_final and self._ledger.steps >= self.plan.steps:
            raise PrivacyError(
                f"all {self.plan.steps} planned steps are done; one more would spend "
                "more than was planned. Plan more steps from the start, or give "
                "noise_multiplier instead of target_epsilon or plan."
            )
        step, told = self._ledger.steps, self._told
        gradients, done = noisy_release(
            total, self._noise, told, self._sampler.sample_rate, step
        )
        self._diagnostics = diagnose(total, done.noise_multiplier * done.max_grad_norm)
        counted = self._bound.observe(
            self._diagnostics.norms,
            done.max_grad_norm,
            self._noise if self.plan.is_private else None,
        )
        done = dataclasses.replace(done, count_noise_multiplier=counted)
        self._ledger.record(done, total.size)
        if not self._noted:
            spending.note(gradients, self._ledger.writer)
            self._noted = True
        self._set_bound()
        return gradients

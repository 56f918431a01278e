"""Attaches DP-SGD to an ordinary PyTorch training loop.

The loop stays ``loss.backward(); optimizer.step(); optimizer.zero_grad()``.  All
backward calls between two steps are one logical batch: every sample is clipped, the
clipped gradients are added, noise is drawn once, and the sum is divided by the
expected batch size, a public constant.

Source: Abadi et al. (2016), arXiv:1607.00133, Algorithm 1.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils.data import Dataset

from dpsgd_explorer.accounting import Phase, Plan
from dpsgd_explorer.dp import options, phases, saved_state
from dpsgd_explorer.dp.attachment import Attachment
from dpsgd_explorer.dp.blocks import ClippingStyle, partition
from dpsgd_explorer.dp.clipped_sum import ClippedSum
from dpsgd_explorer.dp.diagnostics import Diagnostics, diagnose
from dpsgd_explorer.dp.ledger import Ledger, Release
from dpsgd_explorer.dp.noise_source import Meter
from dpsgd_explorer.dp.receipt import Told, check, receipt
from dpsgd_explorer.dp.safety import LossFunction
from dpsgd_explorer.dp.sampling import Collate, PoissonLoader, PoissonSampler
from dpsgd_explorer.dp.sources import sources
from dpsgd_explorer.dp.ways import Choice, ClippingMode
from dpsgd_explorer.errors import PrivacyError


class PrivacyEngine:
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
        epochs: Length of the run; or give ``steps``.
        noise_multiplier: Noise std over C; or give ``target_epsilon``.  0 clips only,
            and epsilon is infinite.
        accounting_mode: A key of ACCOUNTANTS.
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
        steps: Length of the run; or give ``epochs``.
        seed: Of seeded noise and its batches; drawn from the operating system if not
            given.
        plan: Instead of sizes, length, noise, delta and accountant.
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
        )
        options.check_physical_batch_size(physical_batch_size, sampling)
        options.check_parameter_lists(module, named_params, origin_params)
        self.options.clipper(partition(clipping_style, module))  # refuses unknown names
        options.require_together(example_inputs=example_inputs, loss_fn=loss_fn)
        self.module = module
        self.plan = plan = options.plan_from(
            plan,
            accounting_mode,
            batch_size=batch_size,
            sample_size=sample_size,
            steps=steps,
            epochs=epochs,
            noise_multiplier=noise_multiplier,
            target_epsilon=target_epsilon,
            target_delta=target_delta,
        )
        self._noise, coins, self.seed = sources(noise, seed)
        self._steps_are_final = noise_multiplier is None
        self._example = example_inputs
        self._loss_fn = loss_fn
        self._sampler = PoissonSampler(plan, coins)
        self._ledger = Ledger()
        self._part_size = physical_batch_size
        self._after = after
        self._vouched = False
        self._attachment: Attachment | None = None
        self._diagnostics: Diagnostics | None = None

    def poisson_loader(
        self,
        dataset: Dataset[Any] | Sequence[Tensor],
        *,
        steps: int | None = None,
        collate: Collate | None = None,
    ) -> PoissonLoader:
        """Return the loader whose batches the accountant assumes.

        Args:
            dataset: A TensorDataset, a tuple of tensors, or any map-style data set.
            steps: Batches of the whole run, if not the plan's.
            collate: Joins a list of items; torch's own by default.
        """
        if steps is not None:
            self._sampler.steps = steps
        return PoissonLoader(
            dataset, self._sampler, self._note_draw, collate, self._part_size
        )

    def attach(self, optimizer: Optimizer) -> None:
        """Take over the optimizer's gradients.

        Raises:
            UnsupportedModuleError: the model cannot be trained with the guarantee.
            PrivacyError: the optimizer trains something else than the module.
        """
        if self._attachment is not None:
            raise PrivacyError("the engine is attached already; call detach() first.")
        self._attachment = Attachment(
            self.module, optimizer, self.options, self._release
        )
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

    def get_epsilon(
        self, delta: float | None = None, *, assume_poisson: bool = False
    ) -> float:
        """Return the epsilon of the steps done so far, with those of earlier phases.

        Infinite without noise.

        Args:
            delta: If not the plan's.
            assume_poisson: Vouch that batches from elsewhere were Poisson samples.

        Raises:
            PrivacyError: the sampling was not checked and nobody vouches for it, or
                something else was done than the accountant was told.
        """
        self._vouched = self._vouched or assume_poisson
        plan = self.plan
        if delta is not None:
            plan = dataclasses.replace(plan, delta=delta)
        return phases.epsilon_of(self.phases(), plan)

    def phases(self) -> list[Phase]:
        """Return the steps done so far, after those of the earlier engines.

        Raises:
            PrivacyError: as ``get_epsilon`` does, for any of them.
        """
        if self.options.sampling == "unchecked" and not self._vouched:
            raise PrivacyError(
                "epsilon assumes Poisson sampling, and this engine did not check it. "
                "Use poisson_loader, or vouch for it with assume_poisson=True."
            )
        check(self._told, self._ledger)
        return [*self._earlier(), phases.phase_of(self.plan, self._ledger.steps)]

    def _earlier(self) -> list[Phase]:
        return [] if self._after is None else self._after.phases()

    def sensitivity(self, relation: str = "add_or_remove_one") -> float:
        """Return how far one record can move the clipped sum (L2).

        The noise is ``noise_multiplier`` times that of adding or removing a record.

        Raises:
            ConfigError: the relation is unknown.
        """
        return self.options.sensitivity * options.moves_of(relation)

    def explain(self) -> list[Choice]:
        """Return, for each use of a layer at the last pass, how its norm was made.

        Ghost norm or gradients, what either costs at that shape, and why it was chosen;
        [] for an engine that has no choice.
        """
        if self._attachment is None:
            raise PrivacyError("there is nothing to explain before attach().")
        return self._attachment.explain()

    @property
    def steps_done(self) -> int:
        """Steps that have released a gradient."""
        return self._ledger.steps

    @property
    def diagnostics(self) -> Diagnostics:
        """What the last step saw; not private."""
        if self._diagnostics is None:
            raise PrivacyError("there are no diagnostics before the first step.")
        return self._diagnostics

    def receipt(self) -> dict[str, Any]:
        """Return what the accountant was told beside what was done, as JSON values.

        Raises:
            PrivacyError: the two differ.
        """
        told = self._told
        checked = told.poisson
        return receipt(
            told,
            self._ledger,
            options=self.options.as_data(),
            seed=self.seed,
            noise_note=self._noise.note,
            sampling_note=self._sampler.note(checked, self._vouched),
            epsilon=self.get_epsilon() if checked or self._vouched else None,
        ) | {"earlier": self._settings["earlier"]}

    @property
    def _told(self) -> Told:
        mean = self.options.loss_reduction == "mean"
        return Told(
            plan=self.plan,
            max_grad_norm=self.sensitivity(),
            divisor=float(self.plan.expected_batch_size) if mean else 1.0,
            poisson=self.options.sampling == "poisson",
        )

    def state_dict(self) -> dict[str, Any]:
        """Return tensors and plain values from which a run goes on.

        Bit for bit if noise is seeded.  A secure key is not saved: noise and batches
        after the resume are fresh ones.

        Raises:
            PrivacyError: a batch is between its draw and its step.
        """
        saved_state.refuse_in_flight(self._in_flight, "saved")
        return {
            **self._settings,
            "seed": self.seed,
            "noise": self._noise.state(),
            "sampler": self._sampler.state(),
            "ledger": self._ledger.as_data(),
        }

    @property
    def _settings(self) -> dict[str, Any]:
        return {
            "version": saved_state.STATE_VERSION,
            "plan": dataclasses.asdict(self.plan),
            "options": self.options.as_data(),
            "earlier": phases.as_data(self._earlier()),
        }

    def load_state_dict(self, state: dict[str, Any], *, lost_steps: int = 0) -> None:
        """Go on from where ``state_dict`` was called.

        Args:
            state: What it returned.
            lost_steps: Steps made after that, whose models or metrics anybody may have
                seen.  Seeded noise repeats them, and they cost nothing; secure noise
                does not, so they are counted, and the run is that much shorter.

        Raises:
            ConfigError: the state belongs to a run with other settings.
        """
        saved_state.refuse_in_flight(self._in_flight, "restored")
        saved_state.check_same_run(state, self._settings)
        self.seed = state["seed"]
        self._noise.restore(state["noise"])
        self._sampler.restore(state["sampler"])
        self._ledger = Ledger.from_data(state["ledger"])
        if self._noise.repeatable:
            return
        self._ledger.fresh_resumes += 1
        if lost_steps:
            trained = [p for p in self.module.parameters() if p.requires_grad]
            size = sum(p.numel() for p in trained)
            self._ledger.record_lost(self._told.release(size, lost_steps))
            self._sampler.position += lost_steps

    @property
    def _in_flight(self) -> bool:
        return self._attachment is not None and self._attachment.batch.in_flight

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
        told = self._told
        deviation = self.plan.noise_multiplier * told.max_grad_norm
        meter = Meter(self._noise)
        gradients = total.release(
            meter if self.plan.is_private else None, deviation, told.divisor
        )
        bound = total.clipper.max_grad_norm
        self._ledger.record(
            Release(
                sample_rate=self._sampler.sample_rate,
                noise_multiplier=meter.standard_deviation / bound,
                noise_draws=meter.numbers // total.numel,
                noise_numbers=meter.numbers,
                parameters=total.numel,
                max_grad_norm=bound,
                divisor=told.divisor,
            ),
            total.size,
        )
        self._diagnostics = diagnose(total, deviation)
        return gradients

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

from dpsgd_explorer.accounting import Plan
from dpsgd_explorer.dp import options
from dpsgd_explorer.dp.attachment import Attachment
from dpsgd_explorer.dp.clipped_sum import ClippedSum
from dpsgd_explorer.dp.diagnostics import Diagnostics, diagnose
from dpsgd_explorer.dp.ledger import Ledger, Release, receipt
from dpsgd_explorer.dp.noise import NOISES, fresh_seed, seeded_generator
from dpsgd_explorer.dp.safety import LossFunction
from dpsgd_explorer.dp.sampling import Collate, PoissonLoader, PoissonSampler
from dpsgd_explorer.errors import ConfigError, PrivacyError

STATE_VERSION = 1


class PrivacyEngine:
    """Makes an optimizer's steps differentially private, or refuses.

    Args:
        module: The model.  What has ``requires_grad`` when attached is trained.
        batch_size: Expected size of a logical batch: the sample rate is
            ``batch_size / sample_size`` and the noisy sum is divided by it.
        sample_size: Records in the data set, N.
        target_epsilon: Spend this over all steps; the noise is chosen for it.
        target_delta: delta, below 1/N; 1/(2N) if not given.
        max_grad_norm: Clipping bound C on a sample's gradient (L2).
        epochs: Length of the run; or give ``steps``.
        noise_multiplier: Noise std over C; or give ``target_epsilon``.  0 clips only,
            and epsilon is infinite.
        accounting_mode: A key of ACCOUNTANTS.
        named_params: For users of FastDP: must be all trainable parameters.
        clipping_mode: A key of CLIPPING_MODES; how norms are made, not what they are.
        clipping_fn: A key of CLIPPING_FUNCTIONS.
        clipping_style: A key of CLIPPING_STYLES.
        origin_params: For users of FastDP; checked, and changes nothing.
        loss_reduction: "mean" or "sum": how the loss joins the samples.  As in other
            libraries, the gradient of a "sum" is not divided by the batch size.
        noise: A key of NOISES.
        engine: A key of ENGINES.
        physical_batch_size: Not there yet; call backward several times before a step.
        sampling: "poisson": batches must come from ``poisson_loader``.  "unchecked":
            from anywhere, and epsilon is given only to those who vouch for them.
        example_inputs: A batch ``(inputs, targets)`` as the loader yields it: the
            safety check then runs when attached, and checks the loss too.  Shapes and
            dtypes are used, not values.
        loss_fn: ``loss_fn(outputs, targets)``; given with ``example_inputs``.
        steps: Length of the run; or give ``epochs``.
        seed: Of noise and sampling; drawn from the operating system if not given.
        plan: Instead of sizes, length, noise, delta and accountant.

    Attributes:
        module: The model.
        plan: What the accountant is told.
        options: How gradients are clipped, noised and sampled.
        seed: Of noise and sampling, given or drawn.

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
        max_grad_norm: float = 1.0,
        epochs: float | None = None,
        noise_multiplier: float | None = None,
        accounting_mode: str = "rdp",
        named_params: Sequence[tuple[str, nn.Parameter]] | None = None,
        clipping_mode: str = "MixOpt",
        clipping_fn: str = "automatic",
        clipping_style: str = "all-layer",
        origin_params: Sequence[str] | None = None,
        loss_reduction: str = "mean",
        noise: str = "seeded",
        engine: str = "hooks",
        physical_batch_size: int | None = None,
        sampling: str = "poisson",
        example_inputs: tuple[Any, Any] | None = None,
        loss_fn: LossFunction | None = None,
        steps: int | None = None,
        seed: int | None = None,
        plan: Plan | None = None,
    ) -> None:
        self.options = options.Options(
            engine=engine,
            clipping_mode=clipping_mode,
            clipping_fn=clipping_fn,
            clipping_style=clipping_style,
            max_grad_norm=max_grad_norm,
            loss_reduction=loss_reduction,
            noise=noise,
            sampling=sampling,
        )
        options.refuse_physical_batch_size(physical_batch_size)
        options.check_parameter_lists(module, named_params, origin_params)
        options.require_together(example_inputs=example_inputs, loss_fn=loss_fn)
        asked = {
            "batch_size": batch_size,
            "sample_size": sample_size,
            "steps": steps,
            "epochs": epochs,
            "noise_multiplier": noise_multiplier,
            "target_epsilon": target_epsilon,
            "target_delta": target_delta,
        }
        if plan is None:
            plan = options.make_plan(accounting_mode=accounting_mode, **asked)  # type: ignore[arg-type]
        else:
            options.refuse_beside_plan(**asked)
        self.module = module
        self.plan = plan
        self.seed = fresh_seed() if seed is None else seed
        self._steps_are_final = noise_multiplier is None
        self._example = example_inputs
        self._loss_fn = loss_fn
        self._noise = NOISES[noise](self.seed)
        self._sampler = PoissonSampler(plan, seeded_generator(self.seed, "sampling"))
        self._ledger = Ledger()
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
        return PoissonLoader(dataset, self._sampler, self._note_draw, collate)

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
        """Return the epsilon of the steps done so far; infinite without noise.

        Args:
            delta: If not the plan's.
            assume_poisson: Vouch that batches from elsewhere were Poisson samples.

        Raises:
            PrivacyError: the sampling was not checked and nobody vouches for it, or
                something else was done than the accountant was told.
        """
        self._vouched = self._vouched or assume_poisson
        if self.options.sampling == "unchecked" and not self._vouched:
            raise PrivacyError(
                "epsilon assumes Poisson sampling, and this engine did not check it. "
                "Use poisson_loader, or vouch for it with assume_poisson=True."
            )
        self._ledger.check(self.plan)
        plan = self.plan
        if delta is not None:
            plan = dataclasses.replace(plan, delta=delta)
        return plan.epsilon(self._ledger.steps)

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
        checked = self.options.sampling == "poisson"
        return receipt(
            self.plan,
            self._ledger,
            options=self.options.as_data(),
            seed=self.seed,
            noise_note=self._noise.note,
            sampling_note=_sampling_note(checked, self._vouched),
            epsilon=self.get_epsilon() if checked or self._vouched else None,
        )

    def state_dict(self) -> dict[str, Any]:
        """Return tensors and plain values from which a run goes on bit for bit.

        Raises:
            PrivacyError: a batch is between its draw and its step.
        """
        self._refuse_in_flight("saved")
        return {
            "version": STATE_VERSION,
            "plan": dataclasses.asdict(self.plan),
            "options": self.options.as_data(),
            "seed": self.seed,
            "noise": self._noise.state(),
            "sampler": self._sampler.state(),
            "releases": self._ledger.as_data(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from where ``state_dict`` was called.

        Raises:
            ConfigError: the state belongs to a run with other settings.
        """
        self._refuse_in_flight("restored")
        own = {
            "version": STATE_VERSION,
            "plan": dataclasses.asdict(self.plan),
            "options": self.options.as_data(),
        }
        for name, value in own.items():
            if state.get(name) != value:
                raise ConfigError(
                    name,
                    f"the saved {name} must be this engine's, {value}; "
                    f"got {state.get(name)}.",
                )
        self.seed = int(state["seed"])
        self._noise.restore(state["noise"])
        self._sampler.restore(state["sampler"])
        self._ledger = Ledger.from_data(state["releases"])

    def _refuse_in_flight(self, done: str) -> None:
        if self._attachment is not None and self._attachment.batch.in_flight:
            raise PrivacyError(
                f"the engine cannot be {done} between a batch's draw and its step: the "
                "noise of that step would be used twice. Do it after step()."
            )

    def _note_draw(self, size: int) -> None:
        if self._attachment is None:
            raise PrivacyError(
                "a batch was drawn with no optimizer attached; call "
                "engine.attach(optimizer) before the loop."
            )
        self._attachment.batch.draw(size)

    def _release(self, total: ClippedSum) -> dict[nn.Parameter, Tensor]:
        """Return the gradients of one step, and write it down."""
        if self._steps_are_final and self._ledger.steps >= self.plan.steps:
            raise PrivacyError(
                f"all {self.plan.steps} planned steps are done; one more would spend "
                "more than was planned. Plan more steps from the start, or give "
                "noise_multiplier instead of target_epsilon or plan."
            )
        bound = self.options.max_grad_norm
        deviation = self.plan.noise_multiplier * bound
        mean = self.options.loss_reduction == "mean"
        divisor = float(self.plan.expected_batch_size) if mean else 1.0
        noise = self._noise if deviation > 0 else None
        self._diagnostics = diagnose(total, deviation)
        self._ledger.record(
            Release(
                sample_rate=self._sampler.sample_rate,
                noise_multiplier=deviation / bound,
                noise_draws=int(noise is not None),
                max_grad_norm=bound,
                divisor=divisor,
            )
        )
        return total.release(noise, deviation, divisor)


def _sampling_note(checked: bool, vouched: bool) -> str:
    if checked:
        return "Poisson, by the engine's own sampler"
    if vouched:
        return "not checked; the caller vouched for Poisson sampling"
    return "not checked; no epsilon"

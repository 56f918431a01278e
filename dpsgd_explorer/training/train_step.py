"""One training step on one random batch, with DP-SGD or with plain SGD."""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, Optimizer

from dpsgd_explorer.accounting import Plan, round_up
from dpsgd_explorer.dp import choices
from dpsgd_explorer.dp.clipping.adaptive import AdaptiveClipping
from dpsgd_explorer.dp.clipping.bound import ClippingSchedule
from dpsgd_explorer.dp.distributed.ranks import ALONE, Ranks
from dpsgd_explorer.dp.engine import PrivacyEngine
from dpsgd_explorer.dp.noise.seeded import seeded_generator
from dpsgd_explorer.dp.sampling.allocation import RandomAllocationSampler
from dpsgd_explorer.dp.sampling.sampler import PoissonSampler, Sampler
from dpsgd_explorer.errors import PrivacyViolationError, PrivacyWarning
from dpsgd_explorer.experiments.schedules import ADAPTIVE, CONSTANT
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.training.losses import batch_loss

OPTIMIZERS: dict[str, Callable[[nn.Module, TrainingConfig], Optimizer]] = {
    "sgd": lambda model, config: SGD(
        model.parameters(), lr=config.learning_rate, momentum=config.momentum
    ),
    "adam": lambda model, config: Adam(model.parameters(), lr=config.learning_rate),
}

#: Number of bins of the histogram of gradient norms; even, so that C is an edge.
BIN_COUNT = 40
#: The histogram covers this many powers of ten on both sides of C: C / 100 to 100 C.
DECADES = 2
#: Confidence of the audit bound that ends a run as failed: at most one correct run in
#: a billion fails.
CONFIDENCE = 1 - 1e-9
#: Fields of the receipts of earlier plans that the run's receipt contains.
EARLIER_FIELDS = ("told", "done", "chosen_bounds")
#: Names of the measurements of a step.
MEASUREMENTS = ("clipped_fraction", "norm_counts", "noise_to_signal", "non_finite")


class TrainStep(ABC):
    """Trains a model batch by batch.

    Attributes:
        batches: Indices of each step's records, int64 [B]; B may be 0.
        norm_edges: Edges of the bins of ``norm_counts``; None if norms are not
            measured.
        batch_size: Number of records of the last batch, over all ranks.
    """

    batches: Iterator[Tensor]
    norm_edges: list[float] | None = None
    batch_size = 0

    def __init__(
        self, model: nn.Module, optimizer: Optimizer, ranks: Ranks = ALONE
    ) -> None:
        self._model = model
        self._optimizer = optimizer
        self._ranks = ranks

    def step(self, inputs: Tensor, targets: Tensor) -> float | None:
        """Updates the model with this rank's records of a batch.

        Shapes: inputs [B, ...], targets [B], or [B, T] for texts.

        Returns:
            Mean loss over the records of all ranks; None for an empty batch.
        """
        size = len(targets)
        scores = self._model(inputs)
        loss, total = batch_loss(scores, targets, self.divisor(size))
        loss.backward()  # type: ignore[no-untyped-call]
        self._optimizer.step()
        self._optimizer.zero_grad()
        total, records = self._ranks.total(total, size)
        self.batch_size = int(records)
        return total / self.batch_size if self.batch_size else None

    def choose_bound(self, max_grad_norm: float) -> None:
        """Sets the clipping bound from the next step on, if the run clips."""
        self.norm_edges = norm_edges(max_grad_norm)

    @abstractmethod
    def start_plan(self, config: TrainingConfig, plan: Plan) -> None:
        """Takes the next steps by another plan, which covers only the next steps."""

    @abstractmethod
    def divisor(self, size: int) -> float:
        """Returns the divisor of the summed loss of a batch of the given size."""

    @abstractmethod
    def measurements(self) -> dict[str, Any]:
        """Returns the measurements of the last batch's gradients, as JSON values."""

    def norms(self) -> Tensor | None:
        """Returns the gradient norms of the last batch, [B]; None if not measured."""
        return None

    @abstractmethod
    def receipt(self) -> dict[str, Any] | None:
        """Returns the receipt of the run; None if the run is not private."""

    @abstractmethod
    def check_promise(self, receipt: Mapping[str, Any] | None) -> None:
        """Raises PrivacyViolationError if the audit proves more ε than was promised.

        The confidence is so high that practically no correct run raises the error.

        Args:
            receipt: Current receipt of the run.
        """

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """Returns the state of sampling and noise."""

    @abstractmethod
    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues from a result of ``state_dict``."""


class PrivateTrainStep(TrainStep):
    """A step of DP-SGD by ``PrivacyEngine``, which clips each sample and adds noise.

    Args:
        config: Settings of the run.
        model: The model.
        optimizer: Optimizer of all parameters of the model.
        ranks: The processes that train together.
    """

    def __init__(
        self,
        config: TrainingConfig,
        model: nn.Module,
        optimizer: Optimizer,
        ranks: Ranks = ALONE,
    ) -> None:
        super().__init__(model, optimizer, ranks)
        self.norm_edges = norm_edges(config.max_grad_norm)
        self._bound_changes = config.clipping_schedule != CONSTANT
        self._earlier: list[PrivacyEngine] = []
        self._attach(config, config.plan, config.seed)

    def _attach(self, config: TrainingConfig, plan: Plan, seed: int) -> None:
        if config.is_filtered:
            # The filter computes the run's ε.  The RDP accountant accepts any plan.
            plan = replace(plan, accountant="rdp")
        self._engine = PrivacyEngine(
            self._model,
            plan=plan,
            max_grad_norm=config.max_grad_norm,
            clipping_mode=cast(choices.ClippingModeName, config.clipping_mode),
            clipping_fn=cast(choices.ClippingFn, config.clipping_fn),
            clipping_style=config.clipping_groups,
            clipping_schedule=_clipping_schedule(config),
            engine=cast(choices.Engine, config.engine),
            noise="seeded",
            seed=seed,
            sampling=cast(choices.Sampling, plan.sampling),
            after=self._earlier[-1] if self._earlier else None,
            audit=config.audit if plan.is_private else 0,
            group=self._ranks,
        )
        self._engine.attach(self._optimizer)
        all_records = torch.arange(config.sample_size)
        loader = (
            self._engine.poisson_loader((all_records,))
            if plan.slots is None
            else self._engine.random_allocation_loader((all_records,))
        )
        self.batches = (indices for (indices,) in loader.all_epochs())

    def start_plan(self, config: TrainingConfig, plan: Plan) -> None:
        """Attaches another engine, with a new seed for noise and batches."""
        self._engine.detach()
        self._earlier.append(self._engine)
        super().choose_bound(config.max_grad_norm)
        self._attach(config, plan, seed_of_plan(config.seed, len(self._earlier)))

    def step(self, inputs: Tensor, targets: Tensor) -> float | None:
        """Updates the model, as ``TrainStep.step`` does."""
        self._bound = self._engine.sensitivity()
        return super().step(inputs, targets)

    def choose_bound(self, max_grad_norm: float) -> None:
        """Sets the clipping bound from the next step on."""
        super().choose_bound(max_grad_norm)
        self._bound_changes = True
        self._engine.choose_max_grad_norm(max_grad_norm)

    def divisor(self, size: int) -> int:
        """Returns the actual batch size: the engine undoes this mean."""
        return max(size, 1)

    def measurements(self) -> dict[str, Any]:
        diagnostics = self._engine.diagnostics
        bound = {"max_grad_norm": self._bound} if self._bound_changes else {}
        size = diagnostics.batch_size
        *counts, clipped, non_finite, size = map(
            int,
            self._ranks.total(
                *norm_counts(diagnostics.norms, self.norm_edges or []),
                round(size * (diagnostics.clipped_fraction or 0)),
                diagnostics.non_finite,
                size,
            ),
        )
        return bound | {
            "clipped_fraction": clipped / size if size else None,
            "norm_counts": counts,
            "noise_to_signal": diagnostics.noise_to_signal,
            "non_finite": non_finite,
        }

    def norms(self) -> Tensor | None:
        return self._engine.diagnostics.norms

    def receipt(self) -> dict[str, Any] | None:
        """Returns the last plan's receipt, with earlier plans under ``before``."""
        with warnings.catch_warnings():
            # A visitor may end a run early, and the receipt states the steps done.
            warnings.filterwarnings("ignore", "the plan is unfinished", PrivacyWarning)
            *earlier, last = [x.receipt() for x in (*self._earlier, self._engine)]
        before = [{name: x[name] for name in EARLIER_FIELDS} for x in earlier]
        return last | ({"before": before} if before else {})

    def check_promise(self, receipt: Mapping[str, Any] | None) -> None:
        audit = receipt and receipt["audit"]
        if not audit or audit["epsilon_lower"] <= audit["epsilon_promised"]:
            return
        result = self._engine.audit(confidence=CONFIDENCE)
        if result.exceeds_promise:
            raise PrivacyViolationError(
                "the audit of this run proves that it is less private than promised: "
                f"its last {result.steps} steps spent an ε of at least "
                f"{math.floor(100 * result.epsilon_lower) / 100:g} instead of the "
                f"promised {round_up(result.epsilon_promised)}, at confidence "
                "1 - 1e-9. Do not use its results, and report this to the operator of "
                "this program: it has a fault."
            )

    def state_dict(self) -> dict[str, Any]:
        engines = [*self._earlier, self._engine]
        return {"engines": [engine.state_dict() for engine in engines]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        engines = [*self._earlier, self._engine]
        for engine, engine_state in zip(engines, state["engines"], strict=True):
            engine.load_state_dict(engine_state)


class PlainTrainStep(TrainStep):
    """A step of plain SGD, on the batches of a private run with the same seed.

    A private run with correlated noise has other batches.  The step computes no
    per-sample gradients, so it measures no norms.
    """

    def __init__(
        self,
        config: TrainingConfig,
        model: nn.Module,
        optimizer: Optimizer,
        ranks: Ranks = ALONE,
    ) -> None:
        super().__init__(model, optimizer, ranks)
        self._plans = 0
        self._draw(config, config.plan, config.seed)

    def _draw(self, config: TrainingConfig, plan: Plan, seed: int) -> None:
        self._expected = plan.mean_batch_size
        self._sampler = sampler_of(plan, seed)
        self.batches = self._sampler.all_epochs()

    def start_plan(self, config: TrainingConfig, plan: Plan) -> None:
        """Draws the next batches with a new seed."""
        self._plans += 1
        self._draw(config, plan, seed_of_plan(config.seed, self._plans))

    def divisor(self, size: int) -> float:
        """Returns the expected batch size, the divisor of private runs too."""
        return self._expected

    def measurements(self) -> dict[str, Any]:
        return dict.fromkeys(MEASUREMENTS)

    def receipt(self) -> dict[str, Any] | None:
        return None

    def check_promise(self, receipt: Mapping[str, Any] | None) -> None:
        """Does nothing, because a run without privacy promises no ε."""

    def state_dict(self) -> dict[str, Any]:
        return self._sampler.state()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._sampler.restore(state)


def train_step_of(
    config: TrainingConfig,
    model: nn.Module,
    optimizer: Optimizer,
    ranks: Ranks,
) -> TrainStep:
    """Returns the step of a run; for the arguments see ``PrivateTrainStep``."""
    if not config.private:
        return PlainTrainStep(config, model, optimizer, ranks)
    return PrivateTrainStep(config, model, optimizer, ranks)


def sampler_of(plan: Plan, seed: int) -> Sampler:
    """Returns the sampler of a plan's batches."""
    sampler = PoissonSampler if plan.slots is None else RandomAllocationSampler
    return sampler(plan, seeded_generator(seed, "sampling"))


def seed_of_plan(seed: int, number: int) -> int:
    """Returns the seed of a later plan of a run, so that no noise is drawn twice."""
    return seeded_generator(seed, f"plan {number}").initial_seed()


def _clipping_schedule(config: TrainingConfig) -> ClippingSchedule | None:
    if config.clipping_schedule == ADAPTIVE:
        return AdaptiveClipping(config.target_quantile, config.bound_rate)
    return config.bound_schedule


def norm_edges(max_grad_norm: float) -> list[float]:
    """Returns the edges of the bins for gradient norms, in logarithmic steps around C.

    They depend on C only, so that the axis of the histogram does not move.
    """
    half = BIN_COUNT // 2
    steps = range(-half, half + 1)
    return [max_grad_norm * 10 ** (DECADES * step / half) for step in steps]


def norm_counts(norms: Tensor, edges: list[float]) -> list[int]:
    """Returns the number of norms in each bin: [B] and [n + 1] -> [n].

    A bin includes its upper edge and excludes its lower edge, because a norm of C is
    not clipped.  The outer bins also count norms beyond their edges.  No bin counts
    norms that are not finite.
    """
    inner = torch.tensor(edges[1:-1], dtype=torch.float64)
    bins = torch.bucketize(norms[norms.isfinite()].double().cpu(), inner)
    counts: list[int] = torch.bincount(bins, minlength=len(edges) - 1).tolist()
    return counts

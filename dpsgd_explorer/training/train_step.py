"""One step of learning from one Poisson batch, with privacy and without."""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import SGD, Adam, Optimizer

from dpsgd_explorer.accounting import Plan, round_up
from dpsgd_explorer.dp import choices
from dpsgd_explorer.dp.clipping.adaptive import AdaptiveClipping
from dpsgd_explorer.dp.clipping.bound import ClippingSchedule
from dpsgd_explorer.dp.distributed.ranks import ALONE, Ranks
from dpsgd_explorer.dp.engine import PrivacyEngine
from dpsgd_explorer.dp.noise.seeded import seeded_generator
from dpsgd_explorer.dp.sampling.sampler import PoissonSampler
from dpsgd_explorer.errors import PrivacyViolationError, PrivacyWarning
from dpsgd_explorer.experiments.schedules import ADAPTIVE, CONSTANT
from dpsgd_explorer.experiments.training_config import TrainingConfig

OPTIMIZERS: dict[str, Callable[[nn.Module, TrainingConfig], Optimizer]] = {
    "sgd": lambda model, config: SGD(
        model.parameters(), lr=config.learning_rate, momentum=config.momentum
    ),
    "adam": lambda model, config: Adam(model.parameters(), lr=config.learning_rate),
}

BINS = 40
DECADES = 2  # the histogram of gradient norms reaches from C / 100 to 100 C
#: Of the bound that ends a run as failed: one honest run in a billion.
CERTAINTY = 1 - 1e-9
PARTS = ("told", "done", "chosen_bounds")  # of the receipt of an earlier plan
MEASUREMENTS = ("clipped_fraction", "norm_counts", "noise_to_signal", "non_finite")


class TrainStep(ABC):
    """Trains a model batch by batch.

    Attributes:
        batches: Indices of each step's records, int64 [B]; may be empty.
        norm_edges: Bins of ``norm_counts``; None if norms are not measured.
        batch_size: Records of the last step's batch, on all ranks.
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
        """Update the model; return the mean loss of the batch, None for an empty one.

        Of the whole batch, where ranks share it.  Shapes: inputs [B, ...], targets [B].
        """
        size = len(targets)
        total = F.cross_entropy(self._model(inputs), targets, reduction="sum")
        (total / self.divisor(size)).backward()  # type: ignore[no-untyped-call]
        self._optimizer.step()
        self._optimizer.zero_grad()
        loss, records = self._ranks.total(total.item(), size)
        self.batch_size = int(records)
        return loss / self.batch_size if self.batch_size else None

    def choose_bound(self, max_grad_norm: float) -> None:
        """Clip at this bound from the next step on, where there is clipping."""
        self.norm_edges = norm_edges(max_grad_norm)

    @abstractmethod
    def go_on(self, config: TrainingConfig, plan: Plan) -> None:
        """Take the next steps by another plan, which is of these steps alone."""

    @abstractmethod
    def divisor(self, size: int) -> int:
        """Return the divisor of the summed loss of a batch of this size."""

    @abstractmethod
    def measurements(self) -> dict[str, Any]:
        """Return the measurements of the last batch's gradients, as JSON values."""

    def norms(self) -> Tensor | None:
        """Return the gradient norms of the last batch, [B]; None: not measured."""
        return None

    @abstractmethod
    def receipt(self) -> dict[str, Any] | None:
        """Return the steps declared to the accountant and the steps done.

        None if the run has no privacy.
        """

    @abstractmethod
    def check_promise(self, receipt: Mapping[str, Any] | None) -> None:
        """Raise PrivacyViolationError if more than was promised is proven to be spent.

        At a confidence at which no honest run is accused.

        Args:
            receipt: That of now.
        """

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """Return the state of sampling and noise."""

    @abstractmethod
    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state of ``state_dict``."""


class PrivateTrainStep(TrainStep):
    """DP-SGD: every sample clipped, noise added, by the engine.

    Args:
        config: Settings of the run.
        model: The model.
        optimizer: Of all its parameters.
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
        if config.is_filtered:  # which counts instead; this one takes any plans
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
            after=self._earlier[-1] if self._earlier else None,
            audit=config.audit if plan.is_private else 0,
            group=self._ranks,
        )
        self._engine.attach(self._optimizer)
        all_records = torch.arange(config.sample_size)
        loader = self._engine.poisson_loader((all_records,))
        self.batches = (indices for (indices,) in loader.all_epochs())

    def go_on(self, config: TrainingConfig, plan: Plan) -> None:
        """Let another engine take over, with noise and batches of its own."""
        self._engine.detach()
        self._earlier.append(self._engine)
        super().choose_bound(config.max_grad_norm)
        self._attach(config, plan, seed_of_plan(config.seed, len(self._earlier)))

    def step(self, inputs: Tensor, targets: Tensor) -> float | None:
        """Update the model, as ``TrainStep.step``."""
        self._bound = self._engine.sensitivity()
        return super().step(inputs, targets)

    def choose_bound(self, max_grad_norm: float) -> None:
        """Clip at this bound from the next step on."""
        super().choose_bound(max_grad_norm)
        self._bound_changes = True
        self._engine.choose_max_grad_norm(max_grad_norm)

    def divisor(self, size: int) -> int:
        """Return the batch's own size: the engine undoes this mean."""
        return max(size, 1)

    def measurements(self) -> dict[str, Any]:
        diagnostics = self._engine.diagnostics
        bound = {"max_grad_norm": self._bound} if self._bound_changes else {}
        size = diagnostics.batch_size
        *counts, shortened, left_out, size = map(
            int,
            self._ranks.total(
                *norm_counts(diagnostics.norms, self.norm_edges or []),
                round(size * (diagnostics.clipped_fraction or 0)),
                diagnostics.non_finite,
                size,
            ),
        )
        return bound | {
            "clipped_fraction": shortened / size if size else None,
            "norm_counts": counts,
            "noise_to_signal": diagnostics.noise_to_signal,
            "non_finite": left_out,
        }

    def norms(self) -> Tensor | None:
        return self._engine.diagnostics.norms

    def receipt(self) -> dict[str, Any] | None:
        """Return that of the last plan; ``before`` has those of the earlier ones."""
        with warnings.catch_warnings():
            # A run may be ended early by choice, and its receipt says so.
            warnings.filterwarnings("ignore", "the plan is unfinished", PrivacyWarning)
            *earlier, last = [x.receipt() for x in (*self._earlier, self._engine)]
        before = [{name: one[name] for name in PARTS} for one in earlier]
        return last | ({"before": before} if before else {})

    def check_promise(self, receipt: Mapping[str, Any] | None) -> None:
        audit = receipt and receipt["audit"]
        if not audit or audit["epsilon_lower"] <= audit["epsilon_promised"]:
            return
        found = self._engine.audit(confidence=CERTAINTY)
        if found.exceeds_promise:
            raise PrivacyViolationError(
                "the audit of this run proves that it is less private than promised: "
                f"its last {found.steps} steps spent an ε of at least "
                f"{math.floor(100 * found.epsilon_lower) / 100:g} instead of the "
                f"promised {round_up(found.epsilon_promised)}, at confidence 1 - 1e-9. "
                "Do not use its results, and report this to the operator of this "
                "program: it has a fault."
            )

    def state_dict(self) -> dict[str, Any]:
        engines = [*self._earlier, self._engine]
        return {"engines": [engine.state_dict() for engine in engines]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        engines = [*self._earlier, self._engine]
        for engine, own in zip(engines, state["engines"], strict=True):
            engine.load_state_dict(own)


class PlainTrainStep(TrainStep):
    """Ordinary SGD on the same batches that a private run of the same seed draws.

    No per-sample gradient is computed, so there are no norms to report.
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
        self._expected = config.expected_batch_size
        self._sampler = PoissonSampler(plan, seeded_generator(seed, "sampling"))
        self.batches = self._sampler.all_epochs()

    def go_on(self, config: TrainingConfig, plan: Plan) -> None:
        """Draw other batches."""
        self._plans += 1
        self._draw(config, plan, seed_of_plan(config.seed, self._plans))

    def divisor(self, size: int) -> int:
        """Return the expected batch size, which private runs divide by too."""
        return self._expected

    def measurements(self) -> dict[str, Any]:
        return dict.fromkeys(MEASUREMENTS)

    def receipt(self) -> dict[str, Any] | None:
        return None

    def check_promise(self, receipt: Mapping[str, Any] | None) -> None:
        """Do nothing: nothing was promised."""

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
    """Return what makes the steps of a run; see PrivateTrainStep."""
    if not config.private:
        return PlainTrainStep(config, model, optimizer, ranks)
    return PrivateTrainStep(config, model, optimizer, ranks)


def seed_of_plan(seed: int, number: int) -> int:
    """Return the seed of a later plan of a run: no noise is drawn twice."""
    return seeded_generator(seed, f"plan {number}").initial_seed()


def _clipping_schedule(config: TrainingConfig) -> ClippingSchedule | None:
    if config.clipping_schedule == ADAPTIVE:
        return AdaptiveClipping(config.target_quantile, config.bound_rate)
    return config.bound_schedule


def norm_edges(max_grad_norm: float) -> list[float]:
    """Return the edges of the bins for gradient norms, evenly spaced in the logarithm.

    They depend on C only, so that the histogram's axis does not move; C is the middle.
    """
    half = BINS // 2
    return [
        max_grad_norm * 10 ** (DECADES * (i - half) / half) for i in range(BINS + 1)
    ]


def norm_counts(norms: Tensor, edges: list[float]) -> list[int]:
    """Return the number of norms in each bin; [B] and [n + 1] -> [n].

    A bin holds its upper edge but not its lower one, as a norm of C is not clipped.
    The outer bins also count the norms beyond them; no bin counts a norm that is not
    finite.
    """
    inner = torch.tensor(edges[1:-1], dtype=torch.float64)
    places = torch.bucketize(norms[norms.isfinite()].double(), inner)
    counts: list[int] = torch.bincount(places, minlength=len(edges) - 1).tolist()
    return counts

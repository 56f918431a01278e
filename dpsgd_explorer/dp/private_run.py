"""One call that makes a training loop private: sizes come from the data set."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer
from torch.utils.data import default_collate

from dpsgd_explorer.accounting import Plan
from dpsgd_explorer.accounting.auditing.audit import CONFIDENCE, AuditResult
from dpsgd_explorer.accounting.rounding import round_up
from dpsgd_explorer.dp import choices
from dpsgd_explorer.dp.config import (
    Audit,
    Clipping,
    Config,
    Execution,
    Noise,
    Sizes,
    check_example,
    group,
)
from dpsgd_explorer.dp.engine import Example, PrivacyEngine
from dpsgd_explorer.dp.safety.passes import LossFunction
from dpsgd_explorer.dp.sampling.loader import (
    Collate,
    Fetch,
    PoissonLoader,
    Records,
    fetcher,
)
from dpsgd_explorer.errors import ConfigError, PrivacyError

EXAMPLE_RECORDS = 2  # the fewest that show whether the loss mixes samples


class Run:
    """A training run with DP-SGD, made by ``make_private``.

    Attributes:
        engine: The engine that clips, adds noise and counts the steps.
        optimizers: The optimizers that it makes private.
        loader: Yields the Poisson batches of one epoch per iteration.

    Example:
        >>> import torch
        >>> from torch.nn.functional import mse_loss
        >>> data = torch.randn(100, 3), torch.randn(100, 1)
        >>> model = torch.nn.Linear(3, 1)
        >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        >>> run = make_private(
        ...     model, optimizer, data, batch_size=10, epochs=2, target_epsilon=3.0
        ... )
        >>> for epoch in run.epochs():
        ...     for x, y in epoch:
        ...         mse_loss(model(x), y).backward()
        ...         optimizer.step()
        ...         optimizer.zero_grad()
        >>> run
        Run(ε = 3.00 at δ = 0.005, exact; 20 of 20 steps; secure noise; Poisson batches)
    """

    def __init__(
        self,
        engine: PrivacyEngine,
        optimizers: Sequence[Optimizer],
        loader: PoissonLoader,
    ) -> None:
        self.engine = engine
        self.optimizers = tuple(optimizers)
        self.loader = loader

    @property
    def plan(self) -> Plan:
        """What the accountant is told: sizes, steps, noise, delta."""
        return self.engine.plan

    def epochs(self) -> Iterator[PoissonLoader]:
        """Yield the loader once for each epoch that is left, without end if open-ended.

        Raises:
            PrivacyError: no batch was drawn since the loader was yielded.
        """
        sampler = self.loader.batch_sampler
        while sampler.steps is None or sampler.position < sampler.steps:
            before = sampler.position
            yield self.loader
            if sampler.position == before:
                raise PrivacyError(
                    "each epoch of epochs() must be iterated over, got one of which no "
                    "batch was drawn. Write: for epoch in run.epochs(): for x, y in "
                    "epoch: ..."
                )

    def epsilon(self, delta: float | None = None) -> float:
        """Return the epsilon of the steps done so far.

        Args:
            delta: The plan's if not given.

        Raises:
            PrivacyError: the engine could not read that the loss is a sum or mean of a
                term for each sample, or something else was done than planned.
        """
        return self.engine.get_epsilon(delta)

    @property
    def clipped_fraction(self) -> float | None:
        """Share of the last batch whose gradients were shortened; not private.

        None for an empty batch.

        Raises:
            PrivacyError: no step was made yet.
        """
        return self.engine.diagnostics.clipped_fraction

    def receipt(self) -> dict[str, Any]:
        """Return what was planned beside what was done; see ``PrivacyEngine``."""
        return self.engine.receipt()

    def audit(
        self, delta: float | None = None, confidence: float = CONFIDENCE
    ) -> AuditResult:
        """Return what the canaries prove about the steps done so far.

        Args:
            delta: The plan's if not given.
            confidence: Probability that the lower bound holds, below 1.

        Raises:
            ConfigError: a number is outside its domain.
            PrivacyError: the run has no canaries.
        """
        return self.engine.audit(delta, confidence)

    def state_dict(self) -> dict[str, Any]:
        """Return all that another process needs to continue: model, optimizers, engine.

        Raises:
            PrivacyError: a batch is between its draw and its step.
        """
        return {
            "model": self.engine.module.state_dict(),
            "optimizers": [each.state_dict() for each in self.optimizers],
            "engine": self.engine.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any], *, lost_steps: int = 0) -> None:
        """Continue from where ``state_dict`` was called.

        Args:
            state: What it returned.
            lost_steps: Steps that any process made after that, whose models or metrics
                may have been seen; see ``PrivacyEngine.load_state_dict``.

        Raises:
            ConfigError: the state belongs to a run with other settings.
            PrivacyError: a batch is between its draw and its step.
        """
        if len(state["optimizers"]) != len(self.optimizers):
            raise ConfigError(
                "state",
                f"state must hold {len(self.optimizers)} optimizers, got "
                f"{len(state['optimizers'])}.",
            )
        # The engine goes first: it refuses the state of another run.
        self.engine.load_state_dict(state["engine"], lost_steps=lost_steps)
        self.engine.module.load_state_dict(state["model"])
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)

    def detach(self) -> None:
        """Leave model and optimizers as they were; what was spent stays counted."""
        self.engine.detach()

    def __repr__(self) -> str:
        plan, engine = self.plan, self.engine
        try:
            spent = f"ε = {round_up(engine.get_epsilon())}"
        except PrivacyError:  # epsilon() says why
            spent = "ε unknown"
        planned = self.loader.batch_sampler.steps
        of = "" if planned is None else f" of {planned:,}"
        return (
            f"Run({spent} at δ = {plan.delta:.2g}, {plan.accountant}; "
            f"{engine.steps_done:,}{of} steps; {engine.options.noise} noise; "
            "Poisson batches)"
        )


def make_private(
    model: nn.Module,
    optimizer: Optimizer | list[Optimizer] | tuple[Optimizer, ...],
    dataset: Records,
    *,
    batch_size: int,
    epochs: float | None = None,
    steps: int | None = None,
    target_epsilon: float | None = None,
    noise_multiplier: float | None = None,
    target_delta: float | None = None,
    accounting_mode: choices.AccountingMode = "exact",
    clipping: Clipping | None = None,
    noise: Noise | None = None,
    execution: Execution | None = None,
    audit: Audit | None = None,
    loss_fn: LossFunction | None = None,
    loss_reduction: choices.LossReduction = "mean",
    assume_per_sample_loss: bool = False,
    augmentation_multiplicity: int = 1,
    collate: Collate | None = None,
    sample_size: int | None = None,
    after: Run | PrivacyEngine | None = None,
) -> Run:
    """Return a run in which the optimizer's steps are differentially private.

    Model and optimizer are not wrapped: the loop stays ``loss.backward()``,
    ``optimizer.step()``, ``optimizer.zero_grad()``, over batches of ``run.epochs()``.

    Args:
        model: The model.  Parameters with ``requires_grad`` are trained.
        optimizer: Its optimizer, or several that share the steps.
        dataset: A TensorDataset, a tuple of tensors, or any data set with a length and
            items by index, such as a list.
        batch_size: Expected size B of a batch; each record is in it with probability
            B / N.
        epochs: Length of the run; or give ``steps``.  With ``noise_multiplier`` neither
            need be given: the run is then open-ended.
        steps: Length of the run in batches.
        target_epsilon: Epsilon of all steps together; the noise is chosen for it.
        noise_multiplier: Noise standard deviation over the clipping bound; or give
            ``target_epsilon``.
        target_delta: Delta, below 1/N; 1/(2N) if not given.
        accounting_mode: "exact", or the name of a bound; see ``PrivacyEngine``.
        clipping: How gradients are clipped: at norm 1, automatically, if not given.
        noise: How noise is drawn: unpredictable if not given.
        execution: How a step is computed.
        audit: Canaries; none if not given.
        loss_fn: ``loss_fn(outputs, targets)`` of the training.  If given, and a record
            is a pair of inputs and targets, model and loss are checked now, on two
            records, and not at the first step.
        loss_reduction: "mean" or "sum": how the loss joins the samples.
        assume_per_sample_loss: If True, the caller vouches that every loss is a mean or
            sum of a term for each sample, divided by nothing that depends on the batch.
        augmentation_multiplicity: Views per sample (``dp.views``).
        collate: Joins a list of records; torch's own function if not given.
        sample_size: Records of all ranks together, with ``partition="local"``; the data
            set's length if not given.
        after: The run of an earlier phase on the same records, whose steps count too.

    Raises:
        ConfigError: naming the argument at fault.
        UnsupportedModuleError: the model cannot be trained with the guarantee.
        PrivacyError: the optimizer trains something else than the model.

    Source: Abadi et al. (2016), arXiv:1607.00133, Algorithm 1.

    Example:
        >>> import torch
        >>> data = torch.randn(1000, 3), torch.randn(1000, 1)
        >>> model = torch.nn.Linear(3, 1)
        >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        >>> run = make_private(
        ...     model, optimizer, data, batch_size=50, epochs=5, target_epsilon=2.0
        ... )
        >>> run.plan.steps
        100
    """
    execution = group("execution", execution, Execution)
    fetch, size = fetcher(dataset, collate or default_collate)
    config = Config.of(
        Sizes(
            batch_size=batch_size,
            sample_size=size if sample_size is None else sample_size,
            epochs=epochs,
            steps=steps,
            target_epsilon=target_epsilon,
            noise_multiplier=noise_multiplier,
            target_delta=target_delta,
        ),
        clipping=group("clipping", clipping, Clipping),
        noise=group("noise", noise, Noise),
        execution=execution,
        audit=group("audit", audit, Audit),
        accounting_mode=accounting_mode,
        loss_reduction=loss_reduction,
        augmentation_multiplicity=augmentation_multiplicity,
    )
    engine = PrivacyEngine._of(
        model,
        config,
        example=_example(fetch, size, loss_fn),
        after=after.engine if isinstance(after, Run) else after,
        assume_per_sample_loss=assume_per_sample_loss,
    )
    loader = engine.poisson_loader(
        dataset, collate=collate, num_workers=execution.num_workers
    )
    optimizers = list(optimizer) if isinstance(optimizer, list | tuple) else [optimizer]
    engine.attach(*optimizers)
    return Run(engine, optimizers, loader)


def _example(fetch: Fetch, size: int, loss_fn: LossFunction | None) -> Example | None:
    """Return a batch of inputs and targets, with the loss; None without a loss.

    Raises:
        ConfigError: a batch is something else.
    """
    if loss_fn is None:
        return None
    batch = fetch(torch.arange(min(EXAMPLE_RECORDS, size)))
    if not isinstance(batch, tuple | list) or len(batch) != 2:
        raise ConfigError(
            "loss_fn",
            "loss_fn must be left out unless a batch is a pair of inputs and targets, "
            f"got a batch of type {type(batch).__name__}.",
        )
    check_example(batch, loss_fn)
    inputs, targets = batch
    return (inputs, targets), loss_fn

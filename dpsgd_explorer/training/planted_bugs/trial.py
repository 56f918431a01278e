"""The audit of a loop, and the check of the loop by ``PrivacyEngine``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import TensorDataset

from dpsgd_explorer.accounting import Phase
from dpsgd_explorer.accounting.auditing.error_rates import Scores
from dpsgd_explorer.accounting.auditing.exact_family import (
    exact_family_epsilon,
    usual_thresholds,
)
from dpsgd_explorer.accounting.auditing.log_likelihood import log_likelihood_ratio
from dpsgd_explorer.dp import PrivacyEngine
from dpsgd_explorer.errors import PrivacyError
from dpsgd_explorer.training.planted_bugs.catalogue import (
    AUDIT,
    ENGINE,
    NOTHING,
    TORCH,
    PlantedBug,
)
from dpsgd_explorer.training.planted_bugs.task import (
    CANARIES,
    COLUMNS,
    DELTA,
    STEPS,
    TABLES,
    Tables,
    Task,
    canary_task,
    plan,
)

CONFIDENCE = 0.95
#: Steps after which the audit's bound is computed.  Each computation takes about one
#: second.
AUDITED_STEPS = (6, 12, 20, 30, 45, STEPS)
#: Number of steps with the engine attached; all of its checks run within two steps.
CHECKED_STEPS = 2
#: Number of records in the engine's example inputs.
EXAMPLE_RECORDS = 8


class AuditPoint(NamedTuple):
    """Lower bound on ε of the steps so far, by the canaries, and the promised ε.

    Attributes:
        step: Number of steps done.
        epsilon_lower: Lower bound on ε at CONFIDENCE.
        epsilon_promised: ε by the exact accountant.
    """

    step: int
    epsilon_lower: float
    epsilon_promised: float


class AuditedLoop:
    """A loop that runs step by step, and whose canaries are scored from the weights.

    Args:
        bug: The loop.
        seed: Seed of the records, the coins, the batches and the noise.

    Attributes:
        step: Number of steps done.
        error: Message of the error that ended the loop; "" without an error.
        scores: Log-likelihood ratios of the canaries, [CANARIES].
    """

    def __init__(self, bug: PlantedBug, seed: int) -> None:
        self.step, self.error = 0, ""
        self.scores = np.zeros(CANARIES)
        self._plan = plan()
        self._task, self._joined = canary_task(seed, self._plan.noise_multiplier)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = bug.module.build(self._task)
            self._random_state = torch.get_rng_state()
        self._tables = next(m for m in model.modules() if isinstance(m, Tables))
        self._weights = self._tables.weights()
        self._steps: Iterator[float] = bug.module.train(model, self._task)

    def advance(self) -> bool:
        """Does a step; returns False if the loop has ended."""
        with torch.random.fork_rng(devices=[]):
            torch.set_rng_state(self._random_state)
            try:
                learning_rate = next(self._steps, None)
            except RuntimeError as error:
                self.error, learning_rate = str(error), None
            self._random_state = torch.get_rng_state()
        if learning_rate is None:
            return False
        self._score(learning_rate)
        self.step += 1
        return True

    def _score(self, learning_rate: float) -> None:
        """Adds the log-likelihood ratio of a step to each canary's score."""
        weights, before = self._tables.weights(), self._weights
        self._weights = weights
        task = self._task
        moved = (before - weights)[:, COLUMNS:].double().sum(dim=0) / TABLES**0.5
        unit = learning_rate * task.max_grad_norm / task.batch_size
        self.scores += log_likelihood_ratio(
            (moved / unit).numpy(), task.sample_rate, task.noise_multiplier
        )

    def point(self) -> AuditPoint:
        """Returns the bound on ε after the steps so far; requires at least one step."""
        done = [Phase(self._task.sample_rate, self._task.noise_multiplier, self.step)]
        proven = exact_family_epsilon(
            Scores.of(self.scores, self._joined),
            usual_thresholds(done),
            done,
            DELTA,
            1 - CONFIDENCE,
        )
        return AuditPoint(self.step, proven, self._plan.epsilon(self.step))


def refusal(bug: PlantedBug, seed: int) -> str:
    """Returns the error of ``PrivacyEngine`` for the loop's model, loss and loader.

    The engine clips and adds noise itself, so it cannot reject a loop with bugs in its
    clipping or noise.

    Returns:
        Message of the error; "" if the engine accepts the loop.
    """
    promised = plan()
    task, _ = canary_task(seed, promised.noise_multiplier)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            _attached_steps(bug, task)
    except PrivacyError as error:
        return str(error)
    return ""


def _attached_steps(bug: PlantedBug, task: Task) -> None:
    module = bug.module
    model = module.build(task)

    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        mean: Tensor = module.loss(outputs, targets).mean()
        return mean

    engine = PrivacyEngine(
        model,
        plan=replace(plan(), sample_size=len(task.x)),
        max_grad_norm=task.max_grad_norm,
        clipping_fn="Abadi",
        example_inputs=(task.test_x[:EXAMPLE_RECORDS], task.test_y[:EXAMPLE_RECORDS]),
        loss_fn=loss,
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=task.learning_rate)
    engine.attach(optimizer)
    try:
        records = TensorDataset(task.x, task.y)
        batches = (
            module.batches(task)
            if bug.has_loader
            else engine.poisson_loader(records).all_epochs()
        )
        for x, y in islice(batches, CHECKED_STEPS):
            loss(model(x), y).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            optimizer.zero_grad()
    finally:
        engine.detach()  # the loop itself runs without an engine


def seen_by(refused: str, error: str, last: AuditPoint | None) -> str:
    """Returns the check that detects a bug, a key of CHECKS.

    Args:
        refused: Result of ``refusal``.
        error: Message of the error that ended the loop; "" without an error.
        last: Audit after the loop's last step; None if it did no step.
    """
    if refused:
        return ENGINE
    if error:
        return TORCH
    if last is not None and last.epsilon_lower > last.epsilon_promised:
        return AUDIT
    return NOTHING

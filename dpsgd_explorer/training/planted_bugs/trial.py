"""A loop put to the test: audited as it runs, and shown to ``PrivacyEngine``."""

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
#: Steps after which the bound is computed; every computation takes a second or so.
AUDITED = (6, 12, 20, 30, 45, STEPS)
#: Steps that the engine is shown, enough for each of its checks.
SHOWN_STEPS = 2
#: Rows of the example that the engine checks the loss with.
EXAMPLE_ROWS = 8


class AuditPoint(NamedTuple):
    """Lower bound on ε of the steps so far, by the canaries, and the promised ε.

    Attributes:
        step: Steps done.
        epsilon_lower: Lower bound on ε at CONFIDENCE.
        epsilon_promised: ε by the exact accountant.
    """

    step: int
    epsilon_lower: float
    epsilon_promised: float


class AuditedLoop:
    """A loop that runs one step at a time, its canaries scored from the weights.

    Args:
        bug: The loop.
        seed: Seed of the records, the coins, the batches and the noise.

    Attributes:
        step: Steps done.
        error: Message of the error that ended the loop, "" if none did.
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
        """Take a step; return whether there was one."""
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
        """Add what a step released along each canary's direction."""
        weights, before = self._tables.weights(), self._weights
        self._weights = weights
        task = self._task
        moved = (before - weights)[:, COLUMNS:].double().sum(dim=0) / TABLES**0.5
        unit = learning_rate * task.max_grad_norm / task.batch_size
        self.scores += log_likelihood_ratio(
            (moved / unit).numpy(), task.sample_rate, task.noise_multiplier
        )

    def point(self) -> AuditPoint:
        """Return the bound after the steps so far, at least one."""
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
    """Return what ``PrivacyEngine`` says to the loop's model, loss and loader.

    The engine does the clipping and the noise itself; a loop that does these wrong has
    nothing left that it could refuse.

    Returns:
        The message of its error, "" if two steps are taken.
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
        example_inputs=(task.test_x[:EXAMPLE_ROWS], task.test_y[:EXAMPLE_ROWS]),
        loss_fn=loss,
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=task.learning_rate)
    engine.attach(optimizer)
    own = bug.has_loader
    records = TensorDataset(task.x, task.y)
    batches = (
        module.batches(task) if own else engine.poisson_loader(records).all_epochs()
    )
    for x, y in islice(batches, SHOWN_STEPS):
        loss(model(x), y).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()


def seen_by(refused: str, error: str, last: AuditPoint | None) -> str:
    """Return which check sees a bug, a key of CHECKS.

    Args:
        refused: From ``refusal``.
        error: Message of the error that ended the loop.
        last: After its last step; None if there was none.
    """
    if refused:
        return ENGINE
    if error:
        return TORCH
    if last is not None and last.epsilon_lower > last.epsilon_promised:
        return AUDIT
    return NOTHING

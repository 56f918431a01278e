"""The loop of one training run: batches in, events out.

``TrainingExperiment`` can stop after any event and resume from its checkpoint.  The
events that follow equal those of an uninterrupted run, bit for bit, times aside.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dpsgd_explorer.accounting import RenyiFilter
from dpsgd_explorer.accounting.spending import FILTER
from dpsgd_explorer.dp.distributed.ranks import ALONE, Ranks
from dpsgd_explorer.dp.noise.seeded import seeded_generator
from dpsgd_explorer.errors import DivergedError
from dpsgd_explorer.experiments.events import NOT_PRIVATE, WHILE_LOOKING, Event
from dpsgd_explorer.experiments.experiment import Experiment, PerformanceSettings
from dpsgd_explorer.experiments.mid_run import FURTHER, is_counted
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.training import inputs, models
from dpsgd_explorer.training.artifacts import packed, unpacked, weights_file
from dpsgd_explorer.training.cpu import kernels
from dpsgd_explorer.training.cpu.threads import threads
from dpsgd_explorer.training.datasets import registry as datasets
from dpsgd_explorer.training.event_schedule import Schedule
from dpsgd_explorer.training.microscope import Microscope
from dpsgd_explorer.training.model_snapshots import ModelSnapshots
from dpsgd_explorer.training.train_step import (
    OPTIMIZERS,
    train_step_of,
)

#: Of the audit in a receipt, in the end event too.
AUDITED = (
    "epsilon_lower",
    "epsilon_promised",
    "delta",
    "confidence",
    "canaries",
    "steps",
    "method",
    "others",
    "unscored",
)
EVALUATION_BATCH = 500  # records predicted at a time: these fit in cache


def train(
    config: TrainingConfig,
    checkpoint: bytes | None = None,
    *,
    performance: PerformanceSettings | None = None,
) -> Iterator[Event]:
    """Run a configuration and yield what happens; see ``events``.

    Raises:
        DataError: a data file is missing or damaged.
        DivergedError: parameters or loss became non-finite.
    """
    training = TrainingExperiment(
        config, checkpoint=checkpoint, performance=performance
    )
    return training.events()


class TrainingExperiment(Experiment):
    """One training run and its state; see ``Experiment``."""

    config: TrainingConfig
    checkpoint_version = 3  # with what was tested, and an engine for each plan

    def _prepare(self) -> None:
        config, performance = self.config, self._performance
        if config.table is not None:
            datasets.register(config.table, performance.read_table)
        self._current = config
        self._changes: list[tuple[int, dict[str, Any]]] = []
        self._spending, self._schedule = config.spending(), Schedule.of(config)
        self._tested_after = -1
        self._tested: dict[str, float] = {}
        with threads(performance.num_threads):
            self._data = inputs.load(
                config.dataset,
                config.model,
                performance.cache_dir,
                performance.on_progress,
            )
        seed = seeded_generator(config.seed, "initialisation").initial_seed()
        self._model = models.of_config(config, seed)
        self._optimizer = OPTIMIZERS[config.optimizer](self._model, config)
        self._snapshots = self._shown(self._schedule)
        ranks = ALONE if performance.group is None else Ranks.of(performance.group)
        with self._computing():
            self._train_step = train_step_of(
                config, self._model, self._optimizer, ranks
            )

    def _shown(self, schedule: Schedule) -> ModelSnapshots:
        """Return what shows the model after the evaluations of a schedule."""
        evaluated = sorted(schedule.evaluated)
        return ModelSnapshots(self._model, self.config.dataset, evaluated)

    @contextmanager
    def _computing(self) -> Iterator[None]:
        """Apply the performance settings within the context."""
        chosen = self._performance.kernels
        with ExitStack() as undo:
            undo.enter_context(threads(self._performance.num_threads))
            if chosen != "off":
                products = chosen == "fast"
                undo.enter_context(kernels.in_use(self._model, products=products))
            yield

    def weights(self) -> dict[str, Tensor]:
        """Return the model's parameters and buffers by name."""
        return dict(self._model.state_dict())

    def weights_file(self) -> bytes:
        """Return the weights as a safetensors file with settings and receipt."""
        about = {"config": self.config.model_dump_json()}
        return weights_file(self.weights(), self.receipt(), about)

    def receipt(self) -> dict[str, Any] | None:
        """Return the steps declared to the accountant and the steps done.

        None if the run has no privacy.
        """
        receipt = self._train_step.receipt()
        filtered = self.config.filtered_run
        if receipt is None or filtered is None:
            return receipt
        return receipt | {
            "told": receipt["told"] | {"accountant": FILTER},
            "epsilon": filtered.epsilon,
            "epsilons": None,
            "filter": {"status": RenyiFilter.status} | asdict(filtered),
        }

    def _packed(self, state: dict[str, Any]) -> bytes:
        return packed(state)

    def _unpacked(self, checkpoint: bytes) -> dict[str, Any]:
        return unpacked(checkpoint)

    def _state(self) -> dict[str, Any]:
        return {
            "model": self._model.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "train_step": self._train_step.state_dict(),
            "changes": self._changes,
            "tested": [self._tested_after, self._tested],
        }

    def _load_state(self, state: dict[str, Any]) -> None:
        for step, values in state["changes"]:
            self._apply(step, values)
        self._changes = [(step, values) for step, values in state["changes"]]
        self._tested_after, self._tested = state["tested"]
        done = len(self._changes)
        self._to_change = self._to_change[done:]
        self._model.load_state_dict(state["model"])
        self._optimizer.load_state_dict(state["optimizer"])
        self._train_step.load_state_dict(state["train_step"])

    def _advance(self) -> None:
        """Do the next step, if there is one, and emit its events."""
        schedule = self._schedule
        if self._step == 0:
            self._emit("model", **self._snapshots.start())
        if self._step < schedule.last:
            self._learn()
        if self._step in schedule.evaluated:
            self._evaluate()
        if self._step == schedule.last:
            self._end()

    def change(self, values: Mapping[str, Any]) -> None:
        """Change settings from the next step on, and log a phase.

        Values that are already so change nothing; neither does any once the last step
        is done, but for steps that a continued run takes further.  A run that was
        stopped is continued before its last step.
        """
        is_over = self._step >= self._schedule.last
        if is_over != self._ended or (is_over and FURTHER not in values):
            return
        now = self._current.after(self._step, values)
        news = {
            name: value
            for name, value in values.items()
            if name == FURTHER or _differs(name, now, self._current)
        }
        if not news:
            return
        self._apply(self._step, news)
        self._changes.append((self._step, news))
        self._ended = False
        data = self._phase().data | {"changes": news, "chosen": WHILE_LOOKING}
        self._waiting.append(Event("phase", data))

    def _apply(self, step: int, values: Mapping[str, Any]) -> None:
        self._current = self._current.after(step, values)
        if is_counted(values):
            self._plan_anew(step)
        elif "max_grad_norm" in values:
            self._train_step.choose_bound(self._current.max_grad_norm)

    def _plan_anew(self, step: int) -> None:
        """Take the next steps by the plan of the present settings."""
        plan = self._current.plan
        self._spending.change(step, plan)
        self._schedule = Schedule.along(self._current, self._spending, step)
        self._snapshots = self._shown(self._schedule)
        if plan.steps > step:
            further = replace(plan, steps=plan.steps - step)
            self._train_step.go_on(self._current, further)

    def _learn(self) -> None:
        if self._step in self._schedule.noise_changes:
            self._waiting.append(self._phase())
        for group in self._optimizer.param_groups:
            group["lr"] = self._current.learning_rate_at(self._step)
        indices = next(self._train_step.batches)
        rows, targets = self._data.train[indices], self._data.train_targets[indices]
        loss, shown = self._take_step(rows, targets)
        self._step += 1
        self._check_finite("loss", 0.0 if loss is None else loss)
        for name, parameter in self._model.named_parameters():
            self._check_finite(f"parameter {name}", parameter)
        if self._step in self._schedule.reported:
            diagnostics = {
                "loss": loss,
                "batch_size": self._train_step.batch_size,
                **self._train_step.measurements(),
            }
            self._emit("step", diagnostics=diagnostics)
        if shown is not None:
            self._emit("microscope", **shown)

    def _take_step(
        self, rows: Tensor, targets: Tensor
    ) -> tuple[float | None, dict[str, Any] | None]:
        """Update the model; return the loss, and what the microscope shows if asked."""
        if not self._examines_next:
            return self._train_step.step(rows, targets), None
        self._examines_next = False
        microscope = Microscope(self._model, self._optimizer, self._current)
        gradients = microscope.gradients(rows, targets)
        with microscope.looking():
            loss = self._train_step.step(rows, targets)
        return loss, microscope.shown(gradients, self._train_step.norms())

    def _evaluate(self) -> None:
        if self._tested_after == self._step:  # its plan was changed here
            return
        self._tested_after = self._step
        scores = predict(self._model, self._data.test)
        accuracy, loss = evaluate(scores, self._data.test_targets)
        self._check_finite("test loss", loss)
        self._tested = {"test_accuracy": accuracy, "test_loss": loss}
        self._emit("evaluation", **self._tested)
        snapshot = self._snapshots.after(self._step, scores)
        if snapshot is not None:
            self._emit("model", **snapshot)

    def _end(self) -> None:
        self._ended = True
        if self._goes_on:  # as the recorded run did
            return
        receipt = self.receipt()
        self._train_step.check_promise(receipt)
        self._emit(
            "end",
            delta=self.config.delta,
            **self._tested,
            reason=self._reason(),
            receipt=receipt,
            audit=audit_of(receipt),
        )

    def _reason(self) -> str:
        if self._schedule.last >= self._current.plan.steps:
            return "finished"
        return "filter_epsilon" if self.config.is_filtered else "stop_at_epsilon"

    def _epsilon(self) -> float | None:
        known = self._schedule.epsilons
        if self._step not in known:  # a step that its visitor looked at
            spent = self._spending.epsilons([self._step])[self._step]
        else:
            spent = known[self._step]
        return self.config.guaranteed(spent) if self._ended else spent

    def _phase(self) -> Event:
        config, plan = self._current, self._current.plan
        data: dict[str, Any] = {
            "step": self._step,
            "sample_rate": plan.sample_rate,
            "noise_multiplier": plan.noise_multiplier_at(
                min(self._step, plan.steps - 1)
            )
            if config.private
            else None,
            "max_grad_norm": config.max_grad_norm,
            "expected_batch_size": plan.expected_batch_size,
            "steps": plan.steps,
            "sample_size": plan.sample_size,
            "delta": plan.delta,
            "accountant": self._spending.accountant,
            "status": self._status(),
            "private": config.private,
            "norm_edges": self._train_step.norm_edges,
        }
        if self.config.filtered_run is not None:
            data |= {
                "filter": asdict(self.config.filtered_run),
                "last_step": self._schedule.last,
            }
        return Event("phase", data)

    def _status(self) -> str:
        """Return the status of the ε of the whole run, as in the ``phase`` event."""
        if not self.config.plan.is_private:
            return NOT_PRIVATE
        return self._spending.status

    def _check_finite(self, what: str, value: float | Tensor) -> None:
        """Raise DivergedError unless every entry of the value is finite."""
        if not bool(torch.isfinite(torch.as_tensor(value)).all()):
            raise DivergedError(
                f"the run diverged: after step {self._step} its {what} was no longer "
                f"finite. Lower learning_rate (it is {self.config.learning_rate:g})"
                + (" or max_grad_norm." if self.config.private else ".")
            )


def audit_of(receipt: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return what a receipt's canaries prove, without their scores; None: no audit."""
    whole = receipt["audit"] if receipt else None
    return {name: whole[name] for name in AUDITED} if whole else None


def _differs(name: str, now: TrainingConfig, before: TrainingConfig) -> bool:
    return bool(getattr(now, name) != getattr(before, name))


@torch.no_grad()
def predict(model: nn.Module, inputs: Tensor) -> Tensor:
    """Return the scores of each class: [N, ...] -> [N, classes]."""
    return torch.cat([model(batch) for batch in torch.split(inputs, EVALUATION_BATCH)])


def evaluate(scores: Tensor, targets: Tensor) -> tuple[float, float]:
    """Return the share of right predictions and the mean cross-entropy.

    Shapes: scores [N, classes], targets [N].
    """
    right, loss = 0, 0.0
    batches = (torch.split(part, EVALUATION_BATCH) for part in (scores, targets))
    for logits, labels in zip(*batches, strict=True):
        right += int((logits.argmax(dim=1) == labels).sum())
        loss += float(F.cross_entropy(logits, labels, reduction="sum"))
    return right / len(targets), loss / len(targets)

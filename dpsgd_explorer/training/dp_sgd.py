"""The training loop of one run, which yields events.

``TrainingExperiment`` can stop after any event and resume from its checkpoint.  A
resumed run yields the events of an uninterrupted run, bit for bit except for times.
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
from dpsgd_explorer.dp.backends.full_precision import full_precision
from dpsgd_explorer.dp.distributed.ranks import ALONE, Ranks
from dpsgd_explorer.dp.noise.seeded import seeded_generator
from dpsgd_explorer.errors import DivergedError
from dpsgd_explorer.experiments.events import NOT_PRIVATE, WHILE_LOOKING, Event
from dpsgd_explorer.experiments.experiment import Experiment, PerformanceSettings
from dpsgd_explorer.experiments.mid_run import FURTHER, is_counted
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.training import devices, inputs, models
from dpsgd_explorer.training.artifacts import packed, unpacked, weights_file
from dpsgd_explorer.training.cpu import kernels
from dpsgd_explorer.training.cpu.threads import threads
from dpsgd_explorer.training.datasets import registry as datasets
from dpsgd_explorer.training.datasets.sentences import IGNORED
from dpsgd_explorer.training.event_schedule import Schedule
from dpsgd_explorer.training.microscope import Microscope
from dpsgd_explorer.training.model_snapshots import ModelSnapshots
from dpsgd_explorer.training.train_step import (
    OPTIMIZERS,
    train_step_of,
)

#: Fields of a receipt's audit that the ``end`` event contains.
AUDIT_FIELDS = (
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
#: Number of records per forward pass of an evaluation; their activations fit in cache.
EVALUATION_BATCH_SIZE = 500


def train(
    config: TrainingConfig,
    checkpoint: bytes | None = None,
    *,
    performance: PerformanceSettings | None = None,
) -> Iterator[Event]:
    """Runs a configuration and yields its events; see ``experiments.events``.

    Args:
        config: Settings of the run.
        checkpoint: Checkpoint to resume from; None to start a new run.
        performance: Threads, caches and process group; they do not change results.

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
    #: Version 3 contains the last evaluation, and the state of one engine per plan.
    checkpoint_version = 3

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
        self._device = devices.find(performance.device)
        self._model = models.of_config(config, seed).to(self._device)
        self._optimizer = OPTIMIZERS[config.optimizer](self._model, config)
        self._snapshots = self._snapshots_of(self._schedule)
        ranks = ALONE if performance.group is None else Ranks.of(performance.group)
        with self._computing():
            self._train_step = train_step_of(
                config, self._model, self._optimizer, ranks
            )

    def _snapshots_of(self, schedule: Schedule) -> ModelSnapshots:
        """Returns the snapshots of the model after the evaluations of a schedule."""
        evaluated = sorted(schedule.evaluated)
        return ModelSnapshots(self._model, self.config.dataset, evaluated)

    @contextmanager
    def _computing(self) -> Iterator[None]:
        """Applies the performance settings within the context."""
        chosen = self._performance.kernels
        with ExitStack() as undo:
            undo.enter_context(threads(self._performance.num_threads))
            if self._device.type != "cpu":
                undo.enter_context(full_precision())  # as on the CPU
            elif chosen != "off":
                products = chosen == "fast"
                undo.enter_context(kernels.in_use(self._model, products=products))
            yield

    def weights(self) -> dict[str, Tensor]:
        """Returns the model's parameters and buffers by name, on the CPU."""
        return {name: x.cpu() for name, x in self._model.state_dict().items()}

    def weights_file(self) -> bytes:
        """Returns the weights as a safetensors file with settings and receipt."""
        about = {"config": self.config.model_dump_json()}
        return weights_file(self.weights(), self.receipt(), about)

    def receipt(self) -> dict[str, Any] | None:
        """Returns the receipt of the run; None if the run is not private."""
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
        """Does the next step, if there is one, and emits its events."""
        schedule = self._schedule
        if self._step == 0:
            self._emit("model", **self._snapshots.start())
        if self._step < schedule.last:
            self._do_step()
        if self._step in schedule.evaluated:
            self._evaluate()
        if self._step == schedule.last:
            self._end()

    def change(self, values: Mapping[str, Any]) -> None:
        """Changes settings from the next step on, and logs a phase.

        Values that equal the current ones are ignored.  After the last step all changes
        are ignored, except further steps for a run that continues.  A stopped run
        continues before its last step.
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
            self._replan(step)
        elif "max_grad_norm" in values:
            self._train_step.choose_bound(self._current.max_grad_norm)

    def _replan(self, step: int) -> None:
        """Plans the steps after ``step`` with the current settings."""
        plan = self._current.plan
        self._spending.change(step, plan)
        self._schedule = Schedule.along(self._current, self._spending, step)
        self._snapshots = self._snapshots_of(self._schedule)
        if plan.steps > step:
            further = replace(plan, steps=plan.steps - step)
            self._train_step.start_plan(self._current, further)

    def _do_step(self) -> None:
        if self._step in self._schedule.noise_changes:
            self._waiting.append(self._phase())
        for group in self._optimizer.param_groups:
            group["lr"] = self._current.learning_rate_at(self._step)
        indices = next(self._train_step.batches)
        rows, targets = self._data.train[indices], self._data.train_targets[indices]
        loss, shown = self._take_step(rows.to(self._device), targets.to(self._device))
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
        """Updates the model.

        Returns:
            Loss, and the data of a ``microscope`` event if the visitor asked for it.
        """
        if not self._examines_next:
            return self._train_step.step(rows, targets), None
        self._examines_next = False
        microscope = Microscope(self._model, self._optimizer, self._current, self._step)
        gradients = microscope.gradients(rows, targets)
        with microscope.recording():
            loss = self._train_step.step(rows, targets)
        return loss, microscope.data(gradients, self._train_step.norms())

    def _evaluate(self) -> None:
        # A change of the plan after this step has evaluated it already.
        if self._tested_after == self._step:
            return
        self._tested_after = self._step
        scores = predict(self._model, self._data.test, self._device)
        accuracy, loss = evaluate(scores, self._data.test_targets)
        self._check_finite("test loss", loss)
        self._tested = {"test_accuracy": accuracy, "test_loss": loss}
        self._emit("evaluation", **self._tested)
        snapshot = self._snapshots.after(self._step, scores)
        if snapshot is not None:
            self._emit("model", **snapshot)

    def _end(self) -> None:
        self._ended = True
        # A run that repeats a continued run does not end here.
        if self._continues:
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
        spent = self._schedule.epsilon(self._step, self._spending)
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
        if self._device.type != "cpu":
            data["device"] = devices.model_name(self._device)
        if plan.slots is not None:
            data["slots"] = plan.slots
        if plan.bands > 1:
            data["bands"] = plan.bands
        if self.config.filtered_run is not None:
            data |= {
                "filter": asdict(self.config.filtered_run),
                "last_step": self._schedule.last,
            }
        return Event("phase", data)

    def _status(self) -> str:
        """Returns the status of the run's ε, for the ``phase`` event."""
        if not self.config.plan.is_private:
            return NOT_PRIVATE
        return self._spending.status

    def _check_finite(self, name: str, value: float | Tensor) -> None:
        """Raises DivergedError if an entry of the value is not finite."""
        if not bool(torch.isfinite(torch.as_tensor(value)).all()):
            raise DivergedError(
                f"the run diverged: after step {self._step} its {name} was no longer "
                f"finite. Lower learning_rate (it is {self.config.learning_rate:g})"
                + (" or max_grad_norm." if self.config.private else ".")
            )


def audit_of(receipt: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Returns a receipt's audit without its scores; None if there is no audit."""
    audit = receipt["audit"] if receipt else None
    return {name: audit[name] for name in AUDIT_FIELDS} if audit else None


def _differs(name: str, now: TrainingConfig, before: TrainingConfig) -> bool:
    return bool(getattr(now, name) != getattr(before, name))


@torch.no_grad()
def predict(
    model: nn.Module, inputs: Tensor, device: torch.device | str = "cpu"
) -> Tensor:
    """Returns the scores of each class, on the CPU: [N, ...] -> [N, classes, ...].

    Args:
        model: The model.
        inputs: Inputs of all records, on the CPU.
        device: Device of the model.
    """
    batches = torch.split(inputs, EVALUATION_BATCH_SIZE)
    return torch.cat([model(batch.to(device)).cpu() for batch in batches])


def evaluate(scores: Tensor, targets: Tensor) -> tuple[float, float]:
    """Returns the accuracy and the mean cross-entropy over all labels.

    Shapes: scores [N, classes], targets [N]; or [N, classes, T] and [N, T] with IGNORED
    behind the end of a text.
    """
    correct, loss = 0, 0.0
    batches = (torch.split(part, EVALUATION_BATCH_SIZE) for part in (scores, targets))
    for logits, labels in zip(*batches, strict=True):
        correct += int((logits.argmax(dim=1) == labels).sum())
        loss += float(F.cross_entropy(logits, labels, reduction="sum"))
    count = int((targets != IGNORED).sum())
    return correct / count, loss / count

"""A blind search: a secret, random number K of trials, and only the best is released.

Every search does a fixed number of trainings, whatever K is, and discards the results
of the trainings after the first K.  Each training does all of its steps, even if its
parameters are no longer finite.  The log and its times therefore reveal nothing about
single trials.  The search emits no results before the last training has ended, and
then only the results of the winner.

The winner is the trial with the highest final test accuracy.  The accuracy depends on
the parameters that DP-SGD releases and on the test records; the guarantee does not
cover test records.  ``SearchConfig.price`` is the ε of the search.

Source: Papernot and Steinke (2022), arXiv:2110.03620v2.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from dpsgd_explorer.accounting.rdp.padded_selection import number_of_trials
from dpsgd_explorer.dp.noise.seeded import seeded_generator
from dpsgd_explorer.experiments.events import Event
from dpsgd_explorer.experiments.experiment import Experiment
from dpsgd_explorer.experiments.search_config import SearchConfig
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.experiments.vocabulary import LARGEST_SEED
from dpsgd_explorer.training.artifacts import packed, unpacked, weights_file
from dpsgd_explorer.training.dp_sgd import TrainingExperiment
from dpsgd_explorer.training.model_snapshots import ModelSnapshots

#: Purpose of the generator that draws K and the trials.
PURPOSE = "search"
#: Values of an evaluation that the search emits.
EVALUATION_FIELDS = ("test_accuracy", "test_loss")
#: Fields of the winner's receipt that the search omits: the seed reveals which trial
#: won, and the other field is not private.
OMITTED_FIELDS = ("seed", "not_private")


class NoSnapshots(ModelSnapshots):
    """Snapshots of a trial: none, because its models are not released."""

    def __init__(self) -> None:
        pass

    def start(self) -> dict[str, Any]:
        return {}

    def after(self, step: int, scores: Tensor) -> None:
        return None


class Trial(TrainingExperiment):
    """One training, which does all of its steps even if it diverges.

    Attributes:
        has_diverged: True if a loss or parameter was not finite.  Such a trial cannot
            win.
    """

    has_diverged: bool

    def _prepare(self) -> None:
        self.has_diverged = False
        super()._prepare()
        self._snapshots = NoSnapshots()

    def _status(self) -> str:
        return ""  # the search states its ε, and its trials do not

    def _epsilon(self) -> None:
        return None

    def _end(self) -> None:
        self._ended = True

    def _check_finite(self, name: str, value: float | Tensor) -> None:
        finite = bool(torch.isfinite(torch.as_tensor(value)).all())
        self.has_diverged = self.has_diverged or not finite

    def _state(self) -> dict[str, Any]:
        return super()._state() | {"has_diverged": self.has_diverged}

    def _load_state(self, state: dict[str, Any]) -> None:
        super()._load_state(state)
        self.has_diverged = state["has_diverged"]


class BlindSearch(Experiment):
    """One search and its state; see ``Experiment``.  Each step is a training."""

    config: SearchConfig

    def _prepare(self) -> None:
        config = self.config
        generator = seeded_generator(config.seed, PURPOSE)
        uniform = torch.rand(1, generator=generator, dtype=torch.float64).item()
        trainings = config.trainings
        self._number = number_of_trials(uniform, config.mean_trials, trainings)
        drawn = torch.randint(len(config.grid), (trainings,), generator=generator)
        self._drawn: list[int] = drawn.tolist()
        first = torch.randint(LARGEST_SEED + 1, (1,), generator=generator)
        self._first_seed = int(first)
        self._trial: Trial | None = None
        self._events: Iterator[Event] = iter(())
        self._curve: list[dict[str, Any]] = []
        self._best: dict[str, Any] | None = None
        self._is_released = False

    def _trial_config(self) -> TrainingConfig:
        """Returns the settings of the next training."""
        seed = (self._first_seed + self._step) % (LARGEST_SEED + 1)
        return self.config.trial(self.config.grid[self._drawn[self._step]], seed)

    def _advance(self) -> None:
        """Continues the current training until its next event."""
        if self._trial is None:
            self._start(None)
        event = next(self._events, None)
        if event is None:
            self._judge()
        elif event.kind == "evaluation":
            names = ("step", *EVALUATION_FIELDS)
            self._curve.append({name: event.data[name] for name in names})

    def _start(self, checkpoint: bytes | None) -> None:
        self._trial = Trial(
            self._trial_config(), checkpoint=checkpoint, performance=self._performance
        )
        self._events = self._trial.events()

    def _judge(self) -> None:
        """Ends the current training, and stores its results if it is the best one."""
        assert self._trial is not None, "a training has ended"
        counts = self._step < self._number and not self._trial.has_diverged
        if counts and self._is_best(self._curve[-1]):
            self._best = {
                "values": self.config.grid[self._drawn[self._step]],
                "curve": self._curve,
                "weights": self._trial.weights(),
                "receipt": self._trial.receipt(),
            }
        self._trial, self._curve = None, []
        self._step += 1
        self._emit("step", diagnostics={})
        if self._step == self.config.trainings:
            self._release()

    def _is_best(self, point: dict[str, Any]) -> bool:
        """Returns True if a score is above the best score so far; ties do not count."""
        best = self._best
        score = point["test_accuracy"]
        return best is None or bool(score > best["curve"][-1]["test_accuracy"])

    def _release(self) -> None:
        """Emits the results of the winner, and the end with the price."""
        self._is_released = self._ended = True
        best = self._best
        for point in best["curve"] if best else []:
            values = {name: point[name] for name in EVALUATION_FIELDS}
            self._emit("evaluation", trained=point["step"], **values)
        last = best["curve"][-1] if best else {}
        self._emit(
            "end",
            delta=self.config.delta,
            **{name: last.get(name) for name in EVALUATION_FIELDS},
            winner=best["values"] if best else None,
            reason="finished" if best else "no winner",
            receipt=self._receipt(),
        )

    def _receipt(self) -> dict[str, Any]:
        """Returns the price of the search, and the receipt of the winner's training."""
        price = self.config.price
        trial = None
        if self._best is not None:
            whole = self._best["receipt"]
            names = [name for name in whole if name not in OMITTED_FIELDS]
            trial = {name: whole[name] for name in names}
        return {
            "selection": {
                "law": "poisson",
                "mean_trials": price.mean_trials,
                "trainings": price.trainings,
                "epsilon": price.epsilon,
                "delta": price.delta,
                "status": "bound",
                "chosen_by": "test accuracy; test records are not covered",
            },
            "trial": trial,
        }

    def weights_file(self) -> bytes | None:
        """Returns the winner's weights with the receipt; None without a winner."""
        if self._best is None or not self._is_released:
            return None
        about = {
            "config": self.config.model_dump_json(),
            "winner": json.dumps(self._best["values"]),
        }
        return weights_file(self._best["weights"], self._receipt(), about)

    def _phase(self) -> Event:
        plan, price = self.config.plan, self.config.price
        return Event(
            "phase",
            {
                "step": 0,
                "sample_rate": plan.sample_rate,
                "noise_multiplier": plan.noise_multiplier_at(0),
                "trial_steps": plan.steps,
                "mean_trials": price.mean_trials,
                "steps": price.trainings,
                "sample_size": plan.sample_size,
                "delta": price.delta,
                "status": "bound",
                "private": True,
            },
        )

    def _epsilon(self) -> float:
        return self.config.price.epsilon if self._is_released else 0.0

    def _packed(self, state: dict[str, Any]) -> bytes:
        return packed(state)

    def _unpacked(self, checkpoint: bytes) -> dict[str, Any]:
        return unpacked(checkpoint)

    def _state(self) -> dict[str, Any]:
        trial = self._trial
        return {
            "best": self._best,
            "curve": self._curve,
            "trial": None if trial is None else trial.checkpoint(),
            "is_released": self._is_released,
        }

    def _load_state(self, state: dict[str, Any]) -> None:
        self._best, self._curve = state["best"], state["curve"]
        self._is_released = state["is_released"]
        if state["trial"] is not None:
            self._start(state["trial"])

"""The audit of a training loop with a planted bug, as a run.

``PlantedBugExperiment`` can stop after any event.  A resumed audit repeats the steps
from the seed.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from dpsgd_explorer.experiments.events import NOT_PRIVATE, Event
from dpsgd_explorer.experiments.experiment import Experiment
from dpsgd_explorer.experiments.planted_bug_config import PlantedBugConfig
from dpsgd_explorer.training.cpu.threads import threads
from dpsgd_explorer.training.planted_bugs.catalogue import LOOPS
from dpsgd_explorer.training.planted_bugs.task import CANARIES, DELTA, STEPS, plan
from dpsgd_explorer.training.planted_bugs.trial import (
    AUDITED_STEPS,
    CONFIDENCE,
    AuditedLoop,
    AuditPoint,
    refusal,
    seen_by,
)


class PlantedBugExperiment(Experiment):
    """One audit and its state; see ``Experiment``."""

    config: PlantedBugConfig

    def _prepare(self) -> None:
        bug = LOOPS[self.config.loop]
        with threads(1):
            self._loop = AuditedLoop(bug, self.config.seed)
            self._refused = refusal(bug, self.config.seed)
        self._last: AuditPoint | None = None

    def _computing(self) -> AbstractContextManager[None]:
        return threads(1)

    def _state(self) -> dict[str, Any]:
        return {"last": self._last}

    def _load_state(self, state: dict[str, Any]) -> None:
        self._last = state["last"] and AuditPoint(*state["last"])
        with threads(1):
            # Repeating the steps is simpler than saving the loop's generator.
            for _ in range(self._step):
                self._loop.advance()

    def _advance(self) -> None:
        """Does a step, and emits the audit's bound after some of the steps."""
        if not self._loop.advance():
            self._end()
            return
        self._step += 1
        self._emit("step", diagnostics={})
        if self._step in AUDITED_STEPS:
            self._last = self._loop.point()
            self._emit("evaluation", **_bounds(self._last))
        if self._step == STEPS:
            self._end()

    def _end(self) -> None:
        seen = seen_by(self._refused, self._loop.error, self._last)
        self._emit(
            "end",
            delta=None,
            reason="finished",
            error=self._loop.error,
            seen_by=seen,
            **_bounds(self._last),
        )
        self._ended = True

    def _phase(self) -> Event:
        promised = plan()
        spent = {"sample_rate": promised.sample_rate, "steps": STEPS}
        settings = {"noise_multiplier": None, "status": NOT_PRIVATE, "private": False}
        audited = {
            "canaries": CANARIES,
            "confidence": CONFIDENCE,
            "epsilon_promised": promised.epsilon(),
            "delta_promised": DELTA,
            "refused": self._refused,
        }
        return Event("phase", {"step": 0} | spent | settings | audited)

    def _epsilon(self) -> float | None:
        return None


def _bounds(point: AuditPoint | None) -> dict[str, float | None]:
    if point is None:
        return {"epsilon_lower": None, "epsilon_promised": None}
    _, lower, promised = point
    return {"epsilon_lower": lower, "epsilon_promised": promised}

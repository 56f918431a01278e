"""How a PrivacyEngine is saved, and how a run goes on from what was saved."""

from __future__ import annotations

import warnings
from typing import Any

from torch import nn

from dpsgd_explorer.dp import saved_state
from dpsgd_explorer.dp.engine_report import EngineReport
from dpsgd_explorer.dp.ledger import spending
from dpsgd_explorer.dp.ledger.ledger import Ledger
from dpsgd_explorer.errors import PrivacyError, PrivacyWarning


class EngineState(EngineReport):
    """Saves and restores all that a run needs beside its model and its optimizer.

    Attributes:
        module: The model.
    """

    module: nn.Module

    def state_dict(self) -> dict[str, Any]:
        """Return tensors and plain values from which a run goes on.

        Bit for bit if noise is seeded.  A secure key is not saved: noise and batches
        after the resume are fresh ones.

        Raises:
            PrivacyError: a batch is between its draw and its step.
        """
        saved_state.refuse_in_flight(self._in_flight, "saved")
        return {
            **self._settings,
            "seed": self.seed,
            "noise": self._noise.state(),
            "sampler": self._sampler.state(),
            "ledger": self._ledger.as_data(),
            "bound": self._bound.state(),
        }

    def load_state_dict(self, state: dict[str, Any], *, lost_steps: int = 0) -> None:
        """Go on from where ``state_dict`` was called.

        Steps that this engine has made and the state does not know of are counted as
        lost: epsilon never shrinks.

        Args:
            state: What it returned.
            lost_steps: Steps made after that by whichever process, whose models or
                metrics anybody may have seen.  Seeded noise repeats them, and they cost
                nothing; secure noise does not, so they are counted, and the run is that
                much shorter.  Those that this engine has made itself need not be given.

        Raises:
            ConfigError: the state belongs to a run with other settings.
            PrivacyError: a batch is between its draw and its step; or this engine is
                ahead of the state, and seeded noise would be used again.
        """
        saved_state.refuse_in_flight(self._in_flight, "restored")
        saved_state.check_same_run(state, self._settings)
        ledger = Ledger.from_data(state["ledger"], self._ledger.writer)
        known = self._ledger.released_by
        ahead = ledger.missing(known)
        if ahead and self._noise.repeatable:
            raise PrivacyError(
                f"this engine has made {ahead} steps that the saved state does not "
                "know of, and seeded noise would be added to other gradients again. "
                "Load the state into a new PrivacyEngine, which repeats those steps."
            )
        self.seed = state["seed"]
        self._noise.restore(state["noise"])
        self._sampler.restore(state["sampler"])
        ledger.losses.add(self._ledger.losses)
        self._ledger = ledger
        self._bound.restore(state["bound"])
        if not self._noise.repeatable:
            lost = max(ahead, lost_steps)
            ledger.fresh_resumes += 1
            ledger.learn(known, lost)
            self._count_lost(lost)
        self._set_bound()

    def _count_lost(self, steps: int) -> None:
        trained = [p for p in self.module.parameters() if p.requires_grad]
        size = sum(p.numel() for p in trained)
        self._bound.skip(steps)
        for _ in range(steps):
            lost = self._told.release(size, 1, self._ledger.steps)
            self._ledger.record_lost(lost)
        self._sampler.position += steps

    def _set_bound(self) -> None:
        """Let the next batch be clipped with the bound of its step."""
        if self._attachment is not None:
            self._attachment.rescale(self._bound.factor(self._ledger.steps))

    @property
    def _in_flight(self) -> bool:
        return self._attachment is not None and self._attachment.batch.in_flight

    @property
    def _writers(self) -> set[str]:
        """Names of the ledgers whose steps this engine counts."""
        earlier = self._after
        others = earlier._writers if isinstance(earlier, EngineState) else set()
        return {self._ledger.writer, *self._ledger.released_by, *others}

    def _warn_of_uncounted_steps(self) -> None:
        names = spending.spent_elsewhere(self.module, self._writers)
        if names:
            warnings.warn(
                f"another engine has released gradients of {', '.join(names[:3])}"
                f"{' and others' if len(names) > 3 else ''}, and this one does not "
                "count what that has spent. If it was on the same records, give it as "
                "after=; epsilon is too small otherwise.",
                PrivacyWarning,
                stacklevel=3,
            )

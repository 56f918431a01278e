"""What every kind of run does alike: events out, left and taken up between any two.

A kind says what it does next (``_advance``) and what it must keep (``_state``). Nothing
here loads torch.
"""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar

from dpsgd_explorer.errors import CheckpointError
from dpsgd_explorer.experiments.config import RunConfig
from dpsgd_explorer.experiments.events import Event, Kind


class Experiment(ABC):
    """One run and its state; a subclass ends its ``__init__`` with ``_begin``.

    Attributes:
        config: What is being done.
        events_emitted: Events yielded since the run's start, also after a resume.
        checkpoint_version: Counts up when what is kept changes.
    """

    checkpoint_version: ClassVar[int] = 1

    config: RunConfig

    def __init__(self, config: RunConfig) -> None:
        """Start the clock; nothing is done yet."""
        self._started = time.monotonic()
        self.config = config
        self.events_emitted = 0
        self._step = 0
        self._ended = False
        self._waiting: deque[Event] = deque()

    def _begin(self, checkpoint: bytes | None) -> None:
        """Start with the phase event, or go on behind a checkpoint.

        Raises:
            CheckpointError: the checkpoint is damaged, or of another configuration.
        """
        if checkpoint is None:
            self._waiting.append(self._phase())
            return
        try:
            self._restore(checkpoint)
        except (CheckpointError, MemoryError):
            raise
        except Exception as error:  # each library has its own for damaged bytes
            raise CheckpointError(
                f"the checkpoint must be one of this program, got damaged bytes "
                f"({type(error).__name__}). Start the run anew.",
                is_damaged=True,
            ) from error

    def events(self) -> Iterator[Event]:
        """Yield the events that are still to come, computing each when it is asked for.

        Raises:
            DivergedError: numbers that must be finite are not.
        """
        while self._waiting or not self._ended:
            while not self._waiting:
                with self._computing():
                    self._advance()
            self.events_emitted += 1
            yield self._waiting.popleft()

    def checkpoint(self) -> bytes:
        """Return all that a resumed run needs; call it between two events."""
        return self._packed(
            self._identity()
            | {
                "step": self._step,
                "ended": self._ended,
                "events_emitted": self.events_emitted,
                "seconds": self._seconds(),
                "waiting": [[event.kind, event.data] for event in self._waiting],
            }
            | self._state()
        )

    def _restore(self, checkpoint: bytes) -> None:
        state = self._unpacked(checkpoint)
        for name, value in self._identity().items():
            if state[name] != value:
                raise CheckpointError(
                    f"the checkpoint's {name} must be this run's, {value}; got "
                    f"{state[name]}. Start the run anew.",
                    is_damaged=False,
                )
        self._step = state["step"]
        self._ended = state["ended"]
        self.events_emitted = state["events_emitted"]
        self._started -= state["seconds"]
        self._waiting.extend(Event(kind, data) for kind, data in state["waiting"])
        self._load_state(state)

    def _identity(self) -> dict[str, Any]:
        """Return what a checkpoint must share with the run."""
        return {
            "version": self.checkpoint_version,
            "config": self.config.model_dump_json(),
        }

    def _emit(self, kind: Kind, **data: Any) -> None:
        """Let an event of the present step wait to be yielded."""
        now = {
            "step": self._step,
            "epsilon": self._epsilon(),
            "seconds": self._seconds(),
        }
        self._waiting.append(Event(kind, now | data))

    def _seconds(self) -> float:
        return round(time.monotonic() - self._started, 3)

    def _computing(self) -> AbstractContextManager[None]:
        """Return what holds while something is computed."""
        return nullcontext()

    def _packed(self, state: dict[str, Any]) -> bytes:
        return json.dumps(state).encode()

    def _unpacked(self, checkpoint: bytes) -> dict[str, Any]:
        state: dict[str, Any] = json.loads(checkpoint)
        return state

    @abstractmethod
    def _phase(self) -> Event:
        """Return the first event."""

    @abstractmethod
    def _advance(self) -> None:
        """Do what is next and say what is to be said; set ``_ended`` after the last."""

    @abstractmethod
    def _epsilon(self) -> float | None:
        """Return ε after the present step, None where there is no guarantee."""

    @abstractmethod
    def _state(self) -> dict[str, Any]:
        """Return what a resumed run needs besides the counters."""

    @abstractmethod
    def _load_state(self, state: dict[str, Any]) -> None:
        """Take over what ``_state`` returned."""

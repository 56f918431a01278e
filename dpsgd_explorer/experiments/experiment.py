"""The base class of all kinds of runs: emits events, can stop and resume in between.

A kind implements its next piece of work (``_advance``) and its state (``_state``).
This module loads no torch.
"""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

from dpsgd_explorer.errors import CheckpointError, ConfigError
from dpsgd_explorer.experiments.config import RunConfig
from dpsgd_explorer.experiments.events import Changes, Event, Kind
from dpsgd_explorer.experiments.mid_run import FURTHER
from dpsgd_explorer.settings import Settings


@dataclass(frozen=True, kw_only=True)
class PerformanceSettings:
    """Resources of a run; settings and ε do not depend on them.

    Attributes:
        num_threads: Number of torch threads.  Another number changes the order of
            summation, so the last bits may differ.
        kernels: Kernels of ``training.cpu.kernels`` to use: "exact" for those that
            change no bit, "fast" also for float32 products with other rounding, "off"
            for none.
        device: Device of runs of kind "training": "cpu", "auto" (a GPU where torch
            finds one), "cuda" or "cuda:N".  Another device rounds differently.
        cache_dir: Folder for computed features, created if missing; None stores them
            in memory, and the next process computes them again.
        read_table: Returns the file of a visitor's table by name, None for a missing
            table.  Without it, the file is read from the current folder.
        on_progress: Called with the computed and the total number of feature rows.
        group: Process group of ``torch.distributed`` for the run; None: one process.
    """

    num_threads: int = 1
    kernels: str = "exact"
    device: str = "cpu"
    cache_dir: Path | None = None
    read_table: Callable[[str], bytes | None] | None = None
    on_progress: Callable[[int, int], None] | None = None
    group: Any = None

    @classmethod
    def from_settings(
        cls,
        settings: Settings,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> Self:
        """Return the settings of this installation."""
        return cls(
            num_threads=settings.threads,
            kernels=settings.kernels,
            device=settings.device,
            cache_dir=settings.instance_dir / "cache",
            on_progress=on_progress,
        )


class Experiment(ABC):
    """One run and its state.

    Args:
        config: The settings of the run.
        checkpoint: Return value of ``checkpoint()`` of a run of this configuration.
        performance: Threads, kernels, caches; they affect the duration only.
        changes: Changes of the recorded run, which are repeated at the same steps.

    Raises:
        ConfigError: the checkpoint belongs to another configuration.
        DataError: a data file is missing or damaged.

    Attributes:
        config: The settings of the run.
        events_emitted: Number of events since the start, including those before a
            resume.
        checkpoint_version: Version of the checkpoint format.
    """

    checkpoint_version: ClassVar[int] = 1

    config: RunConfig

    def __init__(
        self,
        config: RunConfig,
        *,
        checkpoint: bytes | None = None,
        performance: PerformanceSettings | None = None,
        changes: Changes = (),
    ) -> None:
        self._started = time.monotonic()
        self.config = config
        self.events_emitted = 0
        self._step = 0
        self._ended = False
        self._examines_next = False
        self._to_change = [(step, dict(values)) for step, values in changes]
        self._waiting: deque[Event] = deque()
        self._performance = performance or PerformanceSettings()
        self._prepare()
        self._begin(checkpoint)

    def _begin(self, checkpoint: bytes | None) -> None:
        """Start with the phase event, or resume after a checkpoint.

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
        except ConfigError as error:  # readable, but of another run
            raise CheckpointError(
                f"the checkpoint cannot be used: {error}", is_damaged=False
            ) from error
        except Exception as error:  # every library raises its own for damaged bytes
            raise CheckpointError(
                f"the checkpoint must be one of this program, got damaged bytes "
                f"({type(error).__name__}). Start the run again.",
                is_damaged=True,
            ) from error

    @property
    def step(self) -> int:
        """Number of steps done."""
        return self._step

    @property
    def has_ended(self) -> bool:
        """If True, the last event was computed."""
        return self._ended

    def leave_out(self, seconds: float) -> None:
        """Exclude a pause of this duration from the ``seconds`` of events."""
        self._started += seconds

    def change(self, values: Mapping[str, Any]) -> None:
        """Change settings from the next step on; call it between two steps.

        Raises:
            ConfigError: the kind of run does not allow changes of the setting.
        """
        self.config.changed(values)

    def examine_next_step(self) -> None:
        """Emit the microscope event of the next step, in kinds that have one."""
        self._examines_next = True

    def events(self, before_step: Callable[[], None] = lambda: None) -> Iterator[Event]:
        """Yield the remaining events, computing each on demand.

        Args:
            before_step: Called before each piece of work, when a checkpoint can be
                taken; its exceptions end the events.

        Raises:
            DivergedError: numbers that must be finite are not.
        """
        while self._waiting or not self._ended or self._continues:
            while not self._waiting:
                before_step()
                self._change_as_recorded()
                if self._waiting:
                    break
                with self._computing():
                    self._advance()
            self.events_emitted += 1
            yield self._waiting.popleft()

    @property
    def _continues(self) -> bool:
        """If True, the recorded run was continued after its planned steps."""
        if not self._to_change:
            return False
        step, values = self._to_change[0]
        return step <= self._step and FURTHER in values

    def _change_as_recorded(self) -> None:
        """Apply the changes of the recorded run that are due."""
        while self._to_change and self._to_change[0][0] <= self._step:
            self.change(self._to_change.pop(0)[1])

    def checkpoint(self) -> bytes:
        """Return the state for a resumed run; call it between two events."""
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

    def weights_file(self) -> bytes | None:
        """Return the trained weights as a safetensors file; None without weights."""
        return None

    def _restore(self, checkpoint: bytes) -> None:
        state = self._unpacked(checkpoint)
        for name, value in self._identity().items():
            if state[name] != value:
                raise CheckpointError(
                    f"the checkpoint's {name} must be this run's; "
                    f"{_difference(name, value, state[name])}. Use the settings of the "
                    "checkpoint, or start the run again with another checkpoint.",
                    is_damaged=False,
                )
        self._step = state["step"]
        self._ended = state["ended"]
        self.events_emitted = state["events_emitted"]
        self._started -= state["seconds"]
        self._waiting.extend(Event(kind, data) for kind, data in state["waiting"])
        self._load_state(state)

    def _identity(self) -> dict[str, Any]:
        """Return the values in which checkpoint and run must agree."""
        return {
            "version": self.checkpoint_version,
            "config": self.config.model_dump_json(),
        }

    def _emit(self, kind: Kind, **data: Any) -> None:
        """Queue an event of the current step."""
        now = {
            "step": self._step,
            "epsilon": self._epsilon(),
            "seconds": self._seconds(),
        }
        self._waiting.append(Event(kind, now | data))

    def _seconds(self) -> float:
        return round(time.monotonic() - self._started, 3)

    def _computing(self) -> AbstractContextManager[None]:
        """Return the context in which ``_advance`` is called."""
        return nullcontext()

    def _packed(self, state: dict[str, Any]) -> bytes:
        return json.dumps(state).encode()

    def _unpacked(self, checkpoint: bytes) -> dict[str, Any]:
        state: dict[str, Any] = json.loads(checkpoint)
        return state

    @abstractmethod
    def _prepare(self) -> None:
        """Load and build everything that the first piece of work needs."""

    @abstractmethod
    def _phase(self) -> Event:
        """Return the first event."""

    @abstractmethod
    def _advance(self) -> None:
        """Do the next piece of work and emit its events; set ``_ended`` at the last."""

    @abstractmethod
    def _epsilon(self) -> float | None:
        """Return ε after the current step, None without a guarantee."""

    @abstractmethod
    def _state(self) -> dict[str, Any]:
        """Return the state of a resumed run, except the counters."""

    @abstractmethod
    def _load_state(self, state: dict[str, Any]) -> None:
        """Restore the state that ``_state`` returned."""


def _difference(name: str, current: Any, stored: Any) -> str:
    """Return the differences between the values of run and checkpoint, in words."""
    if name != "config":
        return f"{name} is {current} here and {stored} in the checkpoint"
    current_settings, stored_settings = json.loads(current), json.loads(stored)
    return ", ".join(
        f"{key} is {json.dumps(current_settings.get(key))} here and "
        f"{json.dumps(stored_settings.get(key))} in the checkpoint"
        for key in sorted(current_settings.keys() | stored_settings.keys())
        if current_settings.get(key) != stored_settings.get(key)
    )

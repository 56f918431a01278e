"""The files that ``train`` writes: checkpoint, events, weights and receipt."""

from __future__ import annotations

import argparse
import errno
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING

from dpsgd_explorer import extras
from dpsgd_explorer.atomic_file import write_whole
from dpsgd_explorer.errors import CheckpointError, ConfigError

if TYPE_CHECKING:
    from dpsgd_explorer.experiments.config import RunConfig
    from dpsgd_explorer.experiments.events import Event
    from dpsgd_explorer.experiments.experiment import Experiment, PerformanceSettings

CHECKPOINT_SECONDS = 1.0
SUFFIX = ".safetensors"
#: Options that name an output file.
OUTPUTS = ("events", "checkpoint", "weights")
#: Options whose output file is replaced; events are appended.
REPLACED = ("checkpoint", "weights")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options for the files that a run writes."""
    parser.add_argument(
        "--checkpoint",
        metavar="FILE",
        help="save the run to FILE about once per second; if FILE exists, continue "
        "from it",
    )
    parser.add_argument(
        "--weights",
        metavar=f"FILE{SUFFIX}",
        help="write the trained weights to FILE.safetensors, and their receipt to "
        "FILE.receipt.json",
    )


def check_options(options: argparse.Namespace, config: RunConfig) -> None:
    """Checks before the run starts that its files can be written.

    Raises:
        ConfigError: the name or the folder of a file is wrong.
        MissingPackageError: safetensors is not installed.
    """
    from dpsgd_explorer.experiments.kinds import as_training

    if options.weights is not None:
        if as_training(config) is None:
            raise ConfigError(
                "--weights",
                f"--weights is for runs of kind training, got {config.kind}.",
            )
        if Path(options.weights).suffix != SUFFIX:
            raise ConfigError(
                "--weights", f"--weights must end in {SUFFIX}, got {options.weights}."
            )
        extras.require("--weights", "safetensors")
    users = {Path(options.config).absolute(): "config"}
    for name in OUTPUTS:
        path = getattr(options, name)
        if path is not None:
            other = users.setdefault(Path(path).absolute(), name)
            if other != name:
                raise ConfigError(
                    f"--{name}",
                    f"--{name} must be another file than --{other}, got {path}.",
                )
            _check_writable(name, path)
    if options.events is not None:
        _check_events(Path(options.events))


def _check_writable(name: str, path: str) -> None:
    """Raises ConfigError if an option's file cannot be written; creates no file."""
    file = Path(path).absolute()
    if not file.parent.is_dir():
        raise ConfigError(
            f"--{name}", f"--{name} must be in an existing folder, got {path}."
        )
    try:
        exists = file.exists()
        if exists and (file.is_dir() or (name in REPLACED and not file.is_file())):
            raise OSError(errno.EISDIR, "it is not a regular file")
        if exists:
            os.close(os.open(file, os.O_WRONLY))
        if name in REPLACED or not exists:
            with TemporaryFile(dir=file.parent):
                pass
    except OSError as error:
        raise ConfigError(
            f"--{name}",
            f"--{name} must be a file that can be written: {path}: {error.strerror}.",
        ) from None


def _check_events(file: Path) -> None:
    """Raises ConfigError for a file with other content, which a run would overwrite."""
    if not file.is_file() or not file.stat().st_size:
        return
    with file.open(encoding="utf-8", errors="replace") as lines:
        first = lines.readline()
    try:
        json.loads(first)["kind"]
    except (ValueError, TypeError, LookupError, RecursionError):
        raise ConfigError(
            "--events",
            "--events must be a new file, or events that train wrote, got "
            f"{file} with other content. Name another file.",
        ) from None


class RunFiles:
    """Starts or resumes a run, and saves its checkpoints.

    Args:
        config: Settings of the run.
        checkpoint: File of the checkpoint; None to save no checkpoint.
        performance: Threads, kernels and caches.
        writes: If True, this process writes the files of the run.

    Attributes:
        experiment: The run.
        note: Line to print if the checkpoint is of a finished run; "" otherwise.

    Raises:
        ConfigError: the checkpoint is damaged, or belongs to another run.
    """

    def __init__(
        self,
        config: RunConfig,
        checkpoint: str | None,
        performance: PerformanceSettings,
        *,
        writes: bool = True,
    ) -> None:
        from dpsgd_explorer.experiments.kinds import start

        self._path = None if checkpoint is None else Path(checkpoint)
        self._written, self._writes = time.monotonic(), writes
        checkpoint_bytes = None
        if self._path is not None and self._path.exists():
            checkpoint_bytes = self._path.read_bytes()
        with _damage_named(self._path):
            self.experiment: Experiment = start(
                config, checkpoint=checkpoint_bytes, performance=performance
            )
        self._events_written = self.experiment.events_emitted
        self.note = ""
        if writes and self.experiment.has_ended:
            self.note = (
                f"{self._path} holds a finished run of {self.experiment.step} steps. "
                "Delete it, or name another --checkpoint, to train again.\n"
            )

    def events(self) -> Iterator[Event]:
        """Yields the remaining events; saves a checkpoint about once per second."""
        for event in self.experiment.events():
            yield event
            # The caller has stored the event when the generator continues.
            if time.monotonic() - self._written >= CHECKPOINT_SECONDS:
                self._save_checkpoint()
        self._save_checkpoint()

    def cut(self, events: IO[str]) -> None:
        """Cuts a file of events after the events that the checkpoint includes."""
        if not events.seekable():
            return
        events.seek(0)
        for _ in range(self._events_written):
            events.readline()
        events.seek(events.tell())
        events.truncate()

    def save_weights(self, path: str, config: RunConfig) -> None:
        """Writes the weights of a run of kind training, and its receipt."""
        from dpsgd_explorer.training.artifacts import save_weights
        from dpsgd_explorer.training.dp_sgd import TrainingExperiment

        if isinstance(self.experiment, TrainingExperiment):
            about = {"config": config.model_dump_json()}
            receipt = self.experiment.receipt()
            save_weights(Path(path), self.experiment.weights(), receipt, about)

    def _save_checkpoint(self) -> None:
        if self._path is not None and self._writes:
            write_whole(self._path, self.experiment.checkpoint())
        self._written = time.monotonic()


@contextmanager
def _damage_named(path: Path | None) -> Iterator[None]:
    """Adds the name of the file to the error about a damaged checkpoint."""
    try:
        yield
    except CheckpointError as error:
        if not error.is_damaged:
            raise
        raise ConfigError(
            "--checkpoint",
            f"--checkpoint must be a file that train wrote; {path} is damaged. "
            "Delete it to start the run again.",
        ) from error

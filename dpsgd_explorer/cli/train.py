"""The files that ``train`` keeps: checkpoint, events, weights and receipt."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from dpsgd_explorer.atomic_file import write_whole
from dpsgd_explorer.errors import CheckpointError, ConfigError

if TYPE_CHECKING:
    from dpsgd_explorer.experiments.config import RunConfig
    from dpsgd_explorer.experiments.events import Event
    from dpsgd_explorer.experiments.experiment import Work
    from dpsgd_explorer.experiments.kinds import Kind
    from dpsgd_explorer.experiments.performance import PerformanceSettings

CHECKPOINT_SECONDS = 1.0
SUFFIX = ".safetensors"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the files that a run leaves."""
    parser.add_argument(
        "--checkpoint",
        metavar="FILE",
        help="keep the run there about once a second; if the file is there already, "
        "go on from it",
    )
    parser.add_argument(
        "--weights",
        metavar=f"FILE{SUFFIX}",
        help="write the trained weights there, and FILE.receipt.json beside them",
    )


def check_options(options: argparse.Namespace, config: RunConfig) -> None:
    """Raise ConfigError if the run could not be kept as asked, before it starts."""
    if options.weights is not None:
        if config.kind != "training":
            raise ConfigError(
                "--weights",
                f"--weights is for runs of kind training; got {config.kind}.",
            )
        if Path(options.weights).suffix != SUFFIX:
            raise ConfigError(
                "--weights", f"--weights must end in {SUFFIX}; got {options.weights}."
            )
    for name in ("checkpoint", "weights"):
        path = getattr(options, name)
        if path is not None and not Path(path).absolute().parent.is_dir():
            raise ConfigError(
                f"--{name}", f"--{name} must be in a folder that there is; got {path}."
            )


class RunFiles:
    """Starts or resumes one run, and keeps it.

    Args:
        kind: Of the run.
        config: Its settings.
        checkpoint: File of its state; None to keep none.
        performance: How to compute it.

    Attributes:
        work: The run.

    Raises:
        ConfigError: the checkpoint is damaged, or of another run.
    """

    def __init__(
        self,
        kind: Kind,
        config: RunConfig,
        checkpoint: str | None,
        performance: PerformanceSettings,
    ) -> None:
        self._path = None if checkpoint is None else Path(checkpoint)
        self._written = time.monotonic()
        kept = None
        if self._path is not None and self._path.exists():
            kept = self._path.read_bytes()
        with _damage_told(self._path):
            self.work: Work = kind.start(
                config, checkpoint=kept, performance=performance
            )
        self._told = self.work.events_emitted

    def events(self) -> Iterator[Event]:
        """Yield the events still to come; the checkpoint follows them."""
        for event in self.work.events():
            yield event
            # Behind the yield: whoever took the event has dealt with it.
            if time.monotonic() - self._written >= CHECKPOINT_SECONDS:
                self._keep()
        self._keep()

    def cut(self, events: IO[str]) -> None:
        """Leave in a file of events the lines that this run will not write again."""
        if not events.seekable():
            return
        events.seek(0)
        for _ in range(self._told):
            events.readline()
        events.seek(events.tell())
        events.truncate()

    def save_weights(self, path: str, config: RunConfig) -> None:
        """Write the weights of a run of kind training, and its receipt."""
        from dpsgd_explorer.training.artifacts import save_weights
        from dpsgd_explorer.training.dp_sgd import Training

        if isinstance(self.work, Training):
            about = {"config": config.model_dump_json()}
            receipt = self.work.receipt()
            save_weights(Path(path), self.work.weights(), receipt, about)

    def _keep(self) -> None:
        if self._path is not None:
            write_whole(self._path, self.work.checkpoint())
        self._written = time.monotonic()


@contextmanager
def _damage_told(path: Path | None) -> Iterator[None]:
    """Say which file is damaged."""
    try:
        yield
    except CheckpointError as error:
        if not error.is_damaged:
            raise
        raise ConfigError(
            "--checkpoint",
            f"--checkpoint must be a file that train wrote; {path} is damaged. "
            "Delete it to start the run anew.",
        ) from error

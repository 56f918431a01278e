"""Training process of one run: ``python -m dpsgd_explorer.runs.worker.child LEASE``.

The process is started ahead of time.  It loads torch and data, reports on standard
output that it is warm, and waits on standard input for the claim of a run; meanwhile it
computes missing features.  It writes to the store under the claim's fence number, and
ends with the run or when its worker dies.  On Linux, ``fork_server`` loads and reports
once for all training processes.
"""

from __future__ import annotations

import json
import logging
import math
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from dpsgd_explorer import logs
from dpsgd_explorer.errors import (
    CheckpointError,
    ExplorerError,
    LeaseLostError,
    ReplayError,
    StorageBusyError,
    StorageFullError,
)
from dpsgd_explorer.experiments import kinds
from dpsgd_explorer.experiments.config import RunConfig
from dpsgd_explorer.experiments.data_files.sets import absent
from dpsgd_explorer.experiments.events import (
    Changes,
    Event,
    changes_of,
)
from dpsgd_explorer.experiments.experiment import Experiment, PerformanceSettings
from dpsgd_explorer.experiments.mid_run import FURTHER
from dpsgd_explorer.machine import free_memory_mib, is_busy
from dpsgd_explorer.runs.own_tables import OwnTables
from dpsgd_explorer.runs.store.records import Checkpoint, Claim, StoredEvent
from dpsgd_explorer.runs.store.schema import DONE
from dpsgd_explorer.runs.store.store import RunStore
from dpsgd_explorer.runs.store.transitions import to_json
from dpsgd_explorer.runs.worker import limits, outcomes
from dpsgd_explorer.runs.worker.ending import Ending, leave
from dpsgd_explorer.runs.worker.event_writer import EventWriter
from dpsgd_explorer.runs.worker.loading import report_warm
from dpsgd_explorer.runs.worker.parent_watch import ParentWatch
from dpsgd_explorer.runs.worker.pausing import Pausing, RunGivenUpError
from dpsgd_explorer.runs.worker.prctl import die_with_parent, set_name
from dpsgd_explorer.runs.worker.program import program
from dpsgd_explorer.runs.worker.silence import EventReporter, Silence
from dpsgd_explorer.settings import Settings

CHECKPOINT_SECONDS = 1.0  # minimum time between two checkpoints
# Maximum share of the time for checkpoints; a large model is stored less often.
CHECKPOINT_SHARE = 0.05
REHEARSAL = ("adult", "logistic")  # the data set and model that load fastest
WITH_FEATURES = ("mnist", "scattering_linear")
IDLE_MIB = 900  # free memory needed for idle work, so that runs keep enough memory
BUSY_SECONDS = 5.0  # pause of idle work on a busy machine
# Kinds of events that a resumed run need not repeat.
NOT_REPEATED = frozenset({"state", "progress", "microscope"})
START = Checkpoint(0, None)
# Processor time after which runs that start later get a higher priority.
PRECEDENCE_SECONDS = 4.0
logger = logging.getLogger(__name__)


class UpgradedError(Exception):
    """Another version of the program began the run, and this one cannot repeat it."""


def main(arguments: list[str]) -> int:
    """Prepares, waits for a run and trains it; returns the exit code."""
    settings, lease_s = Settings.from_environment(), float(arguments[0])
    die_with_parent()
    parent_watch = watch_parent()
    prepare(settings)
    if not parent_watch.has_line:
        load(settings)
    limits.lower_priority()
    report_warm()
    return train_next(parent_watch, settings, lease_s)


def watch_parent() -> ParentWatch:
    """Returns a watch of standard input that ends this process at end of file."""
    return ParentWatch(at_end=lambda: os._exit(0))


def prepare(settings: Settings) -> None:
    """Sets up the log and the limits of this process and its children."""
    logs.configure(settings.operation.log_format)
    limits.apply(
        memory_mib=settings.run_memory_mib,
        seconds=settings.run_seconds,
        threads=settings.threads,
    )


def load(settings: Settings) -> None:
    """Loads torch and the data set that loads fastest."""
    with _logged():
        # Imported here and in Kind.start, because torch must load after the memory
        # limit is set.
        from dpsgd_explorer.training.rehearsal import warm_up

        warm_up(*REHEARSAL, performance=PerformanceSettings.from_settings(settings))


def train_next(parent_watch: ParentWatch, settings: Settings, lease_s: float) -> int:
    """Waits for a run and trains it; returns the exit code."""
    set_name("spare")
    with idle_work(settings, parent_watch):
        claim = Claim(**json.loads(parent_watch.first_line()))
    set_name(f"run {claim.run_id}")
    logs.name_process(claim.run_id)
    ending = Ending()
    ending.install()
    store = RunStore(settings.database_url, patience_s=math.inf, outage_s=math.inf)
    return carry_out(store, claim, settings, lease_s=lease_s, ending=ending)


@contextmanager
def idle_work(settings: Settings, parent_watch: ParentWatch) -> Iterator[None]:
    """Computes features ahead within the context, if enough memory is free."""
    work, before = IdleWork(settings, parent_watch), limits.data_bytes()
    if not parent_watch.has_line and free_memory_mib() >= IDLE_MIB:
        work.start()
    yield
    work.end()
    limits.allow(limits.data_bytes() - before)


class IdleWork:
    """Reads the images and computes their missing features, until a run arrives.

    The work is done in a separate thread with the lowest priority, which pauses while
    all cores of the machine are in use.  A run waits for the current chunk, some
    milliseconds, or for the images if it needs them.
    """

    def __init__(self, settings: Settings, parent_watch: ParentWatch) -> None:
        self._cache_dir = settings.instance_dir / "cache"
        self._data = settings.data
        self._parent_watch = parent_watch
        self._ended = threading.Event()
        self._chunk = threading.Lock()

    def start(self) -> None:
        """Starts the thread."""
        threading.Thread(target=self._work, name="idle work", daemon=True).start()

    def end(self) -> None:
        """Waits for the current chunk, after which the thread ends."""
        self._ended.set()
        with self._chunk:
            pass

    def _work(self) -> None:
        with _logged():
            if WITH_FEATURES[0] in absent(self._data):
                return  # a run downloads the data set if it needs it
            from dpsgd_explorer.training import inputs

            chunks = inputs.compute_missing(*WITH_FEATURES, self._cache_dir)
            limits.lower_thread_priority()
            with inputs.one_process(self._cache_dir, self._stops) as is_alone:
                while is_alone and self._compute_one(chunks):
                    while is_busy() and not self._stops():
                        self._ended.wait(BUSY_SECONDS)

    def _compute_one(self, chunks: Iterator[None]) -> bool:
        with self._chunk:
            return not self._stops() and next(chunks, self) is not self

    def _stops(self) -> bool:
        return self._ended.is_set() or self._parent_watch.has_line


@contextmanager
def _logged() -> Iterator[None]:
    """Logs errors of the preparation; a run that meets an error again reports it."""
    try:
        yield
    except (ExplorerError, OSError, MemoryError, RuntimeError) as error:
        logger.error("%s: %s", type(error).__name__, error)


def carry_out(
    store: RunStore,
    claim: Claim,
    settings: Settings,
    *,
    lease_s: float,
    ending: Ending | None = None,
) -> int:
    """Trains the claimed run to its end or failure; returns the exit code."""
    try:
        with EventWriter(store.leases, claim, lease_s=lease_s) as writer:
            state, error = _outcome(store, claim, settings, writer, ending or Ending())
        store.leases.finish(claim, state, error=error)
    except UpgradedError as upgraded:
        next_id = store.leases.begin_again(claim)
        logger.warning("run %s: %s New run: %s", claim.run_id, upgraded, next_id)
    except RunGivenUpError:
        logger.info("run %s is paused without a process", claim.run_id)
    except LeaseLostError as lost:
        logger.warning("%s", lost)
        return outcomes.EXIT_LEASE_LOST
    except StorageFullError as full:
        logger.warning("run %s: %s", claim.run_id, full)
        return outcomes.EXIT_STORAGE_FULL
    except StorageBusyError as error:
        logger.warning("run %s: %s", claim.run_id, error)
        return outcomes.EXIT_STORAGE_LOST
    return 0


def _outcome(
    store: RunStore,
    claim: Claim,
    settings: Settings,
    writer: EventWriter,
    ending: Ending,
) -> tuple[str, dict[str, str] | None]:
    """Trains and returns the outcome; raises errors that prevent storing it."""
    try:
        _train(store, claim, settings, writer, ending)
    except (
        LeaseLostError,
        StorageFullError,
        StorageBusyError,
        RunGivenUpError,
        UpgradedError,
    ):
        raise
    except Exception as error:
        logger.exception("run %s ended with an error", claim.run_id)
        return outcomes.of_exception(error, settings.run_memory_mib)
    return DONE, None


def _train(
    store: RunStore,
    claim: Claim,
    settings: Settings,
    writer: EventWriter,
    ending: Ending,
) -> None:
    """Trains from the last checkpoint, or from the start."""
    reporter = EventReporter(writer)
    with Silence(reporter):
        _train_reporting(store, claim, settings, writer, reporter, ending)


def _train_reporting(
    store: RunStore,
    claim: Claim,
    settings: Settings,
    writer: EventWriter,
    reporter: EventReporter,
    ending: Ending,
) -> None:
    progress = reporter.report_progress
    run = store.get(claim.run_id)
    performance = replace(
        PerformanceSettings.from_settings(settings, progress),
        read_table=OwnTables(store.database, run.visitor, store.clock).content,
    )
    config = kinds.parse(run.config)
    phases = store.phases_of([claim.run_id])[claim.run_id]
    stored = store.leases.checkpoint(claim.run_id)
    # A program stores a checkpoint before its first event, so the last checkpoint names
    # the program that logged the events.
    is_others = stored is None or stored.program != program()
    start = stored or START
    changes = changes_of(phases)
    if writer.orders.further_steps is not None:  # the run continues another one
        changes.append((run.step, {FURTHER: writer.orders.further_steps}))
    try:
        experiment = _experiment(config, start, performance, changes)
    except CheckpointError as error:
        logger.warning("run %s is repeated from its start: %s", claim.run_id, error)
        start = START
        experiment = _experiment(config, start, performance, changes)
    expected = deque(
        event
        for event in store.events(claim.run_id, start.seq)
        if event.kind not in NOT_REPEATED
    )
    pausing = Pausing(
        store.leases,
        claim,
        writer,
        reporter,
        running_per_visitor=settings.quotas.running,
        ending=ending,
    )
    try:
        _store_events(experiment, expected, writer, reporter, pausing)
    except ReplayError as error:
        if is_others:
            raise UpgradedError(str(error)) from error
        raise
    if not config.why_not_continued:
        writer.add_checkpoint(experiment.checkpoint())
    weights = experiment.weights_file()
    if weights is not None and not store.leases.save_weights(claim, weights):
        logger.info(
            "run %s: %d bytes of weights not stored", claim.run_id, len(weights)
        )


def _experiment(
    config: RunConfig,
    start: Checkpoint,
    performance: PerformanceSettings,
    changes: Changes,
) -> Experiment:
    return kinds.start(
        config, checkpoint=start.data, performance=performance, changes=changes
    )


def _store_events(
    experiment: Experiment,
    expected: deque[StoredEvent],
    writer: EventWriter,
    reporter: EventReporter,
    pausing: Pausing,
) -> None:
    """Stores each event; a resumed run must first repeat the stored events."""
    pausing.repeats = bool(expected)
    checkpoints = Checkpoints(experiment, writer)
    if not expected:
        checkpoints.tend()  # records the program, in case another version resumes
    precedence = limits.Precedence(PRECEDENCE_SECONDS)
    for event in experiment.events(before_step=lambda: pausing.tend(experiment)):
        precedence.tend()
        if event.kind in NOT_REPEATED:
            reporter.report(event)
            continue
        if expected:
            _check_repeats(event, expected.popleft())
            pausing.repeats = bool(expected)
        else:
            reporter.report(event)
        if not expected:
            checkpoints.tend()
    if expected:
        raise _replay_error(expected[0])


class Checkpoints:
    """Stores checkpoints of a run as often as ``CHECKPOINT_SHARE`` allows."""

    def __init__(self, experiment: Experiment, writer: EventWriter) -> None:
        self._experiment, self._writer = experiment, writer
        self._due = time.monotonic()

    def tend(self) -> None:
        """Stores a checkpoint if one is due; called between two events."""
        begin = time.monotonic()
        if begin < self._due:
            return
        self._writer.add_checkpoint(self._experiment.checkpoint())
        now = time.monotonic()
        pause = max(CHECKPOINT_SECONDS, (now - begin) / CHECKPOINT_SHARE)
        self._due = now + pause


def _check_repeats(event: Event, stored: StoredEvent) -> None:
    """Raises ReplayError unless an event equals the stored event at its position."""
    before = Event(event.kind, json.loads(stored.data))
    again = Event(event.kind, json.loads(to_json(event.data)))
    if event.kind != stored.kind or again.timeless() != before.timeless():
        raise _replay_error(stored)


def _replay_error(stored: StoredEvent) -> ReplayError:
    return ReplayError(
        f"resumed, the run did not repeat its event {stored.seq} ({stored.kind}). Its "
        "noise may have been drawn twice, so it was stopped. Start the run again."
    )


if __name__ == "__main__":
    leave(main(sys.argv[1:]))

"""One run by several processes, as ``torchrun`` starts them: who reads, writes, tells.

Rank 0 reads the settings and writes the files.  The first rank that fails says why, and
``torchrun`` ends the others, which say nothing.
"""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from dpsgd_explorer.errors import ConfigError, ExplorerError

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup
    from torch.distributed.distributed_c10d import Store

T = TypeVar("T")
#: Set by ``torchrun`` for each process.
VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
PATIENCE = timedelta(minutes=10)
PATIENCE_TO_TELL = timedelta(seconds=10)
#: Before a message of torch's backends, such as "[/src/pair.cc:537] ".
SOURCE_PLACE = re.compile(r"^\[[^]]*:\d+\] ?")
AGAIN = "Start all ranks again, with the same --checkpoint if you used one."
FAILED, TOLD = "dpsgd_explorer/failed", "dpsgd_explorer/told"


class SilentError(Exception):
    """Ends a rank after the first one to fail has printed why."""


class TerminatedError(BaseException):
    """The process got SIGTERM."""


class Alone:
    """The only process of a run."""

    writes = True
    group: ProcessGroup | None = None

    def read(self, read: Callable[[], T]) -> T:
        """Return what rank 0 reads."""
        return read()


class Rank(Alone):
    """One of several processes.

    Args:
        group: All of them.
        rank: Number of this one.

    Attributes:
        group: The processes, for ``PrivacyEngine``; None alone.
        writes: Whether this process prints, and writes files.
    """

    def __init__(self, group: ProcessGroup | None, rank: int) -> None:
        self.group, self.writes = group, rank == 0

    def read(self, read: Callable[[], T]) -> T:
        """Return what rank 0 reads: standard input is one for all of them.

        Raises:
            SilentError: rank 0 could not.
        """
        import torch.distributed as dist

        found: list[Any] = [None, False]
        try:
            if self.writes:
                found = [read(), True]
        finally:
            dist.broadcast_object_list(found, src=0)
        if not found[1]:
            raise SilentError
        value: T = found[0]
        return value


@contextmanager
def together() -> Iterator[Alone]:
    """Join the processes that ``torchrun`` started, if it has.

    Raises:
        SilentError: a rank has failed, and the first one has printed why.
    """
    if not all(name in os.environ for name in VARIABLES):
        yield Alone()
        return
    import torch.distributed as dist
    from torch.distributed.rendezvous import rendezvous

    store, rank, size = next(iter(rendezvous("env://", timeout=PATIENCE)))
    dist.init_process_group(
        "gloo", store=store, rank=rank, world_size=size, timeout=PATIENCE
    )
    signal.signal(signal.SIGTERM, _terminated)
    try:
        with _told(store, rank):
            yield Rank(dist.group.WORLD, rank)
    except TerminatedError as error:
        _tell(store, f"rank {rank}: stopped by SIGTERM. {AGAIN}")
        raise SilentError from error
    dist.barrier()
    dist.destroy_process_group()


@contextmanager
def _told(store: Store, rank: int) -> Iterator[None]:
    """Tell of an error, and raise SilentError for it."""
    try:
        yield
    except ExplorerError as error:
        _tell(store, f"rank {rank}: {error}")
        raise SilentError from error
    except RuntimeError as error:
        reason = _first_sentence(str(error))
        _tell(
            store,
            f"rank {rank}: another rank does not answer, so the run stops ({reason}). "
            + AGAIN,
        )
        raise SilentError from error
    except SilentError:
        store.wait([TOLD], PATIENCE_TO_TELL)
        raise


def _terminated(number: int, frame: object) -> None:
    """Raise TerminatedError; ``torchrun`` ends the ranks so when one has died."""
    raise TerminatedError


def _first_sentence(text: str) -> str:
    """Return what torch says first, without its place in torch's own source."""
    line = next(iter(text.splitlines()), "")
    return SOURCE_PLACE.sub("", line).partition(". ")[0]


def _tell(store: Store, message: str) -> None:
    """Print why the run ends, unless another rank does.

    A rank that ends has the others ended, so each waits for the message.
    """
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with suppress(RuntimeError):  # whoever started the ranks is gone
        if store.add(FAILED, 1) > 1:
            store.wait([TOLD], PATIENCE_TO_TELL)
            return
    print(f"train: {message}", file=sys.stderr, flush=True)
    with suppress(RuntimeError):
        store.set(TOLD, "")


def refuse_group(kind: str, private: bool) -> None:
    """Raise ConfigError for a run that several processes cannot share."""
    if kind != "training" or not private:
        name, value = ("kind", kind) if kind != "training" else ("private", private)
        raise ConfigError(
            name,
            f"{name} must be {'training' if name == 'kind' else True} under torchrun, "
            f"got {value}: only private training can use several processes. Start a "
            "single process: python -m dpsgd_explorer train.",
        )

"""One run in several processes that ``torchrun`` has started.

Rank 0 reads the settings and writes the files.  The first rank that fails prints the
reason.  ``torchrun`` then ends the other ranks, which print nothing.
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
from dpsgd_explorer.experiments.kinds import as_training

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup
    from torch.distributed.distributed_c10d import Store

    from dpsgd_explorer.experiments.config import RunConfig

T = TypeVar("T")
#: Environment variables that ``torchrun`` sets for each process.
VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
#: Time after which a rank gives up waiting for another rank.
RANK_TIMEOUT = timedelta(minutes=10)
#: Time that a failed rank waits until the first failed rank has printed its reason.
MESSAGE_TIMEOUT = timedelta(seconds=10)
#: Prefix of messages of torch's backends, such as "[/src/pair.cc:537] ".
SOURCE_LOCATION = re.compile(r"^\[[^]]*:\d+\] ?")
RESTART_REMEDY = "Start all ranks again, with the same --checkpoint if you used one."
#: Keys of the ranks' store: number of failed ranks; set once the reason is printed.
FAILED_KEY, PRINTED_KEY = "dpsgd_explorer/failed", "dpsgd_explorer/told"


class SilentError(Exception):
    """Ends a rank without a message; the first failed rank has printed the reason."""


class TerminatedError(BaseException):
    """Raised when the process receives SIGTERM."""


class Alone:
    """The only process of a run.

    Attributes:
        writes: True, because this process prints and writes files.
        group: None.
    """

    writes = True
    group: ProcessGroup | None = None

    def read(self, read: Callable[[], T]) -> T:
        """Returns the result of ``read``."""
        return read()


class Rank(Alone):
    """One of several processes of a run.

    Args:
        group: Process group of the run.
        rank: Rank of this process.

    Attributes:
        writes: True for rank 0, which prints and writes files.
        group: Process group, for ``PrivacyEngine``.
    """

    def __init__(self, group: ProcessGroup | None, rank: int) -> None:
        self.group, self.writes = group, rank == 0

    def read(self, read: Callable[[], T]) -> T:
        """Returns the result of ``read`` on rank 0, on every rank.

        Only rank 0 reads, because the ranks share one standard input.

        Raises:
            SilentError: reading failed on rank 0.
        """
        import torch.distributed as dist

        message: list[Any] = [None, False]  # value; True if rank 0 could read it
        try:
            if self.writes:
                message = [read(), True]
        finally:
            dist.broadcast_object_list(message, src=0)
        if not message[1]:
            raise SilentError
        value: T = message[0]
        return value


@contextmanager
def together() -> Iterator[Alone]:
    """Joins the process group if ``torchrun`` started this process.

    Raises:
        SilentError: a rank has failed, and the first failed rank has printed the
            reason.
    """
    if not all(name in os.environ for name in VARIABLES):
        yield Alone()
        return
    import torch.distributed as dist
    from torch.distributed.rendezvous import rendezvous

    store, rank, size = next(iter(rendezvous("env://", timeout=RANK_TIMEOUT)))
    dist.init_process_group(
        "gloo", store=store, rank=rank, world_size=size, timeout=RANK_TIMEOUT
    )
    signal.signal(signal.SIGTERM, _terminated)
    try:
        with _reported(store, rank):
            yield Rank(dist.group.WORLD, rank)
    except TerminatedError as error:
        _report(store, f"rank {rank}: stopped by SIGTERM. {RESTART_REMEDY}")
        raise SilentError from error
    dist.barrier()
    dist.destroy_process_group()


@contextmanager
def _reported(store: Store, rank: int) -> Iterator[None]:
    """Prints an error that is raised within the context, and raises SilentError."""
    try:
        yield
    except ExplorerError as error:
        _report(store, f"rank {rank}: {error}")
        raise SilentError from error
    except RuntimeError as error:
        reason = _first_sentence(str(error))
        _report(
            store,
            f"rank {rank}: another rank does not answer, so the run stops ({reason}). "
            + RESTART_REMEDY,
        )
        raise SilentError from error
    except SilentError:
        store.wait([PRINTED_KEY], MESSAGE_TIMEOUT)
        raise


def _terminated(number: int, frame: object) -> None:
    """Raises TerminatedError; ``torchrun`` sends SIGTERM when a rank has died."""
    raise TerminatedError


def _first_sentence(text: str) -> str:
    """Returns the first sentence of torch's message, without its source location."""
    line = next(iter(text.splitlines()), "")
    return SOURCE_LOCATION.sub("", line).partition(". ")[0]


def _report(store: Store, message: str) -> None:
    """Prints the reason why the run ends, unless another rank prints one.

    When a rank exits, ``torchrun`` ends the others, so each rank waits for the message.
    """
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    # The store raises RuntimeError if ``torchrun`` has ended.
    with suppress(RuntimeError):
        if store.add(FAILED_KEY, 1) > 1:
            store.wait([PRINTED_KEY], MESSAGE_TIMEOUT)
            return
    print(f"train: {message}", file=sys.stderr, flush=True)
    with suppress(RuntimeError):
        store.set(PRINTED_KEY, "")


def check_group(config: RunConfig, device: str) -> None:
    """Raises ConfigError for a run that several processes cannot share."""
    if device != "cpu":
        raise ConfigError(
            "DPSGD_DEVICE",
            f"DPSGD_DEVICE must be cpu under torchrun, got {device}: several processes "
            "train one model on CPUs only. Set DPSGD_DEVICE=cpu, or start a single "
            "process: python -m dpsgd_explorer train.",
        )
    training = as_training(config)
    if training is None or not training.private:
        name, value = ("kind", config.kind) if training is None else ("private", False)
        raise ConfigError(
            name,
            f"{name} must be {'training' if name == 'kind' else True} under torchrun, "
            f"got {value}: only private training can use several processes. Start a "
            "single process: python -m dpsgd_explorer train.",
        )

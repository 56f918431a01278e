"""The processes that train one model together, and the messages among them.

Each sample of a batch is on one rank, which computes its gradient norm and clipping
factor without the other ranks.  The ranks then exchange clipped sums: each rank
receives one slice, summed over all ranks, adds noise to the slice, and sends it to the
other ranks.  Together the W ranks draw the noise of a step once, in parallel.

The network between the ranks must be trusted.  Messages contain clipped sums before
noise, the secret key of the sampler, and values that all ranks must agree on.

Each method that communicates is collective: all ranks call it, in the same order.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from dpsgd_explorer.errors import ConfigError, PrivacyError
from dpsgd_explorer.privacy_warning import warn

#: (``isend`` or ``irecv``, tensor, rank of the receiver or sender).
Message = tuple[Callable[..., Any], Tensor, int]


class Ranks:
    """The ranks of a process group, or this process alone.

    Args:
        group: Process group; None for this process alone.

    Attributes:
        rank: Rank of this process in the group, 0 to W - 1.
        size: Number of processes, W.
        is_alone: True if W is 1.
    """

    def __init__(self, group: dist.ProcessGroup | None = None) -> None:
        self._group = group
        self._process = os.getpid()
        self.rank, self.size = 0, 1
        if group is not None:
            self.rank, self.size = dist.get_rank(group), dist.get_world_size(group)
        self.is_alone = self.size == 1

    @classmethod
    def of(cls, group: object) -> Ranks:
        """Returns the ranks of a process group of ``torch.distributed``.

        Raises:
            ConfigError: ``torch.distributed`` is not initialized, or ``group`` is not a
                process group that contains this process.
        """
        if not dist.is_available() or not dist.is_initialized():
            raise ConfigError(
                "group",
                "group must be a group of torch.distributed, but torch.distributed is "
                "not initialized. Call torch.distributed.init_process_group first.",
            )
        if not isinstance(group, dist.ProcessGroup):
            raise ConfigError(
                "group",
                "group must be a group of torch.distributed that contains this "
                f"process, such as dist.group.WORLD, got {group!r}.",
            )
        return cls(group)

    def __repr__(self) -> str:
        """Returns text that documents the default of ``PrivacyEngine(group=...)``."""
        return "ALONE" if self._group is None else f"<rank {self.rank} of {self.size}>"

    @property
    def members(self) -> list[int]:
        """Global ranks of the processes, in the order of their ranks in the group."""
        if self._group is None:
            return [0]
        return list(dist.get_process_group_ranks(self._group))

    def share_of(self, indices: Tensor) -> Tensor:
        """Returns this rank's records of a batch that all ranks have drawn.

        Shapes: [n] -> [n / W], rounded up or down.
        """
        return indices[self.rank :: self.size]

    def padded(self, size: int) -> int:
        """Returns ``size`` rounded up to a multiple of W."""
        return -(-size // self.size) * self.size

    def slice_of(self, flat: Tensor, size: int) -> Tensor:
        """Returns the slice that gets noise from this rank, without the padding.

        Args:
            flat: Padded buffer, [padded(size)].
            size: Number of entries before the padding.
        """
        length = len(flat) // self.size
        start = min(size, self.rank * length)
        return flat[start : min(size, start + length)]

    def add_up(self, flat: Tensor) -> None:
        """Replaces this rank's slice of a padded buffer by its sum over the ranks.

        The other slices are undefined afterwards.
        """
        if self.is_alone:
            return
        slices = flat.chunk(self.size)
        local = slices[self.rank]
        if flat.device.type != "cpu":
            total = torch.empty_like(local)
            dist.reduce_scatter_single(total, flat, group=self._live_group)
            local.copy_(total)
            return
        received = torch.empty_like(local)
        for receiver, sender in self._partners():
            self._exchange(
                [
                    (dist.isend, slices[receiver], receiver),
                    (dist.irecv, received, sender),
                ]
            )
            local.add_(received)

    def gather(self, flat: Tensor) -> None:
        """Replaces each other rank's slice of a padded buffer by that rank's values."""
        if self.is_alone:
            return
        slices = flat.chunk(self.size)
        local = slices[self.rank]
        if flat.device.type != "cpu":
            dist.all_gather_single(flat, local.clone(), group=self._live_group)
            return
        messages: list[Message] = []
        for receiver, sender in self._partners():
            messages += [
                (dist.isend, local, receiver),
                (dist.irecv, slices[sender], sender),
            ]
        self._exchange(messages)

    def _exchange(self, messages: Sequence[Message]) -> None:
        """Sends and receives the messages, and waits until all have arrived."""
        requests = dist.batch_isend_irecv(
            [
                dist.P2POp(kind, tensor, group=self._live_group, group_peer=rank)
                for kind, tensor, rank in messages
            ]
        )
        for request in requests:
            request.wait()

    def _partners(self) -> Iterator[tuple[int, int]]:
        """Yields (receiver, sender) of each round, so that each pair of ranks meets.

        On CPUs the ranks exchange slices directly.  Gloo's collectives take two to
        three times as long, because they first sum or copy the whole buffer.
        """
        for distance in range(1, self.size):
            yield (
                (self.rank + distance) % self.size,
                (self.rank - distance) % self.size,
            )

    def total(self, *values: float) -> tuple[float, ...]:
        """Returns the sum of each value over the ranks, computed in float64."""
        if self.is_alone:
            return values
        sums = torch.tensor(values, dtype=torch.float64, device=self._device)
        dist.all_reduce(sums, group=self._live_group)
        return tuple(sums.tolist())

    def largest(self, value: int) -> int:
        """Returns the largest of the ranks' values."""
        if self.is_alone:
            return value
        maximum = torch.tensor(value, dtype=torch.int64, device=self._device)
        dist.all_reduce(maximum, dist.ReduceOp.MAX, group=self._live_group)
        return int(maximum)

    def broadcast(self, *values: float) -> tuple[float, ...]:
        """Returns rank 0's values."""
        if self.is_alone:
            return values
        first = torch.tensor(values, dtype=torch.float64, device=self._device)
        dist.broadcast(first, group_src=0, group=self._live_group)
        return tuple(first.tolist())

    def broadcast_secret(self, secret: bytes) -> bytes:
        """Returns rank 0's ``secret``, on every rank.

        Raises:
            PrivacyError: this process was forked from a process of the group.
        """
        if self.is_alone:
            return secret
        if os.getpid() != self._process:
            raise PrivacyError(
                "a forked process cannot draw the batches of a group of processes. "
                "Iterate over poisson_loader in the process that created the engine."
            )
        first = torch.tensor(list(secret), dtype=torch.uint8, device=self._device)
        dist.broadcast(first, group_src=0, group=self._live_group)
        return bytes(first.tolist())

    def require_equal(self, values: Mapping[str, Any]) -> None:
        """Checks that all ranks pass equal values.

        Args:
            values: {name: value that can be pickled and compared}.

        Raises:
            ConfigError: a value differs; the message names the first such value, and
                lists it for each rank.
        """
        if self.is_alone:
            return
        gathered: list[Any] = [None] * self.size
        dist.all_gather_object(gathered, dict(values), group=self._live_group)
        for name in dict.fromkeys(name for of_rank in gathered for name in of_rank):
            rank_values = [of_rank.get(name) for of_rank in gathered]
            if any(value != rank_values[0] for value in rank_values):
                raise ConfigError(
                    name,
                    f"{name} must be the same on every rank of the group, got "
                    f"{_listed(rank_values)}.",
                )

    def begin_step(
        self, step: int, batch_code: int, fingerprint: int, *counts: int
    ) -> tuple[int, ...]:
        """Checks that all ranks are at one step, with one batch and equal parameters.

        Args:
            step: Number of steps done before.
            batch_code: Fingerprint of the batch that all ranks share; int64.
            fingerprint: Fingerprint of the parameters, int64; 0 at steps that do not
                compare them.
            counts: Counts over this rank's samples, such as their number.

        Returns:
            The sum of each count over the ranks.

        Raises:
            PrivacyError: the step, the batch or the parameters differ among ranks.
        """
        if self.is_alone:
            return counts
        values = [step, batch_code, fingerprint, *counts]
        message = torch.tensor(values, dtype=torch.int64, device=self._device)
        gathered = message.new_empty(self.size * len(values))
        dist.all_gather_single(gathered, message, group=self._live_group)
        steps, batches, fingerprints, *all_counts = gathered.view(
            self.size, -1
        ).T.tolist()
        if len(set(steps)) > 1:
            raise PrivacyError(
                "all ranks of the group must do every step, also with an empty batch; "
                f"they have done {_listed(steps)} steps. Restart all ranks from one "
                "saved state."
            )
        if len(set(batches)) > 1:
            raise PrivacyError(
                f"the ranks of the group draw different batches at step {step + 1}: "
                "their samplers are out of step. Iterate over poisson_loader in the "
                "same way on every rank, and load one saved state on all of them."
            )
        if len(set(fingerprints)) > 1:
            raise PrivacyError(
                f"the ranks' parameters differ before step {step + 1}: something other "
                "than the engine's gradients changed them. Use the same optimizer and "
                "learning rate on every rank, and make every other change of "
                "parameters on all of them."
            )
        return tuple(sum(rank_counts) for rank_counts in all_counts)

    @property
    def devices(self) -> frozenset[str]:
        """Device types that the group's backend supports, such as ``"cuda"``."""
        pairs = dist.get_backend_config(self._live_group).split(",")
        return frozenset(pair.partition(":")[0] for pair in pairs)

    @property
    def _device(self) -> torch.device:
        """Device of small messages: the CPU if the backend supports it."""
        devices = self.devices
        return torch.device("cpu" if "cpu" in devices else min(devices))

    @property
    def _live_group(self) -> dist.ProcessGroup | None:
        """The process group.

        Raises:
            PrivacyError: the group has been destroyed.
        """
        try:
            dist.get_process_group_ranks(self._group)
        except (KeyError, ValueError):
            raise PrivacyError(
                f"the process group of this engine ({self.size} processes) has ended, "
                "and an engine cannot change its group while it trains. Save the model "
                "and engine.state_dict(), create a PrivacyEngine with the new group, "
                "and load both there."
            ) from None
        return self._group


#: The single process of a run without a group.
ALONE = Ranks()


def warn_without_group() -> None:
    """Warns if this process belongs to a group, but trains without the others."""
    if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
        warn(
            f"this process is one of {dist.get_world_size()}, and it trains without "
            "the others: each process has separate batches, noise and epsilon. Anyone "
            "who sees several of the models learns more than a single epsilon allows. "
            "Pass PrivacyEngine(..., group=dist.group.WORLD) to train one model."
        )


def _listed(values: Sequence[Any]) -> str:
    """Returns each rank's value, as "0: 3, 1: 4"."""
    return ", ".join(f"{rank}: {value!r}" for rank, value in enumerate(values))

"""The processes that train one model together, and all that they say to each other.

A record of a batch lives on one rank, which sees every layer's inputs and output
gradients.  Its norm and its clipping factor are therefore local, and what crosses the
group is the clipped sum: each rank receives the sum over all ranks of one slice, adds
noise to that slice alone, and hands it to the others.  The noise of a step is so drawn
once, after the sum, by W ranks in parallel.

Everything that ranks hand over is a value that they would all compute, a clipped sum
before its noise, or the key of the batches: the network between the ranks is trusted.

Each method is collective: all ranks call it, in the same order.
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

#: ``isend`` or ``irecv``, the tensor, and the rank that it goes to or comes from.
Message = tuple[Callable[..., Any], Tensor, int]


class Ranks:
    """The ranks of a group; of one process without a group.

    Attributes:
        rank: Number of this process, 0 to size - 1.
        size: Number of processes, W.
        is_alone: Whether there is no other rank.
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
        """Return the ranks of a group of ``torch.distributed``.

        Raises:
            ConfigError: it is none: nothing is initialised, or this process is not in
                the group.
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
        """Return what is shown as the default of ``PrivacyEngine(group=...)``."""
        return "ALONE" if self._group is None else f"<rank {self.rank} of {self.size}>"

    @property
    def members(self) -> list[int]:
        """Numbers of the processes, in the order of their ranks in the group."""
        if self._group is None:
            return [0]
        return list(dist.get_process_group_ranks(self._group))

    def share_of(self, indices: Tensor) -> Tensor:
        """Return this rank's records of a batch that all ranks have drawn.

        Shapes: [n] to about [n / W]; sizes differ by one at most.
        """
        return indices[self.rank :: self.size]

    def padded(self, size: int) -> int:
        """Return the least multiple of W that holds ``size`` entries."""
        return -(-size // self.size) * self.size

    def slice_of(self, flat: Tensor, size: int) -> Tensor:
        """Return the slice whose noise is this rank's, without the padding.

        Args:
            flat: Buffer with padding, [padded(size)].
            size: Entries of it that are used.
        """
        length = len(flat) // self.size
        start = min(size, self.rank * length)
        return flat[start : min(size, start + length)]

    def add_up(self, flat: Tensor) -> None:
        """Replace this rank's slice of a padded buffer by its sum over the ranks.

        The other slices are undefined afterwards.
        """
        if self.is_alone:
            return
        slices = flat.chunk(self.size)
        own = slices[self.rank]
        if flat.device.type != "cpu":
            total = torch.empty_like(own)
            dist.reduce_scatter_single(total, flat, group=self._live_group)
            own.copy_(total)
            return
        received = torch.empty_like(own)
        for to, sender in self._partners():
            self._exchange(
                [(dist.isend, slices[to], to), (dist.irecv, received, sender)]
            )
            own.add_(received)

    def gather(self, flat: Tensor) -> None:
        """Replace the slices of a padded buffer by those of their ranks."""
        if self.is_alone:
            return
        slices = flat.chunk(self.size)
        own = slices[self.rank]
        if flat.device.type != "cpu":
            dist.all_gather_single(flat, own.clone(), group=self._live_group)
            return
        messages: list[Message] = []
        for to, sender in self._partners():
            messages += [(dist.isend, own, to), (dist.irecv, slices[sender], sender)]
        self._exchange(messages)

    def _exchange(self, messages: Sequence[Message]) -> None:
        """Send and receive, and wait until all is done."""
        posted = dist.batch_isend_irecv(
            [
                dist.P2POp(kind, tensor, group=self._live_group, group_peer=rank)
                for kind, tensor, rank in messages
            ]
        )
        for work in posted:
            work.wait()

    def _partners(self) -> Iterator[tuple[int, int]]:
        """Yield whom to send to and whom to hear, round after round.

        Between CPUs the ranks send each other slices themselves: gloo's collectives
        take two to three times as long, for they first sum or copy the whole buffer.
        """
        for distance in range(1, self.size):
            yield (
                (self.rank + distance) % self.size,
                (self.rank - distance) % self.size,
            )

    def total(self, *values: float) -> tuple[float, ...]:
        """Return the sum over the ranks of each value; whole numbers stay exact."""
        if self.is_alone:
            return values
        sums = torch.tensor(values, dtype=torch.float64, device=self._device)
        dist.all_reduce(sums, group=self._live_group)
        return tuple(sums.tolist())

    def largest(self, value: int) -> int:
        """Return the largest of the ranks' values."""
        if self.is_alone:
            return value
        most = torch.tensor(value, dtype=torch.int64, device=self._device)
        dist.all_reduce(most, dist.ReduceOp.MAX, group=self._live_group)
        return int(most)

    def from_first(self, *values: float) -> tuple[float, ...]:
        """Return rank 0's values."""
        if self.is_alone:
            return values
        first = torch.tensor(values, dtype=torch.float64, device=self._device)
        dist.broadcast(first, group_src=0, group=self._live_group)
        return tuple(first.tolist())

    def secret(self, secret: bytes) -> bytes:
        """Return rank 0's bytes, unpredictable for whoever is not in the group.

        Raises:
            PrivacyError: this is a child of a rank's process, which has no rank.
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

    def require_same(self, values: Mapping[str, Any]) -> None:
        """Check that all ranks pass the same values.

        Args:
            values: {name: any value that can be pickled and compared}.

        Raises:
            ConfigError: names the first that differs, with each rank's value.
        """
        if self.is_alone:
            return
        of_ranks: list[Any] = [None] * self.size
        dist.all_gather_object(of_ranks, dict(values), group=self._live_group)
        for name in dict.fromkeys(name for each in of_ranks for name in each):
            found = [each.get(name) for each in of_ranks]
            if any(value != found[0] for value in found):
                raise ConfigError(
                    name,
                    f"{name} must be the same on every rank of the group, got "
                    f"{_listed(found)}.",
                )

    def begin_step(
        self, step: int, batch_code: int, fingerprint: int, *counts: int
    ) -> tuple[int, ...]:
        """Check that all ranks make the same step, of one batch, from equal parameters.

        Args:
            step: Number of steps made before.
            batch_code: Of the whole batch that the ranks share; int64.
            fingerprint: Of the parameters, int64; 0 where it is not compared.
            counts: Of this rank's part of the batch.

        Returns:
            The sums of the counts over the ranks.

        Raises:
            PrivacyError: they do not.
        """
        if self.is_alone:
            return counts
        told = [step, batch_code, fingerprint, *counts]
        own = torch.tensor(told, dtype=torch.int64, device=self._device)
        found = own.new_empty(self.size * len(own))
        dist.all_gather_single(found, own, group=self._live_group)
        steps, batches, fingerprints, *of_ranks = found.view(self.size, -1).T.tolist()
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
        return tuple(sum(counts) for counts in of_ranks)

    @property
    def devices(self) -> frozenset[str]:
        """Types of the devices whose tensors the group's backend adds up."""
        pairs = dist.get_backend_config(self._live_group).split(",")
        return frozenset(pair.partition(":")[0] for pair in pairs)

    @property
    def _device(self) -> torch.device:
        """Where small messages lie."""
        devices = self.devices
        return torch.device("cpu" if "cpu" in devices else min(devices))

    @property
    def _live_group(self) -> dist.ProcessGroup | None:
        """The group; PrivacyError if it has ended, perhaps for one of another size."""
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


#: One process.
ALONE = Ranks()


def warn_without_group() -> None:
    """Warn where processes of a group are about to train without each other."""
    if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
        warn(
            f"this process is one of {dist.get_world_size()}, and it trains without "
            "the others: each process has separate batches, noise and epsilon. Anyone "
            "who sees several of the models learns more than a single epsilon allows. "
            "Pass PrivacyEngine(..., group=dist.group.WORLD) to train one model."
        )


def _listed(found: Sequence[Any]) -> str:
    """Return each rank's value, as "0: 3, 1: 4"."""
    return ", ".join(f"{rank}: {value!r}" for rank, value in enumerate(found))

"""Float32 products in full precision, whatever torch's settings allow.

``torch.set_float32_matmul_precision`` and its kin let products of float32 numbers be
made of their first 8 or 11 bits (bfloat16, TF32; the latter is torch's own default for
convolutions on CUDA).  So does ``torch.autocast``, where backward is called inside it
or a first batch is checked there.  The bounds of ``backends.rounding`` are those of 24
bits, so norms and clipped sums are computed with that permission withdrawn.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import cache
from typing import Any

import torch

#: Types of devices that autocast is enabled for, each by itself.
AUTOCAST = ("cpu", "cuda")
#: Settings under which products are in float32; "none" is torch's default.
EXACT = ("ieee", "none")
_AS_IT_IS = nullcontext()


class Verified:
    """Whether the permission was measured to change nothing on this processor.

    ``training.cpu.kernels`` sets it while it uses oneDNN's products, after its probe.
    """

    products = False


class Withdrawal:
    """The permission, withdrawn for as long as any thread needs that.

    The settings are those of the whole process.  Whoever leaves last restores them: a
    thread that restored its own would give the permission back to all others.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._lowered: list[tuple[Any, str]] = []

    def is_needed(self, backends: Sequence[Any]) -> bool:
        """Return False if nothing is permitted, in this thread and by the process."""
        with self._lock:
            if self._users:
                return True
            for backend in backends:
                if backend.fp32_precision not in EXACT:
                    return True
        return any(map(torch.is_autocast_enabled, AUTOCAST))

    def begin(self, backends: Sequence[Any]) -> None:
        """Withdraw the permission, until ``end`` was called as often."""
        with self._lock:
            self._users += 1
            for backend in backends:
                if backend.fp32_precision not in EXACT:
                    self._lowered.append((backend, backend.fp32_precision))
                    backend.fp32_precision = "ieee"

    def end(self) -> None:
        """Give the permission back, if no other thread needs it withdrawn."""
        with self._lock:
            self._users -= 1
            if self._users == 0:
                for backend, before in self._lowered:
                    backend.fp32_precision = before
                self._lowered = []


WITHDRAWAL = Withdrawal()


def full_precision() -> AbstractContextManager[None]:
    """Compute products of float32 numbers in float32 inside the context."""
    backends = _backends(Verified.products)
    return _withdrawn(backends) if WITHDRAWAL.is_needed(backends) else _AS_IT_IS


@contextmanager
def _withdrawn(backends: Sequence[Any]) -> Iterator[None]:
    """Withdraw the permission of those that have it inside the context."""
    WITHDRAWAL.begin(backends)
    try:
        with ExitStack() as autocasts:
            for device in AUTOCAST:
                if torch.is_autocast_enabled(device):
                    autocasts.enter_context(torch.autocast(device, enabled=False))
            yield
    finally:
        WITHDRAWAL.end()


@cache
def _backends(verified: bool) -> tuple[Any, ...]:
    """Return the settings to be withdrawn; their values are read anew each time."""
    backends: list[Any] = [torch.backends.mkldnn.conv]  # type: ignore[attr-defined]
    if not verified:
        backends.append(torch.backends.mkldnn.matmul)  # type: ignore[attr-defined]
    if torch.backends.cuda.is_built():  # type: ignore[no-untyped-call]
        backends += [torch.backends.cuda.matmul, torch.backends.cudnn.conv]  # type: ignore[attr-defined]
    return tuple(backends)

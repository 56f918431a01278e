"""Products of float32 numbers in float32, although torch's settings allow less.

``torch.set_float32_matmul_precision`` and related settings let a product of float32
numbers round them to 8 or 11 bits (bfloat16, TF32).  TF32 is torch's default for
convolutions on CUDA.  ``torch.autocast`` also lowers the precision, if backward is
called inside it or a first batch is checked there.  The bounds of ``backends.rounding``
assume 24 bits, so norms and clipped sums are computed with these settings overridden.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import cache
from typing import Any

import torch

#: Types of devices for which autocast may be enabled.
AUTOCAST_DEVICES = ("cpu", "cuda")
#: Values of a setting that keep float32 products in float32; "none" is the default.
FLOAT32_SETTINGS = ("ieee", "none")
_NO_OVERRIDE = nullcontext()


class Verified:
    """Settings that were measured to change no result on this processor.

    Attributes:
        products: If True, the setting for oneDNN's matrix products is not overridden.
            ``training.cpu.kernels`` sets it while it uses these products, after a
            measurement.
    """

    products = False


class Override:
    """Full precision for the whole process, while at least one thread needs it.

    The settings are global.  The last thread that ends its override restores them: if
    each thread restored them, others would continue in lower precision.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._overridden: list[tuple[Any, str]] = []

    def is_needed(self, backends: Sequence[Any]) -> bool:
        """Returns False if neither the process nor this thread allows less precision.

        Args:
            backends: torch's settings.
        """
        with self._lock:
            if self._users:
                return True
            for backend in backends:
                if backend.fp32_precision not in FLOAT32_SETTINGS:
                    return True
        return any(map(torch.is_autocast_enabled, AUTOCAST_DEVICES))

    def begin(self, backends: Sequence[Any]) -> None:
        """Overrides the settings until each ``begin`` has had its ``end``."""
        with self._lock:
            self._users += 1
            for backend in backends:
                if backend.fp32_precision not in FLOAT32_SETTINGS:
                    self._overridden.append((backend, backend.fp32_precision))
                    backend.fp32_precision = "ieee"

    def end(self) -> None:
        """Restores the settings if no other thread needs full precision."""
        with self._lock:
            self._users -= 1
            if self._users == 0:
                for backend, before in self._overridden:
                    backend.fp32_precision = before
                self._overridden = []


#: The override of this process.
OVERRIDE = Override()


def full_precision() -> AbstractContextManager[None]:
    """Computes products of float32 numbers in float32 inside the context."""
    backends = _settings(Verified.products)
    return _overridden(backends) if OVERRIDE.is_needed(backends) else _NO_OVERRIDE


@contextmanager
def _overridden(backends: Sequence[Any]) -> Iterator[None]:
    """Overrides these settings, and disables autocast, inside the context."""
    OVERRIDE.begin(backends)
    try:
        with ExitStack() as autocasts:
            for device in AUTOCAST_DEVICES:
                if torch.is_autocast_enabled(device):
                    autocasts.enter_context(torch.autocast(device, enabled=False))
            yield
    finally:
        OVERRIDE.end()


@cache
def _settings(verified: bool) -> tuple[Any, ...]:
    """Returns torch's objects whose attribute ``fp32_precision`` is overridden.

    Args:
        verified: If True, oneDNN's matrix products are left out; see ``Verified``.
    """
    backends: list[Any] = [torch.backends.mkldnn.conv]  # type: ignore[attr-defined]
    if not verified:
        backends.append(torch.backends.mkldnn.matmul)  # type: ignore[attr-defined]
    if torch.backends.cuda.is_built():  # type: ignore[no-untyped-call]
        backends += [torch.backends.cuda.matmul, torch.backends.cudnn.conv]  # type: ignore[attr-defined]
    return tuple(backends)

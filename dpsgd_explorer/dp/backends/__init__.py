"""How a step computes on this machine: one backend for each type of device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from torch import Tensor

from dpsgd_explorer.dp.backends.asynchronous import AsyncBackend
from dpsgd_explorer.dp.backends.heap import HEAP, KEPT
from dpsgd_explorer.dp.backends.native.backend import NativeBackend
from dpsgd_explorer.dp.backends.native.memory_pool import POOL
from dpsgd_explorer.dp.backends.torch import TorchBackend
from dpsgd_explorer.dp.backends.triton.backend import TritonBackend
from dpsgd_explorer.dp.backends.triton.rows import installed

_BACKENDS: dict[str, TorchBackend] = {"cpu": NativeBackend()}


def backend_of(values: Tensor) -> TorchBackend:
    """Return the backend of the device that a tensor is on."""
    # A tensor's flag is read in a third of the time that its device takes.
    return backend_on("cpu" if values.is_cpu else values.device.type)


def backend_on(kind: str) -> TorchBackend:
    """Return the backend of a type of device, such as "cpu" or "cuda"."""
    backend = _BACKENDS.get(kind)
    return _new_backend(kind) if backend is None else backend


@contextmanager
def using(backend: TorchBackend, device: str = "cpu") -> Iterator[TorchBackend]:
    """Compute with another backend on a type of device, inside the context.

    It holds for all threads of the process.  Contexts may be nested, not overlap.

    Example:
        >>> import torch
        >>> with using(TorchBackend()):  # without compiled loops
        ...     backend_of(torch.empty(3))
        TorchBackend()
    """
    before = _BACKENDS.get(device)
    _BACKENDS[device] = backend
    try:
        yield backend
    finally:
        if before is None:
            del _BACKENDS[device]
        else:
            _BACKENDS[device] = before


def keep_memory() -> Callable[[], None]:
    """Let the C library keep freed memory until the returned function is called."""
    return HEAP.ask(KEPT)


def release_memory() -> None:
    """Give the memory of earlier passes back to the system."""
    POOL.release()
    HEAP.trim()


def _new_backend(kind: str) -> TorchBackend:
    """Return the backend of a type of device that is met for the first time."""
    if kind != "cuda":
        made = TorchBackend()
    else:
        made = TritonBackend() if installed() else AsyncBackend()
    return _BACKENDS.setdefault(kind, made)

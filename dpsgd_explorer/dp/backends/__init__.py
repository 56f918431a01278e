"""Backends: the tensor operations of a private step, one backend per type of device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from torch import Tensor

from dpsgd_explorer.dp.backends.asynchronous import AsyncBackend
from dpsgd_explorer.dp.backends.heap import HEAP, KEEP_FREED
from dpsgd_explorer.dp.backends.native.backend import NativeBackend
from dpsgd_explorer.dp.backends.native.memory_pool import POOL
from dpsgd_explorer.dp.backends.torch import TorchBackend
from dpsgd_explorer.dp.backends.triton.backend import TritonBackend
from dpsgd_explorer.dp.backends.triton.rows import is_installed


class _Backends(dict[str, TorchBackend]):
    """Backends by type of device; creates and stores a missing backend."""

    def __missing__(self, device_type: str) -> TorchBackend:
        if device_type != "cuda":
            backend = TorchBackend()
        else:
            backend = TritonBackend() if is_installed() else AsyncBackend()
        return self.setdefault(device_type, backend)


_BACKENDS = _Backends(cpu=NativeBackend())


def backend_of(values: Tensor) -> TorchBackend:
    """Returns the backend of the device that holds a tensor."""
    # Reading ``is_cpu`` takes a third of the time of reading ``device``.
    return _BACKENDS["cpu" if values.is_cpu else values.device.type]


def backend_on(device_type: str) -> TorchBackend:
    """Returns the backend of a type of device, such as "cpu" or "cuda"."""
    return _BACKENDS[device_type]


@contextmanager
def using(backend: TorchBackend, device: str = "cpu") -> Iterator[TorchBackend]:
    """Replaces the backend of a type of device inside the context.

    The replacement applies to all threads of the process.  Contexts may be nested, but
    must not overlap in any other way.

    Args:
        backend: The replacement, which the context returns.
        device: Type of device, such as "cpu" or "cuda".

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
    """Makes the C library keep freed memory; returns a function that undoes this."""
    return HEAP.apply(KEEP_FREED)


def release_memory() -> None:
    """Returns cached memory of earlier passes to the system."""
    POOL.release()
    HEAP.trim()

"""Float32 products in full precision, whatever torch's settings allow.

``torch.set_float32_matmul_precision`` and its kin let products of float32 numbers be
made of their first 8 or 11 bits (bfloat16, TF32; the latter is torch's own default for
convolutions on CUDA).  So does ``torch.autocast``, where backward is called inside it
or a first batch is checked there.  The bounds of ``layers.round_off`` are those of 24
bits, so norms and clipped sums are computed with that permission withdrawn.
"""

from __future__ import annotations

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

    ``kernels.cpu`` sets it while it uses oneDNN's products, after its probe.
    """

    products = False


def full_precision() -> AbstractContextManager[None]:
    """Compute products of float32 numbers in float32 inside the context."""
    backends = _backends(Verified.products)
    for backend in backends:
        if backend.fp32_precision not in EXACT:
            return _withdrawn(backends)
    for device in AUTOCAST:
        if torch.is_autocast_enabled(device):
            return _withdrawn(backends)
    return _AS_IT_IS


@contextmanager
def _withdrawn(backends: Sequence[Any]) -> Iterator[None]:
    """Withdraw the permission of those that have it inside the context."""
    lowered = [
        (backend, backend.fp32_precision)
        for backend in backends
        if backend.fp32_precision not in EXACT
    ]
    for backend, _ in lowered:
        backend.fp32_precision = "ieee"
    try:
        with ExitStack() as autocasts:
            for device in AUTOCAST:
                if torch.is_autocast_enabled(device):
                    autocasts.enter_context(torch.autocast(device, enabled=False))
            yield
    finally:
        for backend, before in lowered:
            backend.fp32_precision = before


@cache
def _backends(verified: bool) -> tuple[Any, ...]:
    """Return the settings to be withdrawn; their values are read anew each time."""
    backends: list[Any] = [torch.backends.mkldnn.conv]  # type: ignore[attr-defined]
    if not verified:
        backends.append(torch.backends.mkldnn.matmul)  # type: ignore[attr-defined]
    if torch.backends.cuda.is_built():  # type: ignore[no-untyped-call]
        backends += [torch.backends.cuda.matmul, torch.backends.cudnn.conv]  # type: ignore[attr-defined]
    return tuple(backends)

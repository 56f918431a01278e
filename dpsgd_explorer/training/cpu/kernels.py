"""Faster and equally exact replacements of three of torch's operations on CPUs.

| replacement | condition | difference from torch |
|---|---|---|
| max pooling with stride 1 | modules ``nn.MaxPool2d`` | none |
| float32 products by oneDNN | a probe finds them faster and exact | rounding |
| malloc keeps freed memory, also large blocks | glibc | none |

The replacements are active only within the context ``in_use``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from statistics import median
from time import process_time
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from dpsgd_explorer.dp.backends.full_precision import Verified
from dpsgd_explorer.dp.backends.heap import HEAP, KEEP_LARGE
from dpsgd_explorer.dp.modules.forward_patch import ForwardPatch
from dpsgd_explorer.training.cpu.max_pool import max_pool

#: Minimum speed-up of a product for which oneDNN is chosen.  Smaller speed-ups may be
#: noise of the measurement.
MIN_SPEED_UP = 1.25
#: Maximum error of a float32 product, divided by its largest entry.  Products rounded
#: to bfloat16 have an error of about 1e-3.
MAX_ERROR_RATIO = 4e-6
#: Number of rows and columns of the probed matrices, similar to those of a layer.
PROBE_SIZE = 384
#: Number of repetitions of the probe.
PROBE_ROUNDS = 7


class Probe(NamedTuple):
    """The cost of a matrix product by torch's default and by oneDNN, on this processor.

    Attributes:
        stock_seconds: CPU time of torch's default.
        onednn_seconds: CPU time of oneDNN.
        onednn_error: Error of oneDNN, divided by the largest entry.
        has_tiles: True if the processor has matrix units that round to bfloat16.
    """

    stock_seconds: float
    onednn_seconds: float
    onednn_error: float
    has_tiles: bool

    @property
    def chooses_onednn(self) -> bool:
        """True if oneDNN is faster and computes in float32."""
        is_faster = self.onednn_seconds * MIN_SPEED_UP < self.stock_seconds
        is_exact = self.onednn_error <= MAX_ERROR_RATIO and not self.has_tiles
        return is_faster and is_exact


@contextmanager
def in_use(*modules: nn.Module, products: bool = True) -> Iterator[None]:
    """Uses the replacements within the context.

    Args:
        modules: Models whose ``nn.MaxPool2d`` submodules use the replacement.
        products: If True, products use oneDNN if the probe chooses it.  If False,
            results are bit-identical to torch's and do not depend on the probe.
    """
    with ExitStack() as undo:
        undo.enter_context(HEAP.applied(KEEP_LARGE))
        if products and probe().chooses_onednn:
            undo.enter_context(_onednn_products())
        for module in modules:
            for submodule in module.modules():
                if _pools_by_one(submodule):
                    undo.callback(ForwardPatch(submodule, _pooling(submodule)).remove)
        yield


@cache
def probe() -> Probe:
    """Measures a product by both methods, once per process."""
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randn(PROBE_SIZE, PROBE_SIZE, generator=generator) for _ in "ab")
    exact = a.double() @ b.double()
    tiles = torch.cpu._is_amx_tile_supported()
    stock: list[float] = []
    onednn: list[float] = []
    product = a @ b
    for _ in range(PROBE_ROUNDS):
        stock.append(_seconds(a, b))
        if not tiles:
            with _onednn_products():
                onednn.append(_seconds(a, b))
                product = a @ b
    error = float((product - exact).abs().max() / exact.abs().max())
    return Probe(median(stock), median(onednn or stock), error, tiles)


def _seconds(a: Tensor, b: Tensor) -> float:
    start = process_time()
    torch.mm(a, b)
    return process_time() - start


@contextmanager
def _onednn_products() -> Iterator[None]:
    """Computes float32 products by oneDNN within the context.

    Torch's only switch for this also permits rounding to bfloat16.  Processors without
    bfloat16 units do not round; the probe verifies that.
    """
    settings = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]
    before = settings.fp32_precision, Verified.products
    settings.fp32_precision, Verified.products = "bf16", True
    try:
        yield
    finally:
        settings.fp32_precision, Verified.products = before


def _pools_by_one(module: nn.Module) -> bool:
    """Returns True if ``max_pool`` can compute the module's output."""
    return type(module) is nn.MaxPool2d and (
        _pair(module.stride) == _pair(module.dilation) == (1, 1)
        and _pair(module.padding) == (0, 0)
        and not module.return_indices
    )


def _pooling(module: nn.Module) -> Callable[[Callable[..., Any], Any, Any], Any]:
    def forward(module_forward: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        x = args[0] if args else kwargs.get("input")
        if not isinstance(x, Tensor) or x.dim() != 4 or x.device.type != "cpu":
            return module_forward(*args, **kwargs)
        size = _pair(module.kernel_size)
        fits = size[0] <= x.shape[2] and size[1] <= x.shape[3] and x.numel() > 0
        return max_pool(x, size) if fits else module_forward(*args, **kwargs)

    return forward


def _pair(value: Any) -> tuple[int, int]:
    height, width = value if isinstance(value, tuple | list) else (value, value)
    return int(height), int(width)

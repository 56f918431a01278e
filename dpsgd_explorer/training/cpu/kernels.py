"""Faster replacements of three of torch's operations on CPUs, equally exact.

| replacement | where | difference from torch |
|---|---|---|
| max pooling with stride 1 | modules ``nn.MaxPool2d`` | none |
| float32 products by oneDNN | where a probe finds them faster and exact | rounding |
| freed memory is kept, large blocks too | glibc | none |

They are active inside the context ``in_use`` only.
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
from dpsgd_explorer.dp.backends.heap import HEAP, LARGE_KEPT
from dpsgd_explorer.dp.modules.forward_patch import ForwardPatch
from dpsgd_explorer.training.cpu.max_pool import max_pool

#: Least speed-up of a product at which oneDNN is chosen; below it noise decides.
WORTHWHILE = 1.25
#: Largest error of a float32 product over its largest entry; bfloat16 gives 1e-3.
EXACT = 4e-6

#: Rows of the probed matrices, about those of a layer, and number of repetitions.
PROBE_SIZE, PROBE_TURNS = 384, 7


class Probe(NamedTuple):
    """The cost of a matrix product by both methods on this processor.

    Attributes:
        stock_seconds: CPU time by torch's default.
        onednn_seconds: CPU time by oneDNN.
        onednn_error: Error by oneDNN over the largest entry.
        has_tiles: Whether the processor has matrix units that round to bfloat16.
    """

    stock_seconds: float
    onednn_seconds: float
    onednn_error: float
    has_tiles: bool

    @property
    def chooses_onednn(self) -> bool:
        """Whether oneDNN is faster and still float32."""
        faster = self.onednn_seconds * WORTHWHILE < self.stock_seconds
        return faster and self.onednn_error <= EXACT and not self.has_tiles


@contextmanager
def in_use(*modules: nn.Module, products: bool = True) -> Iterator[None]:
    """Use the replacements inside the context, max pooling in these modules.

    Args:
        modules: Models; their submodules are searched.
        products: Whether to use oneDNN's products where the probe says so.  Without
            them no bit changes, and nothing depends on a measurement.
    """
    with ExitStack() as undo:
        undo.enter_context(HEAP.asked(LARGE_KEPT))
        if products and probe().chooses_onednn:
            undo.enter_context(_onednn_products())
        for module in modules:
            for submodule in module.modules():
                if _pools_by_one(submodule):
                    undo.callback(ForwardPatch(submodule, _pooling(submodule)).remove)
        yield


@cache
def probe() -> Probe:
    """Measure a product by both methods, once per process."""
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randn(PROBE_SIZE, PROBE_SIZE, generator=generator) for _ in "ab")
    exact = a.double() @ b.double()
    tiles = torch.cpu._is_amx_tile_supported()
    stock: list[float] = []
    onednn: list[float] = []
    product = a @ b
    for _ in range(PROBE_TURNS):
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
    """Let float32 products go through oneDNN.

    torch has one switch for this and for rounding to bfloat16.  Processors without
    units for bfloat16 do not round; the probe measures that.
    """
    settings = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]
    before = settings.fp32_precision, Verified.products
    settings.fp32_precision, Verified.products = "bf16", True
    try:
        yield
    finally:
        settings.fp32_precision, Verified.products = before


def _pools_by_one(module: nn.Module) -> bool:
    """Whether ``max_pool`` computes the module's output."""
    return type(module) is nn.MaxPool2d and (
        _pair(module.stride) == _pair(module.dilation) == (1, 1)
        and _pair(module.padding) == (0, 0)
        and not module.return_indices
    )


def _pooling(module: nn.Module) -> Callable[[Callable[..., Any], Any, Any], Any]:
    def forward(own_forward: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        x = args[0] if args else kwargs.get("input")
        if not isinstance(x, Tensor) or x.dim() != 4 or x.device.type != "cpu":
            return own_forward(*args, **kwargs)
        size = _pair(module.kernel_size)
        fits = size[0] <= x.shape[2] and size[1] <= x.shape[3] and x.numel() > 0
        return max_pool(x, size) if fits else own_forward(*args, **kwargs)

    return forward


def _pair(value: Any) -> tuple[int, int]:
    height, width = value if isinstance(value, tuple | list) else (value, value)
    return int(height), int(width)

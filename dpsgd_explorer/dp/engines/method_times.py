"""Times the norm methods of a layer call on made-up tensors of its shapes.

What is timed is what a step does with one call: norms and weighted sum, in pieces of
the batch as there.  The number of samples follows from the expected batch size, never
from a batch, and is less where one sample is much work.  Values are a formula: no
random number is drawn.

With one thread the clock is the processor time of that thread, which other programs
disturb least; with several, or on a device, it is the time that passes.  A method's
time is its shortest, in turns with the others.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor, nn

from dpsgd_explorer.dp.engines.call_groups import grouped
from dpsgd_explorer.dp.engines.deferred_gradients import DeferredGradients
from dpsgd_explorer.dp.engines.layer_calls import GradientTarget, LayerCall
from dpsgd_explorer.dp.engines.methods.measured_methods import (
    GHOST,
    ShapedCall,
    memory_order,
)
from dpsgd_explorer.dp.kernels.full_precision import full_precision
from dpsgd_explorer.dp.layers.base import trains
from dpsgd_explorer.dp.layers.conv_gradients import METHODS as CONVOLUTION_METHODS
from dpsgd_explorer.dp.modules.pytree import map_tensors

#: Most multiply-adds of the gradients of a timed call: some milliseconds on a core.
WORK = 2e8
#: Least number of samples of a timed call.
FEWEST = 2
#: Most calls per method after a first one, in which libraries prepare themselves, and
#: seconds of all methods after which no round begins.
ROUNDS, BUDGET_S = 5, 0.05
#: A method that takes so many times the shortest is not called again.
HOPELESS = 2.0
#: Stands for a method that cannot compute such a call.
FAILED_S = 1e9

UNIT = "layer"


def method_times(
    call: ShapedCall, methods: Sequence[str], keeps: bool, batch_size: int
) -> dict[str, float]:
    """Return {method: seconds per sample}, FAILED_S for one that fails.

    Args:
        call: Only shapes, dtypes and strides of its tensors are read.
        methods: The candidates.
        keeps: Whether instantiated gradients are stored for the sum.
        batch_size: Number of samples of a usual call, a public constant.
    """
    size = samples_of(call, batch_size)
    like = partial(_made_up, size=size)
    activations = map_tensors(like, call.activations)
    made_up = call._replace(activations=activations, backprops=like(call.backprops))
    names = [n for n in call.rule.parameter_names if trains(call.layer, n)]
    parameters = {name: getattr(call.layer, name) for name in names}
    clock = _clock(call.backprops.device)

    def timed(method: str) -> float:
        try:
            return _seconds(made_up, method, parameters, keeps, clock) / size
        except RuntimeError:  # out of memory, or not for such tensors
            return FAILED_S

    with torch.no_grad(), full_precision():
        shortest = {method: timed(method) for method in methods}
        running = [m for m in methods if shortest[m] < FAILED_S]
        begin = clock()
        for _ in range(ROUNDS):
            if len(running) < 2 or clock() - begin > BUDGET_S:
                break
            for method in running:
                shortest[method] = min(shortest[method], timed(method))
            best = min(shortest.values())
            running = [m for m in running if shortest[m] <= HOPELESS * best]
    return shortest


def samples_of(call: ShapedCall, batch_size: int) -> int:
    """Return the number of samples of a timed call, FEWEST or the batch size at most.

    For a layer of 2 million multiply-adds a sample it is 100, of 1 billion it is 2.
    """
    cost = call.rule.multiply_adds(*call.inputs)
    work = 1 if cost is None else max(1, cost.instantiate)
    return max(FEWEST, min(batch_size, int(WORK / work)))


def _seconds(
    call: ShapedCall,
    method: str,
    parameters: dict[str, nn.Parameter],
    keeps: bool,
    clock: Callable[[], float],
) -> float:
    """Return the time of norms and weighted sum by one method."""
    targets = {name: GradientTarget(UNIT, name) for name in parameters}
    sums = {UNIT: {n: p.new_zeros(p.shape) for n, p in parameters.items()}}
    begin = clock()
    layer_call = LayerCall(
        *call,
        targets,
        parameters,
        call.backprops.dtype,
        ghost=method == GHOST,
        keeps=keeps,
        gradient_method=method if method in CONVOLUTION_METHODS else "",
    )
    size, device = len(call.backprops), call.backprops.device
    samples = DeferredGradients(grouped([layer_call]), size, 1.0, device)
    whole, pieces = samples.split_by_memory()
    for part in pieces if whole is None else (whole, *pieces):
        norms = part.squared_norms()[UNIT]
        part.add_weighted_gradients({UNIT: torch.ones_like(norms)}, sums)
    return clock() - begin


def _made_up(values: Tensor, size: int) -> Tensor:
    """Return [size, ...] of the same shape per sample, dtype and order in memory."""
    order = memory_order(values)
    shape = [size, *(values.shape[dim] for dim in order)]
    entries = torch.linspace(
        -1.0, 1.0, math.prod(shape), dtype=values.dtype, device=values.device
    )
    inverse = [0] * values.dim()
    for place, dim in enumerate(order, start=1):
        inverse[dim] = place
    return entries.view(shape).permute(inverse)


def _clock(device: torch.device) -> Callable[[], float]:
    """Return the clock by which methods are compared, in seconds."""
    if device.type == "cuda":
        return partial(_after_device, device)
    return time.thread_time if torch.get_num_threads() == 1 else time.perf_counter


def _after_device(device: torch.device) -> float:
    torch.cuda.synchronize(device)
    return time.perf_counter()

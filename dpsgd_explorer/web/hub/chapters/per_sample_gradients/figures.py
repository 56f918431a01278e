"""Figures of the chapter on per-sample gradients: a convolution, and engines."""

from __future__ import annotations

from dpsgd_explorer.web.content import engines
from dpsgd_explorer.web.hub.widgets.unfolded import widget as unfolded
from dpsgd_explorer.web.hub.widgets.unfolded.widget import flat, patches
from dpsgd_explorer.web.labs.engines.view import recorded_comparison

__all__ = [
    "ENGINE_HEAD",
    "engine_batch",
    "engine_costs",
    "flat_kernel",
    "patches",
]

ENGINE_HEAD = ("engine", "time", "memory", "largest difference")
MODEL = "transformer"  # of the measured step

thumbnail = unfolded.picture


def flat_kernel() -> list[int]:
    """Returns the kernel of the convolution as one row."""
    return flat(unfolded.KERNEL)


def engine_batch() -> int:
    """Returns the number of records in the measured step."""
    return engines.batches()[MODEL]


def engine_costs() -> list[tuple[str, ...]]:
    """Returns time and memory of each engine over an ordinary step, as recorded.

    The last column is the largest difference of an entry from the first engine's
    clipped sum, over the largest entry, in the recorded comparison of the lab.
    """
    _, events = recorded_comparison()
    differences = {
        event["data"]["engine"]: event["data"]["difference"]
        for event in events
        if event["kind"] == "evaluation"
    }
    return [
        (
            engine,
            f"{time:.2f} times",
            f"{memory:.2f} times",
            "" if differences[engine] is None else f"{differences[engine]:.0e}",
        )
        for engine, (time, memory) in engines.models()[MODEL].items()
        if engine in differences
    ]

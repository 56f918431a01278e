"""What a run looks at on its way, not private: gradient norms and losses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from markupsafe import Markup

from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.web.figures.svg import Plot, round_ticks

Data = dict[str, Any]
Size = tuple[int, int]
EDGES = tuple(10 ** ((i - 20) / 10) for i in range(41))  # in units of C


def norms_svg(
    config: TrainingConfig, edges: Sequence[float], steps: Sequence[Data], size: Size
) -> Markup:
    """Return the histogram of the last step that has one, with the bound C.

    Args:
        config: The settings.
        edges: Edges of the bins, one more than counts; none before a run.
        steps: Data of the step events.
        size: Width and height.
    """
    bound = config.max_grad_norm
    counts = next((c for s in reversed(steps) if (c := _counts(s))), [])
    logs = [math.log10(e) for e in edges or [bound * edge for edge in EDGES]]
    inner = max(counts[1:-1], default=0)
    top = 1.2 * inner or config.expected_batch_size / 8
    plot = Plot.framed(size, (logs[0], logs[-1]), (0, top), left=44, right=16, top=42)
    plot.y_axis(round_ticks((0, top), 4), "")
    at = math.log10(bound)
    for (low, high), count in zip(pairwise(logs), counts, strict=False):
        css = "f-area" if config.private and low >= at else "f-private"
        plot.bar((low, high - 0.1 * (high - low)), (0, min(count, top)), css)
    powers = range(math.ceil(logs[0]), math.floor(logs[-1]) + 1)
    ticks = [(float(power), f"{10.0**power:g}") for power in powers]
    plot.x_axis(ticks, "gradient norm (L2), log scale")
    if config.private:
        plot.path([(at, 0), (at, top)], "line s-ink")
        plot.text((at, top), f"C = {bound:g}", "strong", "middle", (0, -16))
    return plot.svg("Gradient norms around the clipping bound.")


def _counts(step: Data) -> list[int]:
    return (step.get("diagnostics") or {}).get("norm_counts") or []


def loss_svg(
    config: TrainingConfig,
    plan: Data,
    steps: Sequence[Data],
    evaluations: Sequence[Data],
    size: Size,
) -> Markup:
    """Return the loss of the drawn batches and of the test set."""
    top = min(1.0, 1.15 * math.log(config.data.classes))
    plot = Plot.framed(size, (0, 1.02 * plan["steps"]), (0, top), left=44, right=16)
    plot.y_axis(round_ticks((0, top), 5), "nats")
    plot.x_axis(round_ticks((0, plan["steps"]), 4), "step")
    train = [(s["step"], (s.get("diagnostics") or {}).get("loss")) for s in steps]
    css = "s-private" if plan["private"] else "s-twin dashed"
    plot.line([(x, min(y, top)) for x, y in train if y is not None], f"{css} thin")
    test = [(e["step"], min(e["test_loss"], top)) for e in evaluations]
    plot.line(test, css)
    return plot.svg("Training and test loss along the steps.")

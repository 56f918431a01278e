"""Write docs/reference/engines.md: all layers with both norm methods, measured now.

Run as ``python -m tools.write_engines_page``.  With ``--engines`` it writes only the
tables of engines, which the lab also shows, from the costs that
``tools.compare_engines`` recorded.  ``tools.break_rules`` writes the table of broken
rules.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

from dpsgd_explorer.dp import PrivacyEngine
from dpsgd_explorer.dp.layers import rule_for
from dpsgd_explorer.training.timing import (
    LEARNING_RATE,
    Step,
    attached,
    machine,
    one_thread,
    relative_costs,
    sgd_step,
)
from dpsgd_explorer.web.content.engines import (
    FEATURE_HEAD,
    KNOWN_HEAD,
    features,
    known,
    measured_on,
)
from tools.engine_layers import LAYERS, Layer
from tools.marked_text import put, write

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "engines.md"
WAYS = ("ghost", "instantiate")
SAMPLES = 4  # samples whose gradients are compared with one backward pass each
SECONDS = 0.4  # CPU time per row
LONGEST = 4096


class Row(NamedTuple):
    """Errors and ratios of one norm method of one layer."""

    error: float
    time: float
    memory: float


def main() -> None:
    """Write the tables of engines; measure the layers and write their tables."""
    parser = argparse.ArgumentParser(prog="python -m tools.write_engines_page")
    parser.add_argument("--engines", action="store_true", help="measure nothing")
    write(PAGE, tables())
    if not parser.parse_args().engines:
        write_layers()


def tables() -> dict[str, str]:
    """Return the page's tables of engines, by the name of their markers."""
    return {
        "engines": f"{measured_on()}\n\n{_table(FEATURE_HEAD, features())}",
        "known": _table(KNOWN_HEAD, known()),
    }


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def write_layers() -> None:
    """Measure each layer, and write both tables of layers."""
    one_thread()
    head = " | ".join(f"{way}: error | time | memory" for way in WAYS)
    lines = [f"| layer | input | {head} | the rule picks |", "|---" * 9 + "|"]
    for layer in LAYERS:
        lines.append(_line(layer))
        print(lines[-1], flush=True)
    computer = machine()
    processor = f"{computer['processor']} ({computer['instructions']})"
    origin = f"{processor}, torch {torch.__version__}."
    put(PAGE, "layers", "\n".join([origin, "", *lines]))
    put(PAGE, "crossings", "\n".join(_crossings()))


def _line(layer: Layer) -> str:
    rows = _measured(layer)
    shape = " × ".join(map(str, layer.shape))
    cells = [f"{r.error:.0e} | {r.time:.2f} | {r.memory:.2f}" for r in rows.values()]
    return f"| {layer.name} | {shape} | {' | '.join(cells)} | {_picked(layer)} |"


def _measured(layer: Layer) -> dict[str, Row]:
    """Return {norm method: row}."""
    net = layer.net()
    ordinary = torch.optim.SGD(net.parameters(), lr=LEARNING_RATE)
    steps = {"ordinary": _step(layer, net, ordinary)}
    for way in WAYS:
        net = layer.net()
        steps[way] = _step(layer, net, _attached(net, way)[1])
    costs = relative_costs(steps, SECONDS)
    return {way: Row(_error(layer, way), *costs[way]) for way in WAYS}


def _step(layer: Layer, net: nn.Module, optimizer: torch.optim.Optimizer) -> Step:
    data = layer.inputs(), torch.empty(0)
    return sgd_step(net, data, optimizer, lambda losses, _: losses.mean())


def _attached(
    net: nn.Module, mode: str, bound: float = 1.0
) -> tuple[PrivacyEngine, torch.optim.Optimizer]:
    return attached(
        net,
        batch_size=1,
        engine="hooks",
        noise_multiplier=0.0,
        clipping_mode=mode,
        max_grad_norm=bound,
    )


def _error(layer: Layer, way: str) -> float:
    """Return the maximum error of the clipped sum relative to its largest entry."""
    net, x = layer.net().double(), layer.inputs(SAMPLES)
    x = x.double() if x.is_floating_point() else x
    parameters = list(net.parameters())
    rows = [
        torch.autograd.grad(net(x[i : i + 1]).sum(), parameters) for i in range(len(x))
    ]
    norms = torch.stack([torch.stack([g.norm() for g in row]).norm() for row in rows])
    bound = float(norms.median())  # clips some samples and not others
    factors = (bound / norms).clamp(max=1.0)
    _, optimizer = _attached(net, way, bound)
    net(x).mean().backward()
    optimizer.step()
    worst = largest = 0.0
    for parameter, gradients in zip(parameters, zip(*rows, strict=True), strict=True):
        expected = torch.einsum("b,b...->...", factors, torch.stack(gradients))
        released: Any = parameter.grad
        worst = max(worst, float((released - expected).abs().max()))
        largest = max(largest, float(expected.abs().max()))
    return worst / largest


def _picked(layer: Layer) -> str:
    """Return the norm methods that "MixOpt" chooses, for each part of the layer."""
    net = layer.net()
    engine, _ = _attached(net, "MixOpt")
    net(layer.inputs()).mean().backward()
    counts = Counter(choice.norm_method for choice in engine.explain())
    if len(counts) == 1:
        return next(iter(counts))
    return ", ".join(f"{way} ({n})" for way, n in counts.items())


def _crossings() -> list[str]:
    lines = ["| layer | ghost up to |", "|---|---|"]
    for width in (64, 256, 1024, 4096):
        linear = nn.Linear(width, width, device="meta")
        most = _longest(linear, lambda t, d=width: ((1, t, d), (1, t, d)))  # type: ignore[misc]
        lines.append(f"| Linear {width}-{width} | {most} positions |")
    for width in (16, 64, 128, 512):
        conv = nn.Conv2d(width, width, 3, padding=1, device="meta")
        most = _longest(conv, lambda t, c=width: ((1, c, t, t), (1, c, t, t)))  # type: ignore[misc]
        lines.append(f"| Conv2d {width}-{width}, 3 | {most} × {most} |")
    return lines


def _longest(
    layer: nn.Module, shapes: Callable[[int], tuple[tuple[int, ...], tuple[int, ...]]]
) -> int:
    """Return the largest size at which the rule still prefers ghost norms."""
    rule, size = rule_for(layer), 0
    while size < LONGEST:
        x, g = (torch.empty(shape, device="meta") for shape in shapes(size + 1))
        if not rule.ghost_norm.cost_ratio(layer, x, g) < 1:  # type: ignore[attr-defined]
            break
        size += 1
    return size


if __name__ == "__main__":
    main()

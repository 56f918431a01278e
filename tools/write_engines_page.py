"""Write docs/engines.md: every layer, both ways, measured here and now.

Run as ``python -m tools.write_engines_page``.  The table of broken rules on that page
is put there by ``python -m tools.break_rules``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from dpsgd_explorer.dp import PrivacyEngine
from dpsgd_explorer.dp.layers import rule_for
from dpsgd_explorer.training.timing import (
    Step,
    machine,
    one_thread,
    peak_bytes,
    time_in_turns,
)
from tools.engine_layers import LAYERS, Layer

PAGE = Path(__file__).parents[1] / "docs" / "engines.md"
WAYS = ("ghost", "instantiate")
SAMPLES = 4  # of which the gradients are compared with one backward each
SECONDS = 0.4  # CPU time for each row
LONGEST = 4096

HEAD = """# Layers and ways

Every layer has a rule that makes the norm of each sample's gradient and the weighted
sum of the gradients. The norm may be made without the gradient (*ghost*) or from it
(*instantiate*); both give the same update. `clipping_mode` forces a way, for all layers
or by name; "MixOpt" lets the rule choose at each shape, anew for every pass, and
`engine.explain()` tells what was chosen and why.

## Each layer, each way

Written by `python -m tools.write_engines_page`. A step is forward, backward, clipping
and update of one layer whose input wants a gradient too, without noise. *error*: the
clipped sum of {samples} samples against one backward a sample, float64, largest error
over largest entry. *time* and *memory*: over torch's ordinary step of the same layer at
that shape, CPU time of one thread, in turns; memory is the most that torch holds in a
step beyond what stays from one to the next, which in ours is one gradient.

<!-- layers -->
<!-- /layers -->

## Where the rule changes its mind

The longest sequence, or the largest square image, at which the norm is still made
without the gradient; from there on the gradient is made and kept for the sum
(`dp/layers/norm_costs.py`).

<!-- crossings -->
<!-- /crossings -->

## Each engine

Written by `python -m tools.compare_engines`. All engines compute the same clipped sum,
with the same noise on it; they differ in how. *hooks* keeps what each layer saw and
makes norms and sums from it; *extending* does the same with autograd functions in the
place of layers, and leaves the optimizer alone; *vmap* maps the whole model over its
samples; *microbatch* runs one sample at a time.

<!-- engines -->
<!-- /engines -->

## Rules broken on purpose

Written by `python -m tools.break_rules`: each bug is planted in the package,
alone in its process, and the test named after it is run there; on the sound code all of
them pass. Seconds are CPU time of that run.

<!-- mutations -->
<!-- /mutations -->
"""


class Row(NamedTuple):
    """One way of one layer: errors and ratios."""

    error: float
    time: float
    memory: float


def put(name: str, content: str) -> None:
    """Replace what stands between the page's markers of a name."""
    text = (
        PAGE.read_text(encoding="utf-8")
        if PAGE.exists()
        else HEAD.format(samples=SAMPLES)
    )
    start, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    pattern = re.compile(f"{re.escape(start)}.*?{re.escape(end)}", re.DOTALL)
    if not pattern.search(text):
        raise ValueError(f"{PAGE.name} must hold {start} and {end}; put them in.")
    text = pattern.sub(lambda _: f"{start}\n{content}\n{end}", text)
    PAGE.write_text(text, encoding="utf-8")


def taken(name: str) -> list[str]:
    """Return the lines that stand between the page's markers of a name."""
    text = PAGE.read_text(encoding="utf-8") if PAGE.exists() else HEAD
    found = re.search(f"<!-- {name} -->(.*?)<!-- /{name} -->", text, re.DOTALL)
    return found[1].strip().splitlines() if found else []


def main() -> None:
    """Measure, and write both tables."""
    one_thread()
    head = " | ".join(f"{way}: error | time | memory" for way in WAYS)
    lines = [f"| layer | input | {head} | the rule picks |", "|---" * 9 + "|"]
    for layer in LAYERS:
        lines.append(_line(layer))
        print(lines[-1], flush=True)
    made = machine()
    origin = f"{made['processor']} ({made['instructions']}), torch {torch.__version__}."
    put("layers", "\n".join([origin, "", *lines]))
    put("crossings", "\n".join(_crossings()))


def _line(layer: Layer) -> str:
    rows = _measured(layer)
    shape = " × ".join(map(str, layer.shape))
    cells = [f"{r.error:.0e} | {r.time:.2f} | {r.memory:.2f}" for r in rows.values()]
    return f"| {layer.name} | {shape} | {' | '.join(cells)} | {_picked(layer)} |"


def _measured(layer: Layer) -> dict[str, Row]:
    """Return {way: its row}."""
    steps = {"ordinary": Step(_ordinary_step(layer))}
    steps |= {way: Step(_private_step(layer, way)) for way in WAYS}
    peaks = {way: peak_bytes(step.run) for way, step in steps.items()}
    timings = time_in_turns(steps, SECONDS)
    return {
        way: Row(_error(layer, way), timings[way].ratio, peaks[way] / peaks["ordinary"])
        for way in WAYS
    }


def _ordinary_step(layer: Layer) -> Callable[[], None]:
    net, x = layer.net(), layer.inputs()
    return _step(net, torch.optim.SGD(net.parameters(), lr=0.01), x)


def _private_step(layer: Layer, way: str) -> Callable[[], None]:
    net, x = layer.net(), layer.inputs()
    return _step(net, _attached(net, way)[1], x)


def _step(
    net: nn.Module, optimizer: torch.optim.Optimizer, x: Tensor
) -> Callable[[], None]:
    def step() -> None:
        net(x).mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def _attached(
    net: nn.Module, mode: str, bound: float = 1.0
) -> tuple[PrivacyEngine, torch.optim.Optimizer]:
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    engine = PrivacyEngine(
        net,
        batch_size=1,
        sample_size=10**6,
        steps=10**6,
        noise_multiplier=0.0,
        max_grad_norm=bound,
        clipping_fn="Abadi",
        clipping_mode=mode,
        sampling="unchecked",
    )
    engine.attach(optimizer)
    return engine, optimizer


def _error(layer: Layer, way: str) -> float:
    """Return the largest error of the clipped sum over its largest entry."""
    net, x = layer.net().double(), layer.inputs(SAMPLES)
    x = x.double() if x.is_floating_point() else x
    parameters = list(net.parameters())
    rows = [
        torch.autograd.grad(net(x[i : i + 1]).sum(), parameters) for i in range(len(x))
    ]
    norms = torch.stack([torch.stack([g.norm() for g in row]).norm() for row in rows])
    bound = float(norms.median())  # some samples are shortened, some are not
    factors = (bound / norms).clamp(max=1.0)
    _, optimizer = _attached(net, way, bound)
    net(x).mean().backward()
    optimizer.step()
    worst = largest = 0.0
    for parameter, own in zip(parameters, zip(*rows, strict=True), strict=True):
        expected = torch.einsum("b,b...->...", factors, torch.stack(own))
        found: Any = parameter.grad
        worst = max(worst, float((found - expected).abs().max()))
        largest = max(largest, float(expected.abs().max()))
    return worst / largest


def _picked(layer: Layer) -> str:
    """Return the ways that "MixOpt" takes, part by part."""
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
    """Return the largest size at which the rule still prefers the ghost norm."""
    rule, size = rule_for(layer), 0
    while size < LONGEST:
        x, g = (torch.empty(shape, device="meta") for shape in shapes(size + 1))
        if not rule.prefers_ghost(layer, x, g):  # type: ignore[attr-defined]
            break
        size += 1
    return size


if __name__ == "__main__":
    main()

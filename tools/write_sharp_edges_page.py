"""Write docs/reference/sharp-edges.md: unsafe models with the engine's messages.

Run as ``python -m tools.write_sharp_edges_page``.
"""

from __future__ import annotations

import inspect
import textwrap
from pathlib import Path

import torch
from torch import nn, optim

from dpsgd_explorer.dp import PrivacyEngine, make_private_ready
from dpsgd_explorer.errors import ExplorerError
from tools.marked_text import write
from tools.unsafe_models import CLASSES, GALLERY, Unsafe, inputs

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "sharp-edges.md"


def parts() -> dict[str, str]:
    """Return the unsafe models, each with the engine's message."""
    sections = [_section(i, each) for i, each in enumerate(GALLERY, start=1)]
    return {"refused": "\n".join(sections)}


def refusal(unsafe: Unsafe, *, repaired: bool = False) -> str:
    """Return the engine's message to a model; "" if the engine accepts it."""
    torch.manual_seed(0)
    model = unsafe.make()
    if repaired:
        model = make_private_ready(model, tell=lambda line: None)
    x, y = inputs(), torch.randint(0, CLASSES, (5,))
    try:
        engine = PrivacyEngine(
            model,
            batch_size=5,
            sample_size=100,
            epochs=1,
            noise_multiplier=1.0,
            example_inputs=(x, y),
            loss_fn=unsafe.loss_fn,
        )
        trained = [p for p in model.parameters() if p.requires_grad]
        engine.attach(optim.SGD(trained, lr=0.1))
    except ExplorerError as error:
        return str(error)
    engine.detach()
    return ""


def repairs(model: nn.Module) -> list[str]:
    """Returns the replacements that make_private_ready reports for a model."""
    told: list[str] = []
    make_private_ready(model, tell=told.append)
    return told


def _section(number: int, unsafe: Unsafe) -> str:
    message = refusal(unsafe)
    if not message:
        raise AssertionError(f"{unsafe.title}: the engine takes this model")
    parts = [
        f"## {number}. {unsafe.title}\n\n{textwrap.fill(unsafe.why, 88)}\n",
        f"```py\n{_source(unsafe)}\n```\n",
        f"{_quoted(message)}\n",
    ]
    if not refusal(unsafe, repaired=True):
        told = "\n".join(_quoted(line) for line in repairs(unsafe.make()))
        parts.append(f"`make_private_ready` repairs it:\n\n{told}\n")
    return "\n".join(parts)


def _source(unsafe: Unsafe) -> str:
    sources = [inspect.getsource(each).strip() for each in unsafe.code]
    return "\n\n\n".join([*sources, *([unsafe.line] if unsafe.line else [])])


def _quoted(message: str) -> str:
    return textwrap.fill(
        message, 88, initial_indent="> ", subsequent_indent="> ", break_on_hyphens=False
    )


if __name__ == "__main__":
    write(PAGE, parts())

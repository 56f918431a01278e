"""Write docs/sharp-edges.md from what the engine says to twelve unsafe models.

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
from tools.unsafe_models import CLASSES, GALLERY, Unsafe, inputs
from tools.unseen_situations import UNSEEN

PAGE = Path(__file__).parents[1] / "docs" / "sharp-edges.md"
HEAD = """# Sharp edges

This page is written by `python -m tools.write_sharp_edges_page`: each model below was
given to the engine, and the message is what it answered.

Clipping bounds what a record can do only if the record's gradient depends on that
record alone. Before the first step the engine measures that, on random inputs; it does
not go by the names of layers. With `example_inputs` and `loss_fn` it measures at
`attach`, and the loss with it; otherwise at the first forward pass.
It measures again when the module's parts, forwards or hooks are others, or a batch is
more than twice as large as any before.

The loss is also read at every backward, from autograd's graph. A mean that divides by
the weights or the targets of the batch raises there. Any other loss that is not known
to be a mean or sum of a term for each record is trained with, but `get_epsilon` then
asks for `assume_per_sample_loss=True`. `per_sample_mean(losses, mask)` is the mean that
passes. The graph does not show where targets come from: one that is made of other
records' (mixup, the batch's mean taken away) is not seen, so make each record's target
of that record alone. Nor does it show hooks on the losses' own tensors.

`make_private_ready(model)` repairs what has a remedy, and prints what it changed.
"""


UNSEEN_HEAD = """## What the engine cannot see

The models above are refused. What follows is not, for it happens outside the module or
in a way that no measurement beforehand shows: epsilon is reported, and is not true.
"""


def page() -> str:
    """Return the text of docs/sharp-edges.md."""
    sections = [_section(i, each) for i, each in enumerate(GALLERY, start=1)]
    unseen = [
        textwrap.fill(
            f"- **{each.title}.** {each.why} *Instead:* {each.remedy}",
            88,
            subsequent_indent="  ",
            break_on_hyphens=False,
        )
        for each in UNSEEN
    ]
    return "\n".join([HEAD, *sections, UNSEEN_HEAD, *unseen]) + "\n"


def refusal(unsafe: Unsafe, *, repaired: bool = False) -> str:
    """Return what the engine says to a model; "" if it takes it."""
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
    """Return what make_private_ready tells of a model."""
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
        parts.append(
            f"`make_private_ready` makes it one that can be trained:\n\n{told}\n"
        )
    return "\n".join(parts)


def _source(unsafe: Unsafe) -> str:
    sources = [inspect.getsource(each).strip() for each in unsafe.code]
    return "\n\n\n".join([*sources, *([unsafe.line] if unsafe.line else [])])


def _quoted(message: str) -> str:
    return textwrap.fill(
        message, 88, initial_indent="> ", subsequent_indent="> ", break_on_hyphens=False
    )


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")

"""Counts the Python calls of one private step of a small model, as a reader's guide.

``python -m tools.follow_step`` prints the numbers of calls, functions and files in a
steady step of Linear-ReLU-Linear: one forward, one backward and one optimizer step,
after the steps that measure and allocate. ``--list`` prints the functions in the order
of their first call.
"""

from __future__ import annotations

import argparse
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import get_args

import torch
import torch.nn.functional as F
from torch import nn

from dpsgd_explorer.dp.choices import Engine
from dpsgd_explorer.dp.engine import PrivacyEngine

ROOT = Path(__file__).resolve().parents[1]
PRODUCT = str(ROOT / "dpsgd_explorer")
#: Steps before the counted one; the first of them check the model.
STEPS_BEFORE = 5
BATCH_SIZE = 16

Function = tuple[str, str]
"""File below the root, and qualified name."""


def followed(run: Callable[[], None]) -> list[Function]:
    """Return the product's functions in the order of their first call."""
    entered: list[Function] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(PRODUCT):
            file = str(Path(code.co_filename).relative_to(ROOT))
            entered.append((file, code.co_qualname))

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return entered


def steady_step(engine: Engine) -> Callable[[], None]:
    """Return a private step of a two-layer perceptron, after its first steps."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(20, 16), nn.ReLU(), nn.Linear(16, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    PrivacyEngine(
        model,
        batch_size=BATCH_SIZE,
        sample_size=1000,
        steps=1000,
        noise_multiplier=1.0,
        max_grad_norm=1.0,
        engine=engine,
        sampling="unchecked",
    ).attach(optimizer)
    inputs, targets = torch.randn(BATCH_SIZE, 20), torch.randint(0, 3, (BATCH_SIZE,))

    def step() -> None:
        loss = F.cross_entropy(model(inputs), targets)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()

    for _ in range(STEPS_BEFORE):
        step()
    return step


def main() -> None:
    """Print the counts for one gradient engine."""
    parser = argparse.ArgumentParser(description=__doc__)
    names = get_args(Engine)
    parser.add_argument("--engine", choices=names, default="hooks")
    parser.add_argument("--list", action="store_true", help="print the functions")
    arguments = parser.parse_args()
    entered = followed(steady_step(arguments.engine))
    functions = list(dict.fromkeys(entered))
    if arguments.list:
        for file, name in functions:
            print(f"{entered.count((file, name)):4d} {file} {name}")
    files = {file for file, _ in functions}
    print(f"{len(entered)} calls, {len(functions)} functions, {len(files)} files")


if __name__ == "__main__":
    main()

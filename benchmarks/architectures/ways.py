"""Ways to make one step of an architecture, its batch accumulated in physical parts."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable
from itertools import pairwise

import torch
from torch import Tensor, nn

from benchmarks.architectures.cases import PART, Architecture
from dpsgd_explorer.training.timing import (
    CLIPPING_BOUND,
    LEARNING_RATE,
    NOISE_MULTIPLIER,
    Step,
    attached,
)

Part = tuple[Tensor, Tensor]

NO_OPACUS = "opacus is not installed"
"""Why Opacus's ways are left out where it cannot be imported."""


def _ordinary(case: Architecture) -> Step:
    model, parts = case.model(), _parts(case)
    optimizer = torch.optim.SGD(_trained(model), lr=LEARNING_RATE)

    def step() -> None:
        for x, y in parts:
            (case.loss(model(x), y) / len(parts)).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()

    return Step(step)


def _normals(case: Architecture) -> Step:
    """Return the draw of as many of torch's normal numbers as a step trains.

    With the ordinary step, which clips nothing, it is the least that a private step
    takes which draws its noise at torch's price: the floor.
    """
    noise = torch.empty(sum(p.numel() for p in _trained(case.model())))

    def draw() -> None:
        noise.normal_()

    return Step(draw)


def _hooks(case: Architecture) -> Step:
    model, parts = case.model(), _parts(case)
    batch = sum(len(y) for _, y in parts)
    _, optimizer = attached(model, batch, "hooks", NOISE_MULTIPLIER)

    def step() -> None:
        for x, y in parts:
            case.loss(model(x), y).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()

    return Step(step)


def _opacus(mode: str) -> Callable[[Architecture], Step]:
    """Return Opacus's step, with per-sample gradients ("hooks") or "ghost" norms."""

    def make(case: Architecture) -> Step:
        warnings.simplefilter("ignore")
        import opacus
        from opacus.validators import ModuleValidator

        model, parts = ModuleValidator.fix(case.model()), _parts(case)
        x, y = (torch.cat(tensors) for tensors in zip(*parts, strict=True))
        private = opacus.PrivacyEngine().make_private(
            module=model,
            optimizer=torch.optim.SGD(_trained(model), lr=LEARNING_RATE),
            data_loader=torch.utils.data.DataLoader(
                torch.utils.data.TensorDataset(x, y), batch_size=len(y)
            ),
            criterion=nn.CrossEntropyLoss(),
            noise_multiplier=NOISE_MULTIPLIER,
            max_grad_norm=CLIPPING_BOUND,
            poisson_sampling=False,
            grad_sample_mode=mode,
        )
        module, optimizer = private[0], private[1]
        loss = private[2] if mode == "ghost" else case.loss

        def step() -> None:
            for number, (x, y) in enumerate(parts, start=1):
                optimizer.signal_skip_step(do_skip=number < len(parts))
                loss(module(x), y).backward()
                optimizer.step()
                optimizer.zero_grad()

        return Step(step)

    return make


WAYS: dict[str, tuple[str, Callable[[Architecture], Step]]] = {
    "ordinary": ("ordinary", _ordinary),
    "normals": ("torch's normal numbers", _normals),
    "hooks": ("hooks", _hooks),
    "opacus_hooks": ("Opacus hooks", _opacus("hooks")),
    "opacus_ghost": ("Opacus ghost", _opacus("ghost")),
}
"""{name: (label in tables, maker of the step)}"""


def reason_to_skip(case: Architecture, way: str) -> str:
    """Return why a way is left out for an architecture, "" if it is not."""
    if not way.startswith("opacus"):
        return ""
    if importlib.util.find_spec("opacus") is None:
        return NO_OPACUS
    if way == "opacus_ghost" and case.targets:
        return "its loss takes one target per sample"
    return ""


def _parts(case: Architecture) -> list[Part]:
    x, y = case.data()
    cuts = range(0, len(y) + 1, PART)
    return [(x[start:stop], y[start:stop]) for start, stop in pairwise(cuts)]


def _trained(model: nn.Module) -> list[nn.Parameter]:
    return [p for p in model.parameters() if p.requires_grad]

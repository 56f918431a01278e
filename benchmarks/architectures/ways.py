"""Methods for a step of an architecture, with a batch of several physical batches."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from benchmarks.architectures.cases import PARTS, Architecture
from dpsgd_explorer.dp.engine import PrivacyEngine
from dpsgd_explorer.training.timing import (
    CLIPPING_BOUND,
    LEARNING_RATE,
    NOISE_MULTIPLIER,
    SAMPLE_SIZE,
)

Part = Callable[[bool], None]
"""Forward and backward of one physical part; True: the step of the batch follows."""

NO_OPACUS = "opacus is not installed"
"""Why Opacus's ways are left out where it cannot be imported."""


def _ordinary(case: Architecture) -> Part:
    model, (x, y) = case.model(), case.data()
    optimizer = torch.optim.SGD(_trained(model), lr=LEARNING_RATE)

    def part(ends: bool) -> None:
        (case.loss(model(x), y) / PARTS).backward()  # type: ignore[no-untyped-call]
        if ends:
            optimizer.step()
            optimizer.zero_grad()

    return part


def _normals(case: Architecture) -> Part:
    """Returns the draw of one of torch's normal numbers per trained parameter.

    The floor is its time plus the time of the ordinary step: the lower limit for
    private steps that draw noise at the speed of torch.
    """
    noise = torch.empty(sum(p.numel() for p in _trained(case.model())))

    def part(ends: bool) -> None:
        if ends:
            noise.normal_()

    return part


def make_private(
    model: nn.Module, optimizer: torch.optim.Optimizer, batch_size: int
) -> None:
    """Attach an engine with logical batches of this size, in any physical batches."""
    PrivacyEngine(
        model,
        batch_size=batch_size,
        sample_size=SAMPLE_SIZE,
        steps=SAMPLE_SIZE,
        noise_multiplier=NOISE_MULTIPLIER,
        max_grad_norm=CLIPPING_BOUND,
        clipping_fn="Abadi",
        sampling="unchecked",
    ).attach(optimizer)


def _hooks(case: Architecture) -> Part:
    model, (x, y) = case.model(), case.data()
    optimizer = torch.optim.SGD(_trained(model), lr=LEARNING_RATE)
    make_private(model, optimizer, PARTS * len(y))

    def part(ends: bool) -> None:
        case.loss(model(x), y).backward()  # type: ignore[no-untyped-call]
        if ends:
            optimizer.step()
            optimizer.zero_grad()

    return part


def _opacus(mode: str, case: Architecture) -> Part:
    """Return Opacus's step, with per-sample gradients ("hooks") or "ghost" norms."""
    warnings.simplefilter("ignore")
    import opacus
    from opacus.validators import ModuleValidator

    model, (x, y) = ModuleValidator.fix(case.model()), case.data()
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
    loss: Callable[[Tensor, Tensor], Tensor]
    loss = private[2] if mode == "ghost" else case.loss

    def part(ends: bool) -> None:
        optimizer.signal_skip_step(do_skip=not ends)
        loss(module(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()

    return part


WAYS: dict[str, tuple[str, Callable[[Architecture], Part]]] = {
    "ordinary": ("ordinary", _ordinary),
    "normals": ("torch's normal numbers", _normals),
    "hooks": ("hooks", _hooks),
    "opacus_hooks": ("Opacus hooks", partial(_opacus, "hooks")),
    "opacus_ghost": ("Opacus ghost", partial(_opacus, "ghost")),
}
"""{name: (label in tables, maker of a part)}"""


def reason_to_skip(case: Architecture, way: str) -> str:
    """Return the reason why a method is skipped for an architecture, else ""."""
    if not way.startswith("opacus"):
        return ""
    if importlib.util.find_spec("opacus") is None:
        return NO_OPACUS
    if way == "opacus_ghost" and case.targets:
        return "its loss takes one target per sample"
    return ""


def _trained(model: nn.Module) -> list[nn.Parameter]:
    return [p for p in model.parameters() if p.requires_grad]

"""Methods for a step on an accelerator, and the ordinary step of each comparison."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch.optim import AdamW

from benchmarks.architectures.cases import Architecture
from benchmarks.architectures.ways import (
    Part,
    Setting,
    fastdp,
    hooks,
    make_private,
    opacus_ghost,
    opacus_hooks,
    ordinary,
)
from dpsgd_explorer.dp import AdaptiveClipping

PARTS = 4
"""Physical batches of a longer step."""

VIEWS = 2
"""Views per sample, where a way has several."""

Maker = Callable[[Architecture, Setting], Part]


@dataclass(frozen=True)
class Way:
    """A method for a step.

    Attributes:
        label: Name in the tables.
        make: Returns its parts.
        reference: Returns the parts of the ordinary step with which it is compared.
    """

    label: str
    make: Maker
    reference: Maker = ordinary


def setting_on(device: str, name: str) -> Setting:
    """Return the setting of a model: bfloat16 by autocast, and fused AdamW."""
    optimizer = partial(AdamW, lr=1e-4, fused=True)
    # Not every CPU has torch's LSTM in bfloat16.
    is_float32 = device == "cpu" and name == "lstm"
    dtype = None if is_float32 else torch.bfloat16
    return Setting(device, dtype, optimizer, PARTS)


def _in_bfloat16(make: Maker) -> Maker:
    """Return a method whose model is in bfloat16: FastDP fails under autocast."""
    return lambda case, setting: make(case, replace(setting, is_autocast=False))


def _compiled(make: Maker) -> Maker:
    return lambda case, setting: make(case, replace(setting, compiles=True))


def _scaled(private: bool, case: Architecture, setting: Setting) -> Part:
    """Return the step in float16 with a ``GradScaler``."""
    setting = replace(setting, dtype=torch.float16)
    model, (x, y) = setting.model(case), setting.data(case)
    optimizer = setting.optimizer_of(model)
    scaler = torch.amp.GradScaler(setting.device)
    if private:
        options: dict[str, Any] = {"engine": "extending", "grad_scaler": scaler}
        make_private(model, optimizer, setting.parts * len(y), **options)

    def part(ends: bool) -> None:
        loss = setting.loss(model, x, y, case.loss)
        scaler.scale(loss if private else loss / setting.parts).backward()
        if ends:
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()

    return part


def _adaptive(case: Architecture, setting: Setting) -> Part:
    return hooks(case, setting, clipping_schedule=AdaptiveClipping())


def _views(case: Architecture, setting: Setting) -> Part:
    return hooks(case, setting, augmentation_multiplicity=VIEWS)


OURS = {"hooks": Way("this library", hooks)}
PEERS = {
    "opacus_ghost": Way("Opacus, ghost", opacus_ghost),
    "opacus_hooks": Way("Opacus, hooks", opacus_hooks),
    "fastdp": Way(
        "FastDP, MixOpt, model in bfloat16",
        _in_bfloat16(fastdp),
        _in_bfloat16(ordinary),
    ),
}
FEATURES = {
    "compiled": Way("`torch.compile`", _compiled(hooks), _compiled(ordinary)),
    "adaptive": Way("adaptive clipping", _adaptive),
    "views": Way(f"{VIEWS} views per sample", _views),
    "scaled": Way(
        "float16 with `GradScaler`", partial(_scaled, True), partial(_scaled, False)
    ),
}
"""Ways that are measured with one model; some of them wait for the device."""

WAYS: dict[str, Way] = {**OURS, **PEERS, **FEATURES}

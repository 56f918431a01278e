"""Methods for a step of an architecture, with a batch of several physical batches.

A step is forward, backward and the optimizer's update; a private one clips the gradient
of each sample and adds noise.  All methods train the same model on the same data.
"""

from __future__ import annotations

import importlib
import importlib.util
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from benchmarks.architectures.cases import PARTS, Architecture, Data
from dpsgd_explorer.dp.engine import PrivacyEngine
from dpsgd_explorer.training.timing import (
    CLIPPING_BOUND,
    LEARNING_RATE,
    NOISE_MULTIPLIER,
    SAMPLE_SIZE,
)

Part = Callable[[bool], None]
"""Forward and backward of one physical part; True: the step of the batch follows."""

Loss = Callable[..., Any]

NO_OPACUS = "opacus is not installed"
"""Why Opacus's ways are left out where it cannot be imported."""


def _sgd(parameters: list[nn.Parameter]) -> Optimizer:
    return torch.optim.SGD(parameters, lr=LEARNING_RATE)


@dataclass(frozen=True)
class Setting:
    """Where and how a model is trained.

    Attributes:
        device: Device of the model and the data.
        dtype: Precision; if None, the precision of the model.
        optimizer: Returns the optimizer of the trained parameters.
        parts: Physical batches per step.
        compiles: If True, ``torch.compile`` compiles the model.
        is_autocast: If True, the forward pass alone has this precision, by autocast;
            otherwise the model and its inputs have it.
    """

    device: str = "cpu"
    dtype: torch.dtype | None = None
    optimizer: Callable[[list[nn.Parameter]], Optimizer] = _sgd
    parts: int = PARTS
    compiles: bool = False
    is_autocast: bool = True

    def model(self, case: Architecture) -> nn.Module:
        """Return the model of a case on the device."""
        with torch.device(self.device):
            model = case.model()
        return model if self.is_autocast else model.to(self.dtype)

    def data(self, case: Architecture) -> Data:
        """Return the data of a case on the device."""
        x, y = case.data()
        is_cast = not self.is_autocast and x.is_floating_point()
        return x.to(self.device, self.dtype if is_cast else x.dtype), y.to(self.device)

    def optimizer_of(self, model: nn.Module) -> Optimizer:
        """Return the optimizer of the parameters that are trained."""
        return self.optimizer(_trained(model))

    def loss(self, model: nn.Module, x: Tensor, y: Tensor, loss: Loss) -> Any:
        """Return the loss of the model's outputs, in the precision of the setting."""
        is_on = self.is_autocast and self.dtype is not None
        with torch.autocast(self.device.split(":")[0], self.dtype, enabled=is_on):
            return loss(model(x), y)

    def called(self, model: nn.Module) -> nn.Module:
        """Return the model to be called, compiled if ``compiles`` is set."""
        if self.compiles:
            return cast("nn.Module", torch.compile(model))
        return model


ON_CPU = Setting()


def ordinary(case: Architecture, setting: Setting = ON_CPU) -> Part:
    """Return the ordinary step, which is not private."""
    model, (x, y) = setting.model(case), setting.data(case)
    optimizer = setting.optimizer_of(model)
    called = setting.called(model)

    return _part(
        lambda: setting.loss(called, x, y, case.loss) / setting.parts, optimizer
    )


def _normals(case: Architecture, setting: Setting = ON_CPU) -> Part:
    """Returns the draw of one of torch's normal numbers per trained parameter.

    The floor is its time plus the time of the ordinary step: the lower limit for
    private steps that draw noise at the speed of torch.
    """
    trained = _trained(setting.model(case))
    noise = torch.empty(sum(p.numel() for p in trained), device=setting.device)

    def part(ends: bool) -> None:
        if ends:
            noise.normal_()

    return part


def make_private(
    model: nn.Module, optimizer: Optimizer, batch_size: int, **options: Any
) -> None:
    """Attach an engine with logical batches of this size, in any physical batches."""
    arguments = {
        "noise_multiplier": NOISE_MULTIPLIER,
        "max_grad_norm": CLIPPING_BOUND,
        "clipping_fn": "Abadi",
        "sampling": "unchecked",
        **options,
    }
    PrivacyEngine(
        model,
        batch_size=batch_size,
        sample_size=SAMPLE_SIZE,
        steps=SAMPLE_SIZE,
        **arguments,
    ).attach(optimizer)


def hooks(case: Architecture, setting: Setting = ON_CPU, **options: Any) -> Part:
    """Return this library's step; ``options`` are arguments of the engine."""
    model, (x, y) = setting.model(case), setting.data(case)
    optimizer = setting.optimizer_of(model)
    samples = len(y) // options.get("augmentation_multiplicity", 1)
    make_private(model, optimizer, setting.parts * samples, **options)
    called = setting.called(model)

    return _part(lambda: setting.loss(called, x, y, case.loss), optimizer)


def _opacus(mode: str, case: Architecture, setting: Setting = ON_CPU) -> Part:
    """Return Opacus's step, with per-sample gradients ("hooks") or "ghost" norms."""
    warnings.simplefilter("ignore")
    opacus = importlib.import_module("opacus")
    validators = importlib.import_module("opacus.validators")

    model = validators.ModuleValidator.fix(setting.model(case)).to(setting.device)
    x, y = setting.data(case)
    private = opacus.PrivacyEngine().make_private(
        module=model,
        optimizer=setting.optimizer_of(model),
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

    def ghost_loss(scores: Tensor, targets: Tensor) -> Any:
        if not case.targets:
            return private[2](scores, targets)
        words = scores.flatten(0, 1), targets.flatten()
        return private[2](*words, shape=scores.shape)  # the mean over a text's words

    loss: Loss = ghost_loss if mode == "ghost" else case.loss

    def part(ends: bool) -> None:
        optimizer.signal_skip_step(do_skip=not ends)
        setting.loss(module, x, y, loss).backward()
        optimizer.step()
        optimizer.zero_grad()

    return part


def fastdp(case: Architecture, setting: Setting = ON_CPU) -> Part:
    """Return FastDP's step (``clipping_mode="MixOpt"``).

    FastDP is in no package index: its checkout must be on PYTHONPATH.

    Raises:
        NotImplementedError: FastDP has no rule for a layer of the model.
    """
    warnings.simplefilter("ignore")
    model, (x, y) = setting.model(case), setting.data(case)
    if any(isinstance(module, nn.RNNBase) for module in model.modules()):
        raise NotImplementedError("FastDP has no rule for recurrent layers")
    optimizer = setting.optimizer_of(model)
    importlib.import_module("fastDP").PrivacyEngine(
        model,
        batch_size=setting.parts * len(y),
        sample_size=SAMPLE_SIZE,
        epochs=1,
        noise_multiplier=NOISE_MULTIPLIER,
        max_grad_norm=CLIPPING_BOUND,
        clipping_fn="Abadi",
    ).attach(optimizer)

    return _part(lambda: setting.loss(model, x, y, case.loss), optimizer)


opacus_hooks, opacus_ghost = partial(_opacus, "hooks"), partial(_opacus, "ghost")

WAYS: dict[str, tuple[str, Callable[..., Part]]] = {
    "ordinary": ("ordinary", ordinary),
    "normals": ("torch's normal numbers", _normals),
    "hooks": ("hooks", hooks),
    "opacus_hooks": ("Opacus hooks", opacus_hooks),
    "opacus_ghost": ("Opacus ghost", opacus_ghost),
}
"""{name: (label in tables, maker of a part)}"""


def reason_to_skip(way: str) -> str:
    """Return the reason why a method is skipped, "" if it is not."""
    if way.startswith("opacus") and importlib.util.find_spec("opacus") is None:
        return NO_OPACUS
    return ""


def _part(loss: Callable[[], Any], optimizer: Optimizer) -> Part:
    """Return a part from its loss."""

    def part(ends: bool) -> None:
        loss().backward()
        if ends:
            optimizer.step()
            optimizer.zero_grad()

    return part


def _trained(model: nn.Module) -> list[nn.Parameter]:
    return [p for p in model.parameters() if p.requires_grad]

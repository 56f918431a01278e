"""Methods for one training step, by name.

A step is forward, backward, per-sample clipping, noise and an SGD update, always on the
same batch.  Ratios are to the ordinary step, which is not private.
"""

from __future__ import annotations

import importlib.util
import math
import re
import warnings
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from benchmarks.models import Case
from dpsgd_explorer.dp.backends.heap import HEAP, KEEP_FREED
from dpsgd_explorer.dp.config import ENGINES
from dpsgd_explorer.dp.engines.base import PerSampleGradients
from dpsgd_explorer.training.cpu import kernels
from dpsgd_explorer.training.timing import (
    CLIPPING_BOUND,
    LEARNING_RATE,
    NOISE_MULTIPLIER,
    Step,
    ordinary_step,
    private_step,
    sgd_step,
)

Data = tuple[Tensor, Tensor]
Maker = Callable[[nn.Module, Data], Step]


def _engine(engine: str) -> Maker:
    return lambda model, data: private_step(model, data, engine)[1]


def _with_kernels(make: Maker) -> Maker:
    """Return the method inside ``training.cpu.kernels.in_use``."""

    def with_kernels(model: nn.Module, data: Data) -> Step:
        return replace(make(model, data), during=partial(kernels.in_use, model))

    return with_kernels


def _with_noise(model: nn.Module, data: Data) -> Step:
    """Returns torch's own step plus one of torch's normal numbers per parameter.

    Nothing is clipped and nothing is private: this is the lower limit for private steps
    that draw noise at the speed of torch.
    """
    step = ordinary_step(model, data)
    noise = torch.empty(sum(p.numel() for p in model.parameters()))

    def run() -> None:
        step.run()
        noise.normal_()

    return replace(step, run=run)


def _unclipped(model: nn.Module, data: Data) -> Step:
    """Returns the step whose weighted sum the engine computes, with all weights 1.

    No norm is computed, nothing is clipped and no noise is added: the
    private step still stores inputs and backprops and multiplies them.
    """
    engine = ENGINES["hooks"](model, clipping_mode="MixOpt", loss_reduction="mean")
    parameters = engine.parameters()
    sums = {
        unit: {name: torch.zeros_like(p) for name, p in own.items()}
        for unit, own in parameters.items()
    }
    size = len(data[1])
    weights = dict.fromkeys(parameters, torch.ones(size))

    def add_up(gradients: PerSampleGradients) -> None:
        gradients.add_weighted(weights, sums)
        for unit, own in parameters.items():
            for name, parameter in own.items():
                parameter.grad = sums[unit][name].div_(size)

    engine.on_gradients = add_up
    engine.start()
    step = sgd_step(model, data, torch.optim.SGD(model.parameters(), lr=LEARNING_RATE))

    def run() -> None:
        step.run()
        for own in sums.values():
            for total in own.values():
                total.zero_()

    return Step(run, partial(HEAP.applied, KEEP_FREED))


def _functional(model: nn.Module, data: Data) -> Step:
    """Return the step with ``vmap(grad(loss))``."""
    x, y = data
    parameters = {name: p.detach() for name, p in model.named_parameters()}

    def loss(values: dict[str, Tensor], sample: Tensor, target: Tensor) -> Tensor:
        scores = functional_call(model, values, (sample.unsqueeze(0),))
        return F.cross_entropy(scores, target.unsqueeze(0))

    gradients_of = vmap(grad(loss), in_dims=(None, 0, 0))

    def step() -> None:
        gradients = gradients_of(parameters, x, y)
        rows = [g.flatten(1).norm(dim=1) for g in gradients.values()]
        norms = torch.stack(rows).norm(dim=0)
        factors = CLIPPING_BOUND / norms.clamp(min=CLIPPING_BOUND)
        for name, g in gradients.items():
            total = torch.tensordot(factors, g, dims=1)
            total += torch.randn_like(total) * (NOISE_MULTIPLIER * CLIPPING_BOUND)
            parameters[name].sub_(total / len(y), alpha=LEARNING_RATE)

    return Step(step)


def _opacus(mode: str) -> Maker:
    """Return Opacus's step, with per-sample gradients ("hooks") or "ghost" norms."""

    def make(model: nn.Module, data: Data) -> Step:
        warnings.simplefilter("ignore")
        import opacus
        from opacus.validators import ModuleValidator

        model = ModuleValidator.fix(model)
        loader = torch.utils.data.DataLoader(
            torch.utils.data.TensorDataset(*data), batch_size=len(data[1])
        )
        private = opacus.PrivacyEngine().make_private(
            module=model,
            optimizer=torch.optim.SGD(model.parameters(), lr=LEARNING_RATE),
            data_loader=loader,
            criterion=nn.CrossEntropyLoss(),
            noise_multiplier=NOISE_MULTIPLIER,
            max_grad_norm=CLIPPING_BOUND,
            poisson_sampling=False,
            grad_sample_mode=mode,
        )
        criterion = private[2] if mode == "ghost" else F.cross_entropy
        return sgd_step(private[0], data, private[1], criterion)

    return make


WAYS: dict[str, tuple[str, Maker]] = {
    "ordinary": ("ordinary SGD", ordinary_step),
    "ordinary_kernels": ("ordinary SGD, our kernels", _with_kernels(ordinary_step)),
    "ordinary_noise": (
        "ordinary SGD and torch's normal numbers, not private",
        _with_noise,
    ),
    "unclipped": ("hooks without norms and noise, not private", _unclipped),
    "hooks": ("hooks", _engine("hooks")),
    "hooks_kernels": ("hooks, our kernels", _with_kernels(_engine("hooks"))),
    "extending": ("extending", _engine("extending")),
    "microbatch": ("micro-batch loop", _engine("microbatch")),
    "vmap": ("torch.func vmap(grad)", _functional),
    "opacus_hooks": ("Opacus 1.6.0 hooks", _opacus("hooks")),
    "opacus_ghost": ("Opacus 1.6.0 ghost", _opacus("ghost")),
}
"""{name: (label in tables, maker of the step)}"""

STORES_GRADIENTS = {"vmap", "opacus_hooks"}
"""Ways that store the gradients of all samples of a batch together."""


def step_of(way: str, case: Case) -> Step:
    """Return a step of a case, with a new model."""
    return WAYS[way][1](case.model(), case.data())


def prepared(case: Case, ways: Iterable[str]) -> tuple[dict[str, Step], dict[str, str]]:
    """Return {way: step} and {way: reason for leaving it out}."""
    steps: dict[str, Step] = {}
    skipped: dict[str, str] = {}
    for way in ways:
        reason = _reason_to_skip(case, way)
        try:
            if not reason:
                step = step_of(way, case)
                with step.during():
                    step.run()
                steps[way] = step
        except (RuntimeError, ValueError) as error:
            reason = str(error).strip().splitlines()[0]
        if reason:
            skipped[way] = reason
    return steps, skipped


def _reason_to_skip(case: Case, way: str) -> str:
    """Return the reason why a method is skipped for a case, "" if it is not."""
    if way.startswith("opacus") and importlib.util.find_spec("opacus") is None:
        return "opacus is not installed"
    entries = sum(p.numel() for p in case.model().parameters())
    needed = 2 * 4 * case.batch * entries / 2**30
    if way in STORES_GRADIENTS and needed > _available_gib() / 2:
        return f"per-sample gradients take about {needed:.0f} GiB"
    return ""


def _available_gib() -> float:
    """Return the free memory of the machine in GiB."""
    text = Path("/proc/meminfo").read_text(encoding="ascii")
    match = re.search(r"MemAvailable:\s+(\d+) kB", text)
    return int(match[1]) / 2**20 if match else math.inf

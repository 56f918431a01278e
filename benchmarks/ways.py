"""Ways to make one training step; each returns a function that makes one.

A step is forward, backward, per-sample clipping, noise and an SGD update, on the same
batch again and again.  The ordinary step, which nothing protects, is the measure.
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from benchmarks.models import Case
from dpsgd_explorer.dp.kernels import cpu as kernels
from dpsgd_explorer.training.timing import (
    CLIPPING_BOUND,
    LEARNING_RATE,
    NOISE_MULTIPLIER,
    Step,
    ordinary_step,
    private_step,
)


def ordinary(case: Case) -> Step:
    """Return torch's own step, without privacy."""
    return _ordinary(case)[1]


def ordinary_kernels(case: Case) -> Step:
    """Return the same with our faster pieces in place of torch's."""
    return _with_kernels(*_ordinary(case))


def ordinary_noise(case: Case) -> Step:
    """Return torch's own step, and as many of torch's normal numbers as parameters.

    Nothing is clipped and nothing is private: no private step that draws its noise at
    torch's price can take less.
    """
    model, step = _ordinary(case)
    noise = torch.empty(sum(p.numel() for p in model.parameters()))

    def run() -> None:
        step.run()
        noise.normal_()

    return Step(run)


def hooks(case: Case) -> Step:
    """Return the step of ``PrivacyEngine(engine="hooks")``."""
    return _ours(case, "hooks")[1]


def extending(case: Case) -> Step:
    """Return the step of ``PrivacyEngine(engine="extending")``."""
    return _ours(case, "extending")[1]


def hooks_kernels(case: Case) -> Step:
    """Return the same with our faster pieces."""
    return _with_kernels(*_ours(case, "hooks"))


def microbatch(case: Case) -> Step:
    """Return the step that runs one sample at a time."""
    return _ours(case, "microbatch")[1]


def opacus_hooks(case: Case) -> Step:
    """Return Opacus's step with instantiated per-sample gradients."""
    return _opacus(case, "hooks")


def opacus_ghost(case: Case) -> Step:
    """Return Opacus's step with ghost norms and two backward passes."""
    return _opacus(case, "ghost")


def functional(case: Case) -> Step:
    """Return the step made of ``vmap(grad(loss))``."""
    model, (x, y) = case.model(), case.data()
    parameters = {name: p.detach() for name, p in model.named_parameters()}

    def loss(values: dict[str, Tensor], own_x: Tensor, own_y: Tensor) -> Tensor:
        scores = functional_call(model, values, (own_x.unsqueeze(0),))
        return F.cross_entropy(scores, own_y.unsqueeze(0))

    gradients_of = vmap(grad(loss), in_dims=(None, 0, 0))

    def step() -> None:
        gradients = gradients_of(parameters, x, y)
        rows = [g.flatten(1).norm(dim=1) for g in gradients.values()]
        norms = torch.stack(rows).norm(dim=0)
        factors = CLIPPING_BOUND / norms.clamp(min=CLIPPING_BOUND)
        for name, g in gradients.items():
            total = torch.tensordot(factors, g, dims=1)
            total += torch.randn_like(total) * (NOISE_MULTIPLIER * CLIPPING_BOUND)
            parameters[name].sub_(total / case.batch, alpha=LEARNING_RATE)

    return Step(step)


#: name: (what it is called in tables, how to make its step)
WAYS: dict[str, tuple[str, Callable[[Case], Step]]] = {
    "ordinary": ("ordinary SGD", ordinary),
    "ordinary_kernels": ("ordinary SGD, our kernels", ordinary_kernels),
    "ordinary_noise": (
        "ordinary SGD and torch's normal numbers, not private",
        ordinary_noise,
    ),
    "hooks": ("hooks", hooks),
    "hooks_kernels": ("hooks, our kernels", hooks_kernels),
    "extending": ("extending", extending),
    "microbatch": ("micro-batch loop", microbatch),
    "vmap": ("torch.func vmap(grad)", functional),
    "opacus_hooks": ("Opacus 1.6.0 hooks", opacus_hooks),
    "opacus_ghost": ("Opacus 1.6.0 ghost", opacus_ghost),
}

STORES_GRADIENTS = {"vmap", "opacus_hooks"}
"""Ways that hold every sample's gradient at once."""


def missing(way: str) -> str:
    """Return why a way cannot be measured here, "" if it can."""
    if way.startswith("opacus") and importlib.util.find_spec("opacus") is None:
        return "opacus is not installed"
    return ""


def _ordinary(case: Case) -> tuple[nn.Module, Step]:
    model = case.model()
    return model, ordinary_step(model, case.data())


def _with_kernels(model: nn.Module, step: Step) -> Step:
    return replace(step, during=partial(kernels.in_use, model))


def _ours(case: Case, engine: str) -> tuple[nn.Module, Step]:
    model = case.model()
    return model, private_step(model, case.data(), engine)[1]


def _opacus(case: Case, mode: str) -> Step:
    warnings.simplefilter("ignore")
    import opacus
    from opacus.validators import ModuleValidator

    (x, y) = case.data()
    model = ModuleValidator.fix(case.model())
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    loader = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(x, y), batch_size=case.batch
    )
    made = opacus.PrivacyEngine().make_private(
        module=model,
        optimizer=optimizer,
        data_loader=loader,
        criterion=nn.CrossEntropyLoss(),
        noise_multiplier=NOISE_MULTIPLIER,
        max_grad_norm=CLIPPING_BOUND,
        poisson_sampling=False,
        grad_sample_mode=mode,
    )
    model, optimizer = made[0], made[1]
    criterion = made[2] if mode == "ghost" else F.cross_entropy

    def step() -> None:
        criterion(model(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()

    return Step(step)

"""Per-sample gradients as a plain function."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from dpsgd_explorer.dp.engines.base import PerSampleGradients
from dpsgd_explorer.dp.engines.hooks import HooksEngine
from dpsgd_explorer.dp.modules.probe_inputs import SAMPLES
from dpsgd_explorer.dp.modules.refused import refuse_uninitialized
from dpsgd_explorer.dp.safety.passes import LossFunction, compare_sizes, undisturbed


def per_sample_gradients(
    model: nn.Module, loss_fn: LossFunction, x: Tensor, y: Tensor
) -> dict[str, Tensor]:
    """Return ``{parameter's name: [B, *shape]}``, row i of sample i's own loss.

    One forward and one backward pass.  The loss is evaluated on each sample alone, so
    ``loss_fn`` may be a mean or a sum.  The gradients are neither clipped nor noised:
    not private.

    Args:
        model: Modules that mix samples are not refused here.
        loss_fn: ``loss_fn(outputs, targets)``, a number.
        x: Inputs, [B, ...].
        y: Targets, [B, ...].

    Raises:
        UnsupportedModuleError: a trainable module has no rule.
    """
    refuse_uninitialized(model)
    gradient_engine = HooksEngine(
        model, clipping_mode="instantiate", loss_reduction="sum"
    )
    received: list[PerSampleGradients] = []
    gradient_engine.on_gradients = received.append
    gradient_engine.start()
    try:
        with torch.enable_grad():
            _learn_batch_dims(gradient_engine, x)
            outputs = model(x)
            rows = [slice(i, i + 1) for i in range(len(x))]
            losses = [loss_fn(outputs[row], y[row]) for row in rows]
            loss = torch.stack(losses).sum() if losses else outputs.sum()
            loss.backward()
    finally:
        gradient_engine.stop()
    gradients = received[0].materialize()
    return {
        name: gradients[name] if name in gradients else p.new_zeros(len(x), *p.shape)
        for name, p in model.named_parameters()
        if p.requires_grad
    }


def _learn_batch_dims(gradient_engine: HooksEngine, x: Tensor) -> None:
    """Run passes of two batch sizes, as the safety check of the engine does."""
    if not len(x):
        return
    with undisturbed(gradient_engine):
        gradient_engine.module.eval()
        rows = torch.arange(SAMPLES, device=x.device) % len(x)
        compare_sizes(gradient_engine, ((x[rows],), {}), ((x[rows[:-1]],), {}))

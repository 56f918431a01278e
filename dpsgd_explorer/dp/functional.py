"""Functions for use with an engine: per-sample gradients and means, views, averages.

With augmentation multiplicity, a sample's gradient is the mean over its K views.  The
views are averaged before clipping, so a record is clipped once, and more views cost
time but no privacy.  The average of noisy models contains less noise than the last
model.  It is post-processing of released parameters, so it costs no privacy.

Source: De et al. (2022), arXiv:2204.13650, sections 3.2 and 3.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Self

import torch
from torch import Tensor, nn

from dpsgd_explorer.dp.backends import backend_of
from dpsgd_explorer.dp.checks.loss.marks import mark_mean
from dpsgd_explorer.dp.checks.passes import LossFunction, compare_sizes, undisturbed
from dpsgd_explorer.dp.clipping.clipped_sum import Parameters
from dpsgd_explorer.dp.engines.base import (
    GradientSums,
    NormTerm,
    PerSampleGradients,
    full_name,
)
from dpsgd_explorer.dp.engines.hooks import HooksEngine
from dpsgd_explorer.dp.layers.base import gradient_squared_norms
from dpsgd_explorer.dp.modules.probe_inputs import SAMPLES
from dpsgd_explorer.dp.modules.rejected import check_initialized
from dpsgd_explorer.errors import ConfigError, PrivacyError
from dpsgd_explorer.validation import finite, shown


def per_sample_gradients(
    model: nn.Module, loss_fn: LossFunction, x: Tensor, y: Tensor
) -> dict[str, Tensor]:
    """Returns the gradient of each sample's loss, neither clipped nor noised.

    The result is not private.  It takes one forward and one backward pass of the model.
    The loss is evaluated on each sample separately, so ``loss_fn`` may be a mean or a
    sum.

    Args:
        model: The model.  It must not mix samples, as batch normalization does; this
            function does not check it (``dp.examine`` does).
        loss_fn: ``loss_fn(outputs, targets)``, which returns a tensor with one number.
        x: Inputs, tensor ``(B, ...)``.
        y: Targets, tensor ``(B, ...)``.

    Returns:
        ``{name: gradients}`` of the parameters with ``requires_grad``: the gradients of
        a parameter have shape ``(B, *parameter.shape)``, and row i is of sample i.

    Raises:
        UnsupportedModuleError: the gradients of a trainable module cannot be computed
            by sample, or a lazy layer had no forward pass yet.

    Source: Goodfellow (2015), arXiv:1510.01799 (gradients from the inputs of layers and
    the gradients of their outputs).

    Example:
        >>> import torch
        >>> from torch import nn
        >>> from dpsgd_explorer import dp
        >>> model = nn.Linear(3, 1)
        >>> x, y = torch.randn(8, 3), torch.randn(8, 1)
        >>> gradients = dp.per_sample_gradients(model, nn.functional.mse_loss, x, y)
        >>> {name: tuple(g.shape) for name, g in gradients.items()}
        {'weight': (8, 1, 3), 'bias': (8, 1)}
    """
    check_initialized(model)
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


def per_sample_mean(losses: Tensor, mask: Tensor | None = None) -> Tensor:
    """Returns the mean over samples of each sample's mean over its tokens.

    The formula is sum_i (sum_t mask_it losses_it / sum_t mask_it) / B.  Use this
    function if samples have different numbers of tokens.  A mean over all tokens of the
    batch would also divide by the tokens of other samples, so clipping would not bound
    the influence of one sample.  This function divides by B and by the token count of
    the sample.  A sample without tokens adds 0.

    Args:
        losses: Tensor ``(B,)`` or ``(B, T, ...)``, as a loss with ``reduction="none"``
            returns it.
        mask: Tensor with the shape of the losses.  If bool, True marks the tokens that
            count; if numbers, they are weights >= 0.  If None, all tokens count.

    Returns:
        The loss, a tensor with one number.  Call ``backward()`` on it.

    Raises:
        ConfigError: the shapes differ, or there is no dimension of samples.

    Example:
        >>> import torch
        >>> from dpsgd_explorer import dp
        >>> losses = torch.tensor([[1.0, 3.0], [5.0, 0.0]])
        >>> mask = torch.tensor([[True, True], [True, False]])
        >>> dp.per_sample_mean(losses, mask)  # (2 + 5) / 2
        tensor(3.5000)
    """
    if losses.dim() == 0:
        raise ConfigError(
            "losses",
            "losses must have one row for each sample, [B] or [B, T], got a single "
            'number. Compute them with reduction="none".',
        )
    if mask is not None and mask.shape != losses.shape:
        raise ConfigError(
            "mask",
            f"mask must have the shape of the losses, {list(losses.shape)}, got "
            f"{list(mask.shape)}.",
        )
    loss = _mean_of_samples(losses, mask)
    mark_mean(loss, losses)
    return loss


def _mean_of_samples(losses: Tensor, mask: Tensor | None) -> Tensor:
    weights = torch.ones_like(losses) if mask is None else mask.detach().to(losses)
    weights = weights.flatten(1) if losses.dim() > 1 else weights[:, None]
    total = weights.sum(1, keepdim=True)
    share = weights / torch.where(total > 0, total, 1) / max(len(losses), 1)
    # Masked losses are replaced by 0, since 0 times an infinite loss would be NaN.
    counted = torch.where(share > 0, losses.reshape(share.shape), 0)
    return (counted * share).sum()


def _learn_batch_dims(gradient_engine: HooksEngine, x: Tensor) -> None:
    """Runs passes of two batch sizes, as the safety check of the engine does."""
    if not len(x):
        return
    with undisturbed(gradient_engine):
        gradient_engine.module.eval()
        rows = torch.arange(SAMPLES, device=x.device) % len(x)
        compare_sizes(gradient_engine, ((x[rows],), {}), ((x[rows[:-1]],), {}))


def views(
    batch: Tensor, multiplicity: int, augment: Callable[[Tensor], Tensor] | None = None
) -> Tensor:
    """Returns ``multiplicity`` views of each row, next to each other.

    Give the engine ``augmentation_multiplicity=K``: it then averages the gradients of
    the K views of a sample before clipping.

    Args:
        batch: Inputs or targets, tensor ``(B, ...)``.
        multiplicity: Views per row, K.
        augment: Function from a tensor ``(B K, ...)`` to a tensor of B K augmented
            rows.  It must treat each row independently of the others.  If None, the
            views are copies.

    Returns:
        Tensor ``(B K, ...)``: the views of row i are rows i K to i K + K - 1.

    Source: De et al. (2022), arXiv:2204.13650 (augmentation multiplicity).

    Example:
        >>> import torch
        >>> from dpsgd_explorer import dp
        >>> dp.views(torch.tensor([1.0, 2.0]), 3)
        tensor([1., 1., 1., 2., 2., 2.])
        >>> noisy = dp.views(torch.zeros(5, 8), 3, lambda x: x + torch.randn_like(x))
        >>> noisy.shape
        torch.Size([15, 8])
    """
    rows = batch.repeat_interleave(multiplicity, dim=0)
    return rows if augment is None else augment(rows)


class AveragedViews(PerSampleGradients):
    """The gradients of samples, as means over the gradients of their views.

    Args:
        rows: Gradients of all B K views; the views of a sample are next to each other.
        multiplicity: Number of views per sample, K.
        parameters: {unit: {local name: parameter}}; a norm is computed per unit.

    Raises:
        PrivacyError: the number of rows is not a multiple of K.
    """

    def __init__(
        self, rows: PerSampleGradients, multiplicity: int, parameters: Parameters
    ) -> None:
        if len(rows) % multiplicity:
            raise PrivacyError(
                f"a batch must contain {multiplicity} views of each sample "
                f"(augmentation_multiplicity), got {len(rows)} rows. Create the views "
                "with dp.views."
            )
        self._rows, self._views, self._parameters = rows, multiplicity, parameters
        self._means: dict[str, Tensor] = {}

    def __len__(self) -> int:
        return len(self._rows) // self._views

    def norm_terms(self) -> list[NormTerm]:
        means = self._means = self.materialize()
        norms = []
        for unit, parameters in self._parameters.items():
            names = [full_name(unit, local) for local in parameters]
            gradients = {name: means[name] for name in names if name in means}
            if gradients:  # the layer ran
                norms.append((unit, gradient_squared_norms(gradients)))
        return norms

    def add_weighted(self, weights: Mapping[str, Tensor], sums: GradientSums) -> None:
        """Adds the weighted means over views, from the tensors of the norms if any."""
        means = self._means or self.materialize()
        terms = [
            (means[name], weights[unit], sums[unit][local])
            for unit, parameters in self._parameters.items()
            for local in parameters
            if (name := full_name(unit, local)) in means
        ]
        for gradients, unit_weights, total in terms:
            backend_of(unit_weights).add_weighted([gradients], [unit_weights], [total])

    def materialize(self) -> dict[str, Tensor]:
        return {
            name: rows.reshape(len(self), self._views, *rows.shape[1:]).mean(1)
            for name, rows in self._rows.materialize().items()
        }

    def take(self, index: Tensor | slice) -> Self:
        samples = torch.arange(len(self))[index]
        rows = samples.unsqueeze(1) * self._views + torch.arange(self._views)
        chosen = self._rows.take(rows.flatten())
        views = type(self)(chosen, self._views, self._parameters)
        views._means = {name: g[index] for name, g in self._means.items()}
        return views

    def split(self) -> tuple[Self | None, Iterator[Self]]:
        return None, self._chunks()

    def _chunks(self) -> Iterator[Self]:
        """Yields chunks of samples; the gradients of a chunk's views fit in memory."""
        units = self._parameters.values()
        flat = [p for unit in units for p in unit.values()]
        backend = backend_of(flat[0])
        sample_bytes = self._views * sum(p.numel() * p.element_size() for p in flat)
        size = max(1, backend.chunk_bytes(flat[0].device) // max(1, sample_bytes))
        if len(self) <= size:
            yield self
            return
        for start in range(0, len(self), size):
            yield self.take(slice(start, start + size))


class ParameterAverage:
    """A running average of a model's trainable parameters.

    The average of noisy models contains less noise than the last of them.  It is
    computed from released parameters, so it costs no privacy.

    After t updates the decay is the smaller of (1 + t) / (10 + t) and ``decay``, so
    that the initial parameters soon lose their weight.

    Args:
        module: The model; call ``update`` after each optimizer step.
        decay: Weight of the previous average, between 0 and 1.

    Attributes:
        updates: Number of updates so far.

    Raises:
        ConfigError: the decay is outside its domain.
        UnsupportedModuleError: a lazy layer had no forward pass yet.

    Source: De et al. (2022), arXiv:2204.13650 (parameter averaging).

    Example:
        >>> import torch
        >>> from dpsgd_explorer import dp
        >>> model = torch.nn.PReLU(init=0.0)
        >>> average = dp.ParameterAverage(model, decay=0.5)
        >>> for step in range(3):
        ...     _ = torch.nn.init.ones_(model.weight)  # stands for optimizer.step()
        ...     average.update()
        >>> with average.in_use():  # evaluate or save the averaged model here
        ...     print(model.weight.item() > 0.99)
        True
        >>> average
        ParameterAverage(1 parameters, decay=0.5, 3 updates)
    """

    def __init__(self, module: nn.Module, decay: float = 0.9999) -> None:
        check_initialized(module)
        given, decay = shown(decay), finite("decay", decay)
        if not 0 < decay < 1:
            raise ConfigError("decay", f"decay must be between 0 and 1, got {given}.")
        self._parameters = {
            name: p for name, p in module.named_parameters() if p.requires_grad
        }
        self._decay = decay
        self._averages = {n: p.detach().clone() for n, p in self._parameters.items()}
        self.updates = 0

    def __repr__(self) -> str:
        return (
            f"ParameterAverage({len(self._averages)} parameters, decay={self._decay}, "
            f"{self.updates} updates)"
        )

    @torch.no_grad()
    def update(self) -> None:
        """Adds the current parameters to the average."""
        decay = min(self._decay, (1 + self.updates) / (10 + self.updates))
        for name, parameter in self._parameters.items():
            self._averages[name].lerp_(parameter, 1 - decay)
        self.updates += 1

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Puts the averages into the module within a ``with`` block.

        The current parameters return at the end of the block.
        """
        current = {name: p.detach().clone() for name, p in self._parameters.items()}
        self._put(self._averages)
        try:
            yield
        finally:
            self._put(current)

    def state_dict(self) -> dict[str, Any]:
        """Returns tensors and numbers for ``load_state_dict``."""
        averages = {name: value.clone() for name, value in self._averages.items()}
        return {"updates": self.updates, "averages": averages}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues from a saved average.

        Args:
            state: The result of ``state_dict``.

        Raises:
            ConfigError: the state belongs to other parameters.
        """
        if state["averages"].keys() != self._averages.keys():
            raise ConfigError(
                "averages",
                "the saved averages must belong to this module's trainable parameters, "
                f"{', '.join(self._averages)}, got {', '.join(state['averages'])}.",
            )
        self.updates = state["updates"]
        self._averages = {n: value.clone() for n, value in state["averages"].items()}

    @torch.no_grad()
    def _put(self, values: dict[str, Tensor]) -> None:
        for name, parameter in self._parameters.items():
            parameter.copy_(values[name])

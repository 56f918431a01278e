"""Compares a layer's rule with the gradients of autograd, one backward per sample."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from dpsgd_explorer.dp.engines.base import batch_size_of
from dpsgd_explorer.dp.layers import rule_for
from dpsgd_explorer.dp.layers.base import BadInputError, GradientRule
from dpsgd_explorer.errors import ConfigError, UnsupportedModuleError

#: {dtype: largest error of an entry, relative to the largest entry}, for sums of some
#: thousand products that autograd adds in another order.
TOLERANCES = {torch.float64: 1e-9, torch.float32: 1e-4}
#: Tolerance of dtypes with less precision than float32.
LOW_PRECISION_TOLERANCE = 2e-2
#: Seed of the random gradients of the output.
SEED = 0

#: {name of a parameter: per-sample gradients [B, *shape]}.
Gradients = Mapping[str, Tensor]


def check_rule(
    layer: nn.Module,
    inputs: Tensor | tuple[Any, ...],
    *,
    rule: GradientRule[Any, Any] | None = None,
) -> None:
    """Compares every method of a layer's rule with autograd, sample by sample.

    The gradients of autograd are computed by one backward per sample, for random
    gradients of the layer's output.  Compare in float64: its tolerance is 1e-9 of the
    largest entry (float32: 1e-4).

    The engine checks each rule at the first pass, too, but sees sums over the samples
    only.  Call this function in the tests of your rule.

    Args:
        layer: A layer without random draws, for example without dropout.
        inputs: The input of the layer, or a tuple of its positional arguments.  The
            first dimension of each tensor counts the samples, ``(B, ...)``; pass two
            samples or more.
        rule: The rule; by default the registered rule of the layer's class.

    Raises:
        UnsupportedModuleError: a method of the rule returns something else than
            autograd; the message names the class and the method.
        ConfigError: the layer has no such rule or nothing to train, or the inputs are
            not a batch for the layer.

    Source: Goodfellow (2015), arXiv:1510.01799 (gradients from the inputs of layers and
    the gradients of their outputs).

    Example:
        >>> import torch
        >>> from torch import nn
        >>> from dpsgd_explorer import dp
        >>> class Scale(nn.Module):
        ...     def __init__(self, features):
        ...         super().__init__()
        ...         self.weight = nn.Parameter(torch.ones(features))
        ...
        ...     def forward(self, x):  # (B, T, d)
        ...         return x * self.weight
        >>> class ScaleRule(dp.LayerRule[Scale]):
        ...     parameter_names = ("weight",)
        ...
        ...     def per_sample_gradients(self, layer, activations, backprops):
        ...         return {"weight": (activations * backprops).sum(1)}
        >>> layer, x = Scale(3).double(), torch.randn(5, 4, 3, dtype=torch.float64)
        >>> dp.check_rule(layer, x, rule=ScaleRule())
    """
    args = inputs if isinstance(inputs, tuple) else (inputs,)
    _check_batch(args)
    checked = rule_for(layer) if rule is None else rule
    if not isinstance(checked, GradientRule):
        raise ConfigError(
            "layer" if rule is None else "rule",
            "the rule must be an instance of a LayerRule or GradientRule, got "
            f"{checked!r} for {layer!r}. Pass the rule, or register it first.",
        )
    reason = checked.refusal(layer)
    if reason:
        raise UnsupportedModuleError(f"{layer!r} cannot be trained: {reason}.")
    # Neither layer nor inputs nor torch's generators are changed by the calls.
    with torch.random.fork_rng():
        case = _Case.of(checked, *copy.deepcopy((layer, args)))
        for name, compare in _COMPARISONS.items():
            reason = compare(case)
            if reason:
                method = f"{type(checked).__name__}.{name}"
                raise UnsupportedModuleError(
                    f"{method} must agree with autograd: {reason}"
                )


def _check_batch(args: tuple[Any, ...]) -> None:
    """Raises unless all tensors are finite and have the same two samples or more.

    One sample alone would not show weights of the wrong sample.
    """
    sizes = {
        value.shape[0] if value.dim() else 0
        for value in args
        if isinstance(value, Tensor)
    }
    if len(sizes) != 1 or min(sizes) < 2:
        got = ", ".join(map(str, sorted(sizes))) or "no tensor"
        raise ConfigError(
            "inputs",
            "inputs must be a tensor, or a tuple with tensors, of the same two samples "
            f"or more in the first dimension, got {got}.",
        )
    if not all(x.isfinite().all() for x in args if isinstance(x, Tensor)):
        raise ConfigError("inputs", "inputs must be finite.")


class _Case(NamedTuple):
    """A call of a layer, and the gradients that autograd computes for it.

    Attributes:
        rule: The rule.
        layer: The layer.
        activations: The values that the rule saves in the forward.
        backprops: Gradients of the output [B, ...].
        expected: Gradients of autograd.
        tolerance: Largest error of an entry, relative to the largest entry.
    """

    rule: GradientRule[Any, Any]
    layer: nn.Module
    activations: Any
    backprops: Tensor
    expected: Gradients
    tolerance: float

    @classmethod
    def of(
        cls, rule: GradientRule[Any, Any], layer: nn.Module, args: tuple[Any, ...]
    ) -> _Case:
        parameters = {
            name: parameter
            for name, parameter in layer.named_parameters(recurse=False)
            if parameter.requires_grad
        }
        if not parameters:
            raise ConfigError(
                "layer",
                f"layer must have trainable parameters of its own, got {layer!r}.",
            )
        unknown = [name for name in parameters if not rule.knows(layer, name)]
        if unknown:
            raise UnsupportedModuleError(
                f"{type(rule).__name__}.parameter_names must contain the trainable "
                f"parameters of the layer; it lacks {', '.join(unknown)}."
            )
        try:
            rule.check(layer, args, {})
        except BadInputError as error:
            raise ConfigError(
                "inputs", f"inputs must be a batch for {layer!r}: it {error}."
            ) from error
        with torch.no_grad():
            outputs = layer(*args)
            if not isinstance(outputs, Tensor):
                raise ConfigError(
                    "layer",
                    "layer must return a tensor, got the type "
                    f"{type(outputs).__name__} from {layer!r}.",
                )
            activations = rule.saved_activations(layer, args, {})
        generator = torch.Generator().manual_seed(SEED)
        backprops = torch.randn(outputs.shape, generator=generator).to(outputs)
        return cls(
            rule,
            layer,
            activations,
            backprops,
            _gradients_of_autograd(layer, args, parameters, backprops),
            TOLERANCES.get(outputs.dtype, LOW_PRECISION_TOLERANCE),
        )

    @property
    def call(self) -> tuple[nn.Module, Any, Tensor]:
        """The arguments of a rule's methods."""
        return self.layer, self.activations, self.backprops

    def gradient_error(self, actual: Gradients, expected: Gradients) -> str:
        """Returns how gradients or sums differ from the expected values, or ""."""
        is_mapping = isinstance(actual, Mapping)
        values = list(actual.values()) if is_mapping else []
        if not is_mapping or not all(map(_is_dense, values)):
            return f"it must return a dict of dense tensors, got {actual!r:.200}."
        if actual.keys() != expected.keys():
            return (
                f"parameters must be {', '.join(sorted(expected))}, "
                f"got {', '.join(sorted(actual)) or 'none'}."
            )
        for name, gradient in expected.items():
            if actual[name].shape != gradient.shape:
                return (
                    f"the gradient of {name} must have shape {list(gradient.shape)}, "
                    f"got {list(actual[name].shape)}."
                )
            error = _largest(actual[name].double() - gradient.double())
            largest = _largest(gradient.double())
            if not error <= self.tolerance * max(largest, self.tolerance):
                return (
                    f"the gradient of {name} is wrong by {error:.3g}, where the "
                    f"largest entry is {largest:.3g}."
                )
        return ""

    def norm_error(self, squared_norms: Tensor) -> str:
        """Returns which norm is smaller than the norm of the gradient, or ""."""
        size = len(self.backprops)
        if squared_norms.shape != (size,):
            return f"norms must have shape [{size}], got {list(squared_norms.shape)}."
        norms = squared_norms.double().sqrt()
        gradients = self.expected.values()
        squares = [g.double().flatten(1).square().sum(1) for g in gradients]
        expected_norms = torch.stack(squares).sum(0).sqrt()
        for i, (norm, expected) in enumerate(zip(norms, expected_norms, strict=True)):
            if not norm >= expected * (1 - self.tolerance):
                return (
                    f"the norm of sample {i} must not be smaller than {expected:.6g}, "
                    f"got {norm:.6g}."
                )
        return ""


def _is_dense(values: object) -> bool:
    return isinstance(values, Tensor) and values.layout is torch.strided


def _largest(values: Tensor) -> float:
    return float(values.abs().max()) if values.numel() else 0.0


def _gradients_of_autograd(
    layer: nn.Module,
    args: tuple[Any, ...],
    parameters: Mapping[str, nn.Parameter],
    backprops: Tensor,
) -> Gradients:
    rows: list[list[Tensor]] = []
    for i in range(batch_size_of(args, {})):
        row = [x[i : i + 1] if isinstance(x, Tensor) else x for x in args]
        with torch.enable_grad():
            outputs = layer(*row)
        if backprops[i : i + 1].shape != outputs.shape:
            raise ConfigError(
                "inputs",
                "inputs must have one row per sample in the first dimension: the "
                f"layer returned shape {list(backprops.shape)} for all rows and "
                f"{list(outputs.shape)} for one.",
            )
        rows.append(
            list(
                torch.autograd.grad(
                    outputs,
                    [*parameters.values()],
                    backprops[i : i + 1],
                    materialize_grads=True,
                )
            )
        )
    columns = zip(*rows, strict=True)
    return {
        name: torch.stack(column)
        for name, column in zip(parameters, columns, strict=True)
    }


def _compare_gradients(case: _Case) -> str:
    gradients = case.rule.per_sample_gradients(*case.call)
    return case.gradient_error(gradients, case.expected)


def _compare_bias(case: _Case) -> str:
    if not (case.rule.bias_needs_no_activations and "bias" in case.expected):
        return ""
    with _training_only(case.layer, "bias"):
        gradients = case.rule.per_sample_gradients(case.layer, (), case.backprops)
    reason = case.gradient_error(gradients, {"bias": case.expected["bias"]})
    return reason and f"if the bias alone is trained, {reason}"


def _compare_measured(case: _Case) -> str:
    gradients, norms = case.rule.measured_gradients(*case.call)
    return case.gradient_error(gradients, case.expected) or case.norm_error(norms)


def _compare_linear_form(case: _Case) -> str:
    maps = case.rule.linear_form(*case.call)
    gradients: dict[str, Tensor] = {}
    for suffix, linear in maps.items():
        gradients[f"weight{suffix}"] = linear.backprops.mT @ linear.inputs
        if linear.bias:
            gradients[f"bias{suffix}"] = linear.backprops.sum(1)
    return case.gradient_error(gradients, case.expected) if maps else ""


def _compare_norms(case: _Case) -> str:
    ghost = case.rule.ghost_norm
    return "" if ghost is None else case.norm_error(ghost.squared_norms(*case.call))


def _compare_sums(case: _Case) -> str:
    ghost = case.rule.ghost_norm
    if ghost is None:
        return ""
    # Methods must add to the sums, so the sums begin with ones.
    weights = torch.linspace(0.25, 1, len(case.backprops)).to(case.backprops)
    sums = {name: torch.ones_like(g[0]) for name, g in case.expected.items()}
    expected = {
        name: 1 + torch.tensordot(weights, gradient, 1)
        for name, gradient in case.expected.items()
    }
    ghost.add_weighted(*case.call, weights, sums)
    return case.gradient_error(sums, expected)


def _compare_outer_products(case: _Case) -> str:
    ghost = case.rule.ghost_norm
    products = None if ghost is None else ghost.outer_products(*case.call)
    if products is None:
        return ""
    gradients = {}
    for name, expected in case.expected.items():
        product = products.get(name)
        if product is None:
            continue
        if product.left.dim() == 2:
            gradient = product.rows_added_to(torch.zeros_like(expected))
        else:
            gradient = torch.einsum("btp,btd->bpd", product.left, product.right)
        if gradient.numel() == expected.numel():
            gradient = gradient.reshape(expected.shape)
        gradients[name] = gradient
    return case.gradient_error(gradients, case.expected)


#: {method of the rule: function that returns how it differs from autograd, or ""}.
_COMPARISONS: dict[str, Callable[[_Case], str]] = {
    "per_sample_gradients": _compare_gradients,
    "bias_needs_no_activations": _compare_bias,
    "measured_gradients": _compare_measured,
    "linear_form": _compare_linear_form,
    "ghost_norm.squared_norms": _compare_norms,
    "ghost_norm.add_weighted": _compare_sums,
    "ghost_norm.outer_products": _compare_outer_products,
}


@contextmanager
def _training_only(layer: nn.Module, name: str) -> Iterator[None]:
    """Freezes all parameters of a layer but one in the context."""
    parameters = dict(layer.named_parameters(recurse=False))
    required = {key: p.requires_grad for key, p in parameters.items()}
    try:
        for key, parameter in parameters.items():
            parameter.requires_grad_(key == name)
        yield
    finally:
        for key, parameter in parameters.items():
            parameter.requires_grad_(required[key])

"""Replaces the draws of random operations by their expected values.

Batches of different sizes draw different random masks, so in training mode a sample's
gradients at two sizes differ.  With expected values they must be equal.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from dpsgd_explorer.dp.modules.seeding import seed_draws

aten = torch.ops.aten
DROPOUT_ARGUMENTS = ("dropout_p", "dropout")


def _middle(low: float = 0.0, high: float = 1.0, **_: Any) -> float:
    return (low + high) / 2


def _mean(mean: float = 0.0, std: float = 1.0, **_: Any) -> float:
    return mean


def _mean_wait(lambd: float = 1.0, **_: Any) -> float:
    return 1 / lambd


def _half(p: Any = 0.5, **_: Any) -> Any:
    return p


#: {in-place operation: expected value, from its other arguments}.
FILLS: dict[Any, Callable[..., Any]] = {
    aten.uniform_: _middle,
    aten.normal_: _mean,
    aten.exponential_: _mean_wait,
    aten.bernoulli_: _half,
}
#: {operation that creates a tensor: expected value of its entries}.
CONSTANTS: dict[Any, float] = {
    aten.rand: 0.5,
    aten.rand_like: 0.5,
    aten.randn: 0.0,
    aten.randn_like: 0.0,
}


class _ExpectedDraws(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Replaces the draws of torch's random operations."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if torch.Tag.nondeterministic_seeded not in func.tags:
            return func(*args, **kwargs)
        operation = func.overloadpacket
        if operation in FILLS:
            target, *rest = args
            kwargs.pop("generator", None)
            return _fill(target, FILLS[operation](*rest, **kwargs))
        if operation in CONSTANTS:
            return func(*args, **kwargs).fill_(CONSTANTS[operation])
        if operation in (aten.native_dropout, aten._fused_dropout):
            return args[0].clone(), torch.ones_like(args[0], dtype=torch.bool)
        if operation is aten.bernoulli:
            return _bernoulli(*args)
        # No plain expectation (permutations, indices): the same draw every time.
        seed_draws(0)
        return func(*_without_dropout(func, args), **kwargs)


def expected_draws() -> AbstractContextManager[object]:
    """Return a context in which dropout drops nothing and noise is its mean.

    A random operation without a plain expectation (a permutation, a choice of indices)
    draws from the same seed at every call.
    """
    return _ExpectedDraws()  # type: ignore[no-untyped-call]


def _fill(target: Tensor, value: Any) -> Tensor:
    return target.copy_(value) if isinstance(value, Tensor) else target.fill_(value)


def _bernoulli(probabilities: Tensor, p: Any = None) -> Tensor:
    return probabilities.clone() if p is None else _fill(probabilities.clone(), p)


def _without_dropout(func: Any, args: Any) -> list[Any]:
    """Return the arguments with all dropout rates 0."""
    names = [argument.name for argument in func._schema.arguments]
    return [
        0.0 if name in DROPOUT_ARGUMENTS and isinstance(value, float) else value
        for name, value in zip(names, args, strict=False)
    ]

"""Values that replace a random operation's draws in the safety check.

They are the two ends of the range, points inside it, and the expected value, which does
not depend on the batch size.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from dpsgd_explorer.dp.checks.draw_patterns import HIGH, LOW, share_of

aten = torch.ops.aten
#: Distance of a draw in [0, 1) at an end from 0 or 1: torch draws float32 numbers in
#: steps of 2^-24.
STEP = 2.0**-24
#: Distance of the ends of a normal draw from the mean, in standard deviations.  A draw
#: is further away with probability 2e-9.
MAX_DEVIATIONS = 6.0

#: Arguments of an operation by name; "drawn" is the dtype of the draws.
Arguments = dict[str, Any]
#: The low and the high end of a draw, as numbers or tensors.
Ends = tuple[Any, Any]


def _step(named: Arguments) -> float:
    """Returns STEP, or the larger step below 1 of the draws' dtype."""
    return max(STEP, torch.finfo(named["drawn"]).eps / 2)


def _unit_ends(named: Arguments) -> Ends:
    return STEP, 1 - _step(named)


def _uniform_ends(named: Arguments) -> Ends:
    width = named["to"] - named["from"]
    return named["from"] + STEP * width, named["to"] - _step(named) * width


def _normal_ends(named: Arguments) -> Ends:
    mean, std = named.get("mean", 0.0), named.get("std", 1.0)
    return mean - MAX_DEVIATIONS * std, mean + MAX_DEVIATIONS * std


def _log_normal_ends(named: Arguments) -> Ends:
    low, high = _normal_ends(named)
    return math.exp(low), math.exp(high)


def _integer_ends(named: Arguments) -> Ends:
    return named.get("low", 0), named["high"] - 1


def _random_ends(named: Arguments) -> Ends:
    if named.get("to") is None:  # all whole numbers of the dtype
        dtype = named["drawn"]
        return 0, 2**24 if dtype.is_floating_point else _max_integer(dtype)
    return named.get("from", 0), named["to"] - 1


def _max_integer(dtype: torch.dtype) -> int:
    return 1 if dtype == torch.bool else torch.iinfo(dtype).max


def _bernoulli_ends(named: Arguments) -> Ends:
    """Returns 0 and 1, without a value of probability 0."""
    p = torch.as_tensor(named["p"] if "p" in named else named["self"])
    return (p >= 1).double(), (p > 0).double()


def _geometric_ends(named: Arguments) -> Ends:
    p = named["p"]
    return 1, 1 if p >= 1 else math.ceil(math.log(STEP) / math.log1p(-p))


def _exponential_ends(named: Arguments) -> Ends:
    return STEP / named["lambd"], -math.log(STEP) / named["lambd"]


def _cauchy_ends(named: Arguments) -> Ends:
    reach = named["sigma"] / (math.pi * STEP)
    return named["median"] - reach, named["median"] + reach


def _poisson_ends(named: Arguments) -> Ends:
    mean = named["self"]
    return torch.zeros_like(mean), mean.add(MAX_DEVIATIONS * (mean.sqrt() + 1)).ceil()


def _binomial_ends(named: Arguments) -> Ends:
    least, most = _bernoulli_ends({"p": named["prob"]})
    return named["count"] * least, named["count"] * most


def _gamma_ends(named: Arguments) -> Ends:
    shape = named["self"]
    return shape * STEP, shape + MAX_DEVIATIONS * (shape.sqrt() + 1)


def _dirichlet_ends(named: Arguments) -> Ends:
    """Returns shares with nearly all of the sum in the first, or in the last one."""
    first = torch.full_like(named["self"], STEP)
    first[..., 0] = 1 - STEP * (first.shape[-1] - 1)
    return first, first.flip(-1)


def _multinomial_ends(named: Arguments) -> Ends:
    """Returns the least likely categories, beginning with the first or the second."""
    weights = named["self"]
    order = torch.where(weights > 0, weights, math.inf).argsort(-1)
    return _categories(order, 0, named), _categories(order, 1, named)


def _categories(order: Tensor, first: Any, named: Arguments) -> Tensor:
    """Returns ``num_samples`` categories from an index of an order on.

    With replacement all are equal; without replacement they differ.
    """
    count = (named["self"] > 0).sum(-1, keepdim=True)
    indices = torch.arange(named["num_samples"], device=order.device)
    return order.gather(-1, (first + indices * (not named["replacement"])) % count)


#: {operation: function that returns the ends of its draws}.
ENDS: dict[Any, Callable[[Arguments], Ends]] = {
    aten.rand: _unit_ends,
    aten.rand_like: _unit_ends,
    aten.uniform_: _uniform_ends,
    aten.randn: _normal_ends,
    aten.randn_like: _normal_ends,
    aten.normal: _normal_ends,
    aten.normal_: _normal_ends,
    aten.log_normal_: _log_normal_ends,
    aten.randint: _integer_ends,
    aten.randint_like: _integer_ends,
    aten.random_: _random_ends,
    aten.bernoulli: _bernoulli_ends,
    aten.bernoulli_: _bernoulli_ends,
    aten.geometric_: _geometric_ends,
    aten.exponential_: _exponential_ends,
    aten.cauchy_: _cauchy_ends,
    aten.poisson: _poisson_ends,
    aten.binomial: _binomial_ends,
    aten._standard_gamma: _gamma_ends,
    aten._sample_dirichlet: _dirichlet_ends,
    aten.multinomial: _multinomial_ends,
}


def _number_inside(named: Arguments, share: Any, ends: Ends) -> Any:
    low, high = ends
    return low + share * (high - low)


def _integer_inside(named: Arguments, share: float, ends: Ends) -> Any:
    low, high = ends
    return low + math.floor(share * (high - low + 1))


def _normal_inside(named: Arguments, share: float, ends: Ends) -> Any:
    deviations = float(torch.special.ndtri(torch.tensor(share, dtype=torch.float64)))
    return named.get("mean", 0.0) + deviations * named.get("std", 1.0)


def _exponential_inside(named: Arguments, share: float, ends: Ends) -> Any:
    return -math.log1p(-share) / named["lambd"]


def _multinomial_inside(named: Arguments, share: float, ends: Ends) -> Any:
    """Returns categories at a share of all possible ones, as if equally likely."""
    possible = (named["self"] > 0).int()
    order = possible.argsort(dim=-1, descending=True, stable=True)
    first = torch.floor(share * possible.sum(-1, keepdim=True)).long()
    return _categories(order, first, named)


def _dirichlet_inside(named: Arguments, share: Any, ends: Ends) -> Any:
    """Returns shares: one as given, then equal shares of the rest.

    If a tensor is given, its entries are divided by their sum instead.
    """
    if isinstance(share, Tensor):
        weights = share + STEP
        return weights / weights.sum(-1, keepdim=True)
    shares = torch.full_like(named["self"], (1 - share) / (ends[0].shape[-1] - 1))
    shares[..., 0] = share
    return shares


def _poisson_inside(named: Arguments, share: Any, ends: Ends) -> Any:
    low, high = ends
    return (low + share * (high - low)).ceil()


def _log_normal_inside(named: Arguments, share: float, ends: Ends) -> Any:
    return math.exp(_normal_inside(named, share, ends))


def _geometric_inside(named: Arguments, share: float, ends: Ends) -> Any:
    p = named["p"]
    return 1 if p >= 1 else math.ceil(math.log1p(-share) / math.log1p(-p))


def _cauchy_inside(named: Arguments, share: float, ends: Ends) -> Any:
    return named["median"] + named["sigma"] * math.tan(math.pi * (share - 0.5))


#: {operation: function that returns the value at a share of the range}.  The draws of
#: other operations stay as drawn.
INSIDES: dict[Any, Callable[[Arguments, Any, Ends], Any]] = {
    aten.rand: _number_inside,
    aten.rand_like: _number_inside,
    aten.uniform_: _number_inside,
    aten.randint: _integer_inside,
    aten.randint_like: _integer_inside,
    aten.random_: _integer_inside,
    aten.randn: _normal_inside,
    aten.randn_like: _normal_inside,
    aten.normal: _normal_inside,
    aten.normal_: _normal_inside,
    aten.exponential_: _exponential_inside,
    aten.multinomial: _multinomial_inside,
    aten._sample_dirichlet: _dirichlet_inside,
    aten._standard_gamma: _number_inside,
    aten.log_normal_: _log_normal_inside,
    aten.geometric_: _geometric_inside,
    aten.cauchy_: _cauchy_inside,
    aten.poisson: _poisson_inside,
    aten.binomial: _poisson_inside,
}


def value_at(operation: Any, level: int, named: Arguments) -> Any:
    """Returns the value of a draw at a level; None if the draw stays as drawn.

    Args:
        operation: A key of ENDS.
        level: LOW, HIGH, or the level of a point inside the range.
        named: The arguments of the operation.
    """
    if level in (LOW, HIGH):
        return ENDS[operation](named)[level - LOW]
    return value_inside(operation, share_of(level), named)


def value_inside(operation: Any, share: Any, named: Arguments) -> Any:
    """Returns the value at a share of the range; None if the draw stays as drawn."""
    inside = INSIDES.get(operation)
    return inside and inside(named, share, ENDS[operation](named))


def is_joint(operation: Any, named: Arguments) -> bool:
    """Returns True if the numbers of a draw depend on each other."""
    without_repeats = not named.get("replacement", True)
    return operation is aten._sample_dirichlet or without_repeats


#: Operations that use more or fewer random numbers, by the values of their arguments.
#: The draws of one sample then depend on the samples before it in the batch.
VALUE_DEPENDENT_DRAWS = (
    aten.poisson,
    aten.binomial,
    aten._standard_gamma,
    aten._sample_dirichlet,
)


#: {operation: function that returns the expected value}.  All other operations get the
#: middle of the range, which is a possible value also if the draws are whole numbers.
_EXPECTED: dict[Any, Callable[[Arguments], Any]] = {
    aten.bernoulli: lambda named: named.get("p", named["self"]),
    aten.bernoulli_: lambda named: named["p"],
    aten.exponential_: lambda named: 1 / named["lambd"],
    aten._standard_gamma: lambda named: named["self"],
    aten._sample_dirichlet: lambda named: (
        named["self"] / named["self"].sum(-1, keepdim=True)
    ),
    aten.poisson: lambda named: named["self"].ceil(),
    aten.binomial: lambda named: (named["count"] * named["prob"]).ceil(),
}


def expected(operation: Any, named: Arguments) -> Any:
    """Returns the expected value of a draw, or another value for all batch sizes.

    Args:
        operation: A key of ENDS.
        named: The arguments of the operation.
    """
    if operation in _EXPECTED:
        return _EXPECTED[operation](named)
    return value_inside(operation, 0.5, named)

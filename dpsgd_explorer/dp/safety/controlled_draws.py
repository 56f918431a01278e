"""Sets the draws of random operations, instead of leaving them to chance.

A coin that a module tosses once for the whole batch decides whether samples mix.  A
check that leaves it to chance sees one side of it.  So the safety check sets draws:

- *extreme*: numbers drawn once for a whole batch are at an end of their range, those of
  each sample as drawn;
- *expected*: all have their expected value.  Batches of different sizes draw different
  masks, so in training mode a sample's gradients differ at two sizes; with expected
  values they must be equal.

A permutation moves every element in both, so that mixing by a permutation shows.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from dpsgd_explorer.dp.modules.seeding import seed_draws
from dpsgd_explorer.dp.safety.draw_ends import ENDS, INSIDES, Arguments
from dpsgd_explorer.dp.safety.draw_patterns import (
    ALL_DRAWN,
    DRAWN,
    HIGH,
    LOW,
    MOST_DRAWS,
    Pattern,
)
from dpsgd_explorer.dp.safety.generators import Generators

aten = torch.ops.aten
DROPOUT_ARGUMENTS = ("dropout_p", "dropout")
#: Numbers of one draw that are set one by one.  A larger tensor, as a mask of weights,
#: is no coin.
MOST_NUMBERS = 64
#: Operations that draw a slope for each negative entry.
LEAKY = (aten.rrelu_with_noise, aten.rrelu_with_noise_)
LOW_DTYPES = (torch.bfloat16, torch.float16)


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


class _SetDraws(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Lets generators that a draw names draw the same numbers in each pass.

    Attributes:
        drew: Whether anything was drawn.
        low_dtypes: Dtypes of less than float32 that a tensor was converted to.
    """

    middle = False  # of the range of slopes, instead of slopes as drawn

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._seeded: dict[int, tuple[torch.Generator, Tensor]] = {}
        self.drew = False
        self.low_dtypes: set[torch.dtype] = set()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if torch.Tag.nondeterministic_seeded not in func.tags:
            if func is aten._to_copy.default and kwargs.get("dtype") in LOW_DTYPES:
                self.low_dtypes.add(kwargs["dtype"])
            return func(*args, **kwargs)
        self.drew = True
        self._seed(kwargs.get("generator"))
        if func.overloadpacket in LEAKY:
            return _leaky(func, args, kwargs, middle=self.middle)
        return self._draw(func, args, kwargs)

    @abstractmethod
    def _draw(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Return what a random operation draws."""

    def _seed(self, generator: torch.Generator | None) -> None:
        if generator is not None and id(generator) not in self._seeded:
            self._seeded[id(generator)] = generator, generator.get_state()
            generator.manual_seed(0)

    def restore(self) -> None:
        """Restore the generators that draws named."""
        for generator, state in self._seeded.values():
            generator.set_state(state)


class _ExpectedDraws(_SetDraws):  # type: ignore[no-untyped-call]
    """Replaces the draws of torch's random operations by expected values."""

    middle = True

    def __init__(self) -> None:
        super().__init__()
        self._single_draws = 0

    def _draw(self, func: Any, args: Any, kwargs: Any) -> Any:
        operation = func.overloadpacket
        if operation in FILLS:
            target, *rest = args
            if self._ends_loop(target):
                return func(*args, **kwargs)
            kwargs.pop("generator", None)
            return _fill(target, FILLS[operation](*rest, **kwargs))
        if operation in CONSTANTS:
            drawn = func(*args, **kwargs)
            return (
                drawn if self._ends_loop(drawn) else drawn.fill_(CONSTANTS[operation])
            )
        if operation in (aten.native_dropout, aten._fused_dropout):
            return args[0].clone(), torch.ones_like(args[0], dtype=torch.bool)
        if operation is aten.bernoulli:
            return _bernoulli(*args)
        if operation is aten.normal:
            mean = _by_name(func, args, kwargs).get("mean", args[0])
            return _fill(func(*args, **kwargs), mean)
        # No plain expectation (permutations, indices): the same draw every time.
        seed_draws(0)
        drawn = func(*_without_dropout(func, args), **kwargs)
        return _moved(drawn) if operation is aten.randperm else drawn

    def _ends_loop(self, drawn: Tensor) -> bool:
        """Whether a number must stay as drawn, since a loop may wait for another."""
        self._single_draws += drawn.numel() == 1
        return drawn.numel() == 1 and self._single_draws > MOST_DRAWS


class _ExtremeDraws(_SetDraws):  # type: ignore[no-untyped-call]
    """Sets the draws that all samples share; see ``Pattern``.

    Args:
        pattern: Levels of the shared draws.
        size: Number of samples: a draw with a dimension of that length is not shared.

    Attributes:
        numbers: Numbers of the shared draws so far.
    """

    def __init__(self, pattern: Pattern, size: int) -> None:
        super().__init__()
        self._pattern = pattern
        self._size = size
        self._first_numbers: dict[Any, int] = {}
        self._next = 0
        self.numbers: set[int] = set()

    def _draw(self, func: Any, args: Any, kwargs: Any) -> Any:
        operation = func.overloadpacket
        generator = kwargs.get("generator")
        state = _state(generator) if operation in ENDS else None
        # It draws in any case, so that the generator goes on as in an ordinary pass.
        drawn = func(*args, **kwargs)
        if operation is aten.randperm:
            return _moved(drawn)
        if state is not None and self._is_shared(drawn):
            named = _by_name(func, args, kwargs)
            self._set(drawn, state, operation, named)
        return drawn

    def _is_shared(self, drawn: Tensor) -> bool:
        return drawn.numel() <= MOST_NUMBERS and self._size not in drawn.shape

    def _set(
        self,
        drawn: Tensor,
        state: Any,
        operation: Any,
        named: Arguments,
    ) -> None:
        # A checkpointed part runs again from the same state, and draws the same.
        first = self._first_numbers.setdefault(state, self._next)
        self._next = max(self._next, first + drawn.numel())
        if first >= MOST_DRAWS:
            return
        numbers = range(first, first + drawn.numel())
        self.numbers.update(numbers)
        if self._pattern.share is not None:
            if operation in INSIDES:
                ends = ENDS[operation](named)
                value = INSIDES[operation](named, self._pattern.share, ends)
                drawn.copy_(torch.as_tensor(value).to(drawn).expand_as(drawn))
            return
        levels = torch.tensor(
            [self._pattern.level(number) for number in numbers], device=drawn.device
        ).view(drawn.shape)
        if bool((levels == DRAWN).all()):
            return
        for level, end in zip((LOW, HIGH), ENDS[operation](named), strict=True):
            value = torch.as_tensor(end).to(drawn)
            drawn.copy_(torch.where(levels == level, value, drawn))


class ControlledDraws:
    """Sets what a module draws in each pass, until ``restore``.

    Args:
        module: The model.
        seed: Seed of draws that are not at an end of their range.

    Attributes:
        pattern: Of the next passes; None for expected values.
        numbers: Numbers of the shared draws in passes with a pattern.
        drew: Whether such a pass drew anything.
        low_dtypes: Dtypes that it converted to, as under an autocast of its own.
    """

    def __init__(self, module: nn.Module, seed: int) -> None:
        self._seed = seed
        self._generators = Generators(module, seed)
        self.pattern: Pattern | None = ALL_DRAWN
        self.numbers: set[int] = set()
        self.drew = False
        self.low_dtypes: set[torch.dtype] = set()

    @contextmanager
    def of_pass(self, size: int) -> Iterator[None]:
        """Set the draws of one pass of B samples."""
        seed_draws(self._seed)
        if self.pattern is None:
            self._generators.set_middle()
            with _entered(_ExpectedDraws()):
                yield
            return
        self._generators.set_draws(self.pattern)
        mode = _ExtremeDraws(self.pattern, size)
        with _entered(mode):
            yield
        used = mode.numbers | self._generators.numbers_used()
        self.numbers |= used
        self.low_dtypes |= mode.low_dtypes
        self.drew = self.drew or mode.drew or bool(used)

    @contextmanager
    def at(self, pattern: Pattern | None) -> Iterator[None]:
        """Set the draws of the passes inside by this pattern."""
        before, self.pattern = self.pattern, pattern
        try:
            yield
        finally:
            self.pattern = before

    def restore(self) -> None:
        """Restore the generators of Python and numpy."""
        self._generators.restore()


@contextmanager
def _entered(mode: _SetDraws) -> Iterator[None]:
    try:
        with mode:
            yield
    finally:
        mode.restore()


def _state(generator: torch.Generator | None) -> Any:
    """Return a key of the state that a draw begins from."""
    if generator is None:
        generator = torch.default_generator
    return id(generator), generator.get_state().numpy().tobytes()


def _by_name(func: Any, args: Any, kwargs: Any) -> Arguments:
    """Return the arguments of a call by name, defaults included."""
    declared = func._schema.arguments
    defaults = {a.name: a.default_value for a in declared if a.has_default_value()}
    names = [argument.name for argument in declared]
    return {**defaults, **dict(zip(names, args, strict=False)), **kwargs}


def _leaky(func: Any, args: Any, kwargs: Any, *, middle: bool) -> Any:
    """Return a randomized leaky ReLU that draws a slope for each entry.

    torch draws as many as there are negative entries, so that one sample's slopes
    depend on the signs of the samples before it.
    """
    named = _by_name(func, args, kwargs)
    x, noise, low, high = (named[n] for n in ("self", "noise", "lower", "upper"))
    if not named["training"]:
        return func(*args, **kwargs)
    slopes = torch.full_like(x, (low + high) / 2)
    if not middle:
        slopes.uniform_(low, high)
    noise.copy_(torch.where(x <= 0, slopes, 1.0))
    return x.mul_(noise) if func.overloadpacket is LEAKY[1] else x * noise


def _moved(permutation: Tensor) -> Tensor:
    """Return a permutation that moves every element, by one place."""
    return permutation.copy_(permutation.sort().values.roll(-1))


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

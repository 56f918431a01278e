"""Sets the draws of random operations, instead of leaving them to chance.

A coin that a module tosses once for the whole batch decides whether samples mix.  A
check that leaves it to chance sees one side of it.  So the safety check sets draws:

- *extreme*: numbers drawn once for a whole batch are at an end of their range, those of
  each sample as drawn; in further passes those of each sample are;
- *expected*: all have their expected value.  Batches of different sizes draw different
  masks, so in training mode a sample's gradients differ at two sizes; with expected
  values they must be equal.

A permutation moves all elements in most passes, so that mixing by it shows.  It may
also decide whether samples mix, so some passes use other orders, the sorted one too.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from dpsgd_explorer.dp.checks.draw_ends import (
    ENDS,
    UNEVEN,
    Arguments,
    expected,
    is_joint,
    value_at,
    value_inside,
)
from dpsgd_explorer.dp.checks.draw_patterns import (
    ALL_DRAWN,
    DRAWN,
    EVEN_SAMPLES_LOW,
    HIGH,
    INSIDE,
    LOW,
    MOST_DRAWS,
    MOST_OWN_DRAWS,
    ODD_LOW,
    ODD_ORDERED,
    Pattern,
    own_number,
    share_of,
)
from dpsgd_explorer.dp.checks.generators import Generators
from dpsgd_explorer.dp.modules.seeding import seed_draws

aten = torch.ops.aten
DROPOUT_ARGUMENTS = ("dropout_p", "dropout")
#: Numbers of one draw that are set one by one.  A larger tensor, as a mask of weights,
#: is no coin.
MOST_NUMBERS = 64
#: Draws of a pass that are set to expected values; a loop that ends by one must end.
MOST_EXPECTED = 1000
#: Operations that draw a slope for each negative entry.
LEAKY = (aten.rrelu_with_noise, aten.rrelu_with_noise_)
#: Operations that draw 0 or 1.
YES_OR_NO = (aten.bernoulli, aten.bernoulli_)
LOW_DTYPES = (torch.bfloat16, torch.float16)


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
        self._draws = 0
        self.unknown: set[str] = set()

    def _draw(self, func: Any, args: Any, kwargs: Any) -> Any:
        operation = func.overloadpacket
        if operation in ENDS:
            drawn = func(*args, **kwargs)
            if not self._ends_loop(drawn):
                _set_all(
                    drawn, expected(operation, _by_name(func, args, kwargs, drawn))
                )
            return drawn
        if operation in (aten.native_dropout, aten._fused_dropout):
            return args[0].clone(), torch.ones_like(args[0], dtype=torch.bool)
        # No plain expectation (permutations, dropout inside): the same draw every time.
        seed_draws(0)
        drawn = func(*_without_dropout(func, args), **kwargs)
        if operation is aten.randperm:
            return _moved(drawn)
        if not any(a.name in DROPOUT_ARGUMENTS for a in func._schema.arguments):
            self.unknown.add(str(operation).replace("aten.", "torch."))
        return drawn

    def _ends_loop(self, drawn: Tensor) -> bool:
        """Whether a draw must stay as drawn, since a loop may wait for another."""
        self._draws += 1
        self._single_draws += drawn.numel() == 1
        if drawn.numel() == 1:
            return self._single_draws > MOST_DRAWS
        return self._draws > MOST_EXPECTED


class _ExtremeDraws(_SetDraws):  # type: ignore[no-untyped-call]
    """Sets draws to the levels of a pattern; see ``Pattern``.

    Args:
        pattern: Levels of the draws.
        size: Number of samples: a draw with a dimension of that length is not shared.

    Attributes:
        numbers: Numbers of the draws so far; below 0 for samples' own.
    """

    def __init__(self, pattern: Pattern, size: int) -> None:
        super().__init__()
        self._pattern = pattern
        self._size = size
        self._first_numbers: dict[Any, int] = {}
        self._own_draws: dict[Any, int] = {}
        self._next = 0
        self.numbers: set[int] = set()

    def _draw(self, func: Any, args: Any, kwargs: Any) -> Any:
        operation = func.overloadpacket
        is_permutation = operation is aten.randperm
        is_set = is_permutation or operation in ENDS
        generator = _generator(args, kwargs) if is_set else None
        state = None if generator is None else generator.get_state()
        # It draws in any case, so that the generator goes on as in an ordinary pass.
        drawn = func(*args, **kwargs)
        if generator is None or state is None or not drawn.numel():
            return drawn
        key = id(generator), state.numpy().tobytes()
        if is_permutation:
            return self._permuted(drawn, key)
        named = _by_name(func, args, kwargs, drawn)
        if operation in UNEVEN:
            generator.set_state(state)
            shares = torch.rand(
                drawn.shape, generator=generator, device=generator.device
            )
            if not self._is_shared(drawn):
                _set_all(drawn, value_inside(operation, shares, named))
        levels = self._levels(drawn, key, yes_or_no=operation in YES_OR_NO)
        if is_joint(operation, named):
            levels = levels.flatten()[0]
        for level in {*levels.flatten().tolist()} - {DRAWN}:
            value = value_at(operation, level, named)
            if value is not None:
                _set_all(drawn, value, levels == level)
        return drawn

    def _is_shared(self, drawn: Tensor) -> bool:
        return drawn.numel() <= MOST_NUMBERS and self._size not in drawn.shape

    def _levels(self, drawn: Tensor, state: Any, *, yes_or_no: bool) -> Tensor:
        """Return the level of each number, of a shape that expands to that of all."""
        if self._is_shared(drawn):
            return self._shared_levels(drawn, state)
        # A checkpointed part runs again from the same state, and draws the same.
        draw = self._own_draws.setdefault(state, len(self._own_draws))
        if draw >= MOST_OWN_DRAWS:
            return torch.tensor(DRAWN)
        rows = self._size if self._size in drawn.shape else 1
        large = drawn.numel() > MOST_NUMBERS * rows
        number = own_number(draw, yes_or_no=yes_or_no, large=large)
        self.numbers.add(number)
        level = self._pattern.level(number)
        if level >= EVEN_SAMPLES_LOW:
            return self._by_turns(drawn, level)
        return torch.tensor(level, device=drawn.device)

    def _by_turns(self, drawn: Tensor, level: int) -> Tensor:
        """Return the low end for every second sample, or number, and the high end."""
        shape = list(drawn.shape)
        if self._size not in shape:
            shape, dim = [1, *shape], 0
        else:
            dim = shape.index(self._size)
        samples = shape.pop(dim)
        if level == EVEN_SAMPLES_LOW:
            turns = torch.arange(samples).view(-1, *[1] * len(shape[dim:]))
        else:
            turns = torch.arange(math.prod(shape)).view(shape) + (level == ODD_LOW)
            turns = turns.unsqueeze(dim)
        levels = torch.where(turns % 2 == 0, LOW, HIGH).to(drawn.device)
        return levels if self._size in drawn.shape else levels[0]

    def _permuted(self, drawn: Tensor, state: Any) -> Tensor:
        """Return the order of a permutation in this pass; most move every element."""
        numbers = self._shared_numbers(1, state)
        level = self._pattern.level(numbers[0]) if numbers else DRAWN
        # One permutation may decide whether another mixes, so those of even and of odd
        # numbers stay sorted in different passes.  Even ones do so at a place inside
        # and not at LOW, where a draw of another kind may let them mix.
        if numbers.start % 2 == 0:
            stays = level == INSIDE
        else:
            stays = level == LOW and self._pattern == ODD_ORDERED
        if stays:
            places = 0
        elif level >= INSIDE:
            places = -1 - int(share_of(level) * (len(drawn) - 1))
        else:
            places = 1 if level == LOW else -1
        ordered = drawn.sort().values
        return drawn.copy_(ordered.flip(0) if level == HIGH else ordered.roll(places))

    def _shared_levels(self, drawn: Tensor, state: Any) -> Tensor:
        numbers = self._shared_numbers(drawn.numel(), state)
        if not numbers:
            return torch.tensor(DRAWN)
        levels = [self._pattern.level(number) for number in numbers]
        return torch.tensor(levels, device=drawn.device).view(drawn.shape)

    def _shared_numbers(self, count: int, state: Any) -> range:
        """Return the numbers of a draw for the whole batch; none after MOST_DRAWS."""
        first = self._first_numbers.setdefault(state, self._next)
        self._next = max(self._next, first + count)
        if first >= MOST_DRAWS:
            return range(0)
        numbers = range(first, first + count)
        self.numbers.update(numbers)
        return numbers


class ControlledDraws:
    """Sets what a module draws in each pass, until ``restore``.

    Args:
        module: The model.
        seed: Seed of draws that are not at an end of their range.

    Attributes:
        pattern: Of the next passes; None for expected values.
        numbers: Numbers of the draws in passes with a pattern.
        unknown: Operations whose draws have no expected value that is known.
        drew: Whether such a pass drew anything.
        drew_means: Whether the last pass with expected values drew any.
        low_dtypes: Dtypes that it converted to, as under an autocast of its own.
    """

    def __init__(self, module: nn.Module, seed: int) -> None:
        self._seed = seed
        self._generators = Generators(module, seed)
        self.pattern: Pattern | None = ALL_DRAWN
        self.numbers: set[int] = set()
        self.unknown: set[str] = set()
        self.drew_means = False
        self.drew = False
        self.low_dtypes: set[torch.dtype] = set()

    @contextmanager
    def of_pass(self, size: int) -> Iterator[None]:
        """Set the draws of one pass of B samples."""
        seed_draws(self._seed)
        if self.pattern is None:
            self._generators.set_middle()
            expectation = _ExpectedDraws()
            try:
                with _entered(expectation):
                    yield
            finally:
                self.unknown |= expectation.unknown
                self.drew_means = expectation.drew
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


def _generator(args: Any, kwargs: Any) -> torch.Generator:
    """Return the generator of a draw."""
    if kwargs.get("generator") is not None:
        found: torch.Generator = kwargs["generator"]
        return found
    tensors = (each.device for each in args if isinstance(each, Tensor))
    return _default_generator(kwargs.get("device") or next(tensors, None))


def _default_generator(device: torch.device | None) -> torch.Generator:
    if device is None or device.type != "cuda":
        return torch.default_generator
    index = torch.cuda.current_device() if device.index is None else device.index
    return torch.cuda.default_generators[index]


def _by_name(func: Any, args: Any, kwargs: Any, drawn: Tensor) -> Arguments:
    """Return the arguments of a call by name, defaults included."""
    declared = func._schema.arguments
    defaults = {a.name: a.default_value for a in declared if a.has_default_value()}
    names = [argument.name for argument in declared]
    given = dict(zip(names, args, strict=False))
    return {**defaults, **given, **kwargs, "drawn": drawn.dtype}


def _set_all(drawn: Tensor, value: Any, where: Tensor | None = None) -> None:
    """Set the numbers of a draw, those at which ``where`` is true."""
    new = torch.as_tensor(value).to(drawn).expand_as(drawn)
    drawn.copy_(new if where is None else torch.where(where, new, drawn))


def _leaky(func: Any, args: Any, kwargs: Any, *, middle: bool) -> Any:
    """Return a randomized leaky ReLU that draws a slope for each entry.

    torch draws as many as there are negative entries, so that one sample's slopes
    depend on the signs of the samples before it.
    """
    named = _by_name(func, args, kwargs, args[1])
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


def _without_dropout(func: Any, args: Any) -> list[Any]:
    """Return the arguments with all dropout rates 0."""
    names = [argument.name for argument in func._schema.arguments]
    return [
        0.0 if name in DROPOUT_ARGUMENTS and isinstance(value, float) else value
        for name, value in zip(names, args, strict=False)
    ]

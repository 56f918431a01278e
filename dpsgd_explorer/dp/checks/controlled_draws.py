"""Sets the random numbers that a module draws, for the passes of the safety check.

One number that a module draws for the whole batch may decide whether samples mix, as in
"mixup for half of the batches".  A check with ordinary draws would see one side only.
The safety check therefore sets draws, in two ways:

- *Extreme* draws are at an end of their range, or at a point inside, by a ``Pattern``.
- *Expected* draws have their expected value.  Batches of two sizes draw different
  masks, so in training mode a sample's gradient differs between them.  With expected
  draws the gradients must be equal.

A permutation moves every element in most passes, so that mixing by it shows.  A
permutation may also decide whether samples mix, so it has another order in some passes,
and is sorted in one.
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
    VALUE_DEPENDENT_DRAWS,
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
    MAX_DRAWS,
    MAX_PER_SAMPLE_DRAWS,
    ODD_LOW,
    ODD_ORDERED,
    Pattern,
    per_sample_number,
    share_of,
)
from dpsgd_explorer.dp.checks.generators import Generators
from dpsgd_explorer.dp.modules.seeding import seed_draws

aten = torch.ops.aten
#: Names of the dropout rate among the arguments of torch's operations.
DROPOUT_ARGUMENTS = ("dropout_p", "dropout")
#: Largest number of values of a draw that may select a branch.  The values of a larger
#: draw, such as a mask of weights, are not set one by one.
MAX_COIN_NUMBERS = 64
#: Number of draws per pass that are set to expected values.  Later draws stay as drawn,
#: so that a loop that waits for a draw ends.
MAX_EXPECTED_DRAWS = 1000
#: Operations that draw a slope for each negative entry.
RRELU_OPERATIONS = (aten.rrelu_with_noise, aten.rrelu_with_noise_)
#: Operations that draw 0 or 1.
BERNOULLI_OPERATIONS = (aten.bernoulli, aten.bernoulli_)
#: Dtypes with less precision than float32.
HALF_DTYPES = (torch.bfloat16, torch.float16)
#: Operations of earlier passes that neither draw nor convert.  Reading the tags of an
#: operation takes several times as long as looking it up.
_PLAIN: set[Any] = set()


class _SetDraws(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Sets the draws of torch's operations in one pass.

    A generator that a module passes to an operation draws equal numbers in every pass.

    Attributes:
        drew: If True, the module drew a random number.
        low_dtypes: HALF_DTYPES of tensors that the module converted to such a dtype.
        has_mean_slopes: If True, a randomized leaky ReLU uses the middle of its range.
    """

    has_mean_slopes = False

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._seeded: dict[int, tuple[torch.Generator, Tensor]] = {}
        self.drew = False
        self.low_dtypes: set[torch.dtype] = set()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in _PLAIN:
            return func(*args, **kwargs)
        if torch.Tag.nondeterministic_seeded not in func.tags:
            if func is not aten._to_copy.default:
                _PLAIN.add(func)
            elif kwargs.get("dtype") in HALF_DTYPES:
                self.low_dtypes.add(kwargs["dtype"])
            return func(*args, **kwargs)
        self.drew = True
        self._seed(kwargs.get("generator"))
        if func.overloadpacket in RRELU_OPERATIONS:
            return _rrelu(func, args, kwargs, has_mean_slopes=self.has_mean_slopes)
        return self._draw(func, args, kwargs)

    @abstractmethod
    def _draw(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Returns the result of a random operation."""

    def _seed(self, generator: torch.Generator | None) -> None:
        if generator is not None and id(generator) not in self._seeded:
            self._seeded[id(generator)] = generator, generator.get_state()
            generator.manual_seed(0)

    def restore(self) -> None:
        """Restores the generators that the module passed to operations."""
        for generator, state in self._seeded.values():
            generator.set_state(state)


class _ExpectedDraws(_SetDraws):  # type: ignore[no-untyped-call]
    """Replaces the draws of torch's random operations by expected values.

    Attributes:
        unknown: Operations without a known expected value.
    """

    has_mean_slopes = True

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
        # Other operations have no expected value (a permutation), or apply dropout
        # inside: they draw equal numbers in every pass, without dropout.
        seed_draws(0)
        drawn = func(*_without_dropout(func, args), **kwargs)
        if operation is aten.randperm:
            return _moved(drawn)
        if not any(a.name in DROPOUT_ARGUMENTS for a in func._schema.arguments):
            self.unknown.add(str(operation).replace("aten.", "torch."))
        return drawn

    def _ends_loop(self, drawn: Tensor) -> bool:
        """Returns True if a loop may wait for this draw, which must stay as drawn."""
        self._draws += 1
        self._single_draws += drawn.numel() == 1
        if drawn.numel() == 1:
            return self._single_draws > MAX_DRAWS
        return self._draws > MAX_EXPECTED_DRAWS


class _ExtremeDraws(_SetDraws):  # type: ignore[no-untyped-call]
    """Sets draws to the levels of a pattern; see ``Pattern``.

    Args:
        pattern: Levels of the draws.
        size: Number of samples, B.  A draw with a dimension of length B is per-sample,
            not shared.

    Attributes:
        numbers: Numbers of the draws so far; below 0 for per-sample draws.
    """

    def __init__(self, pattern: Pattern, size: int) -> None:
        super().__init__()
        self._pattern = pattern
        self._size = size
        self._first_numbers: dict[Any, int] = {}
        self._per_sample_draws: dict[Any, int] = {}
        self._next = 0
        self.numbers: set[int] = set()

    def _draw(self, func: Any, args: Any, kwargs: Any) -> Any:
        operation = func.overloadpacket
        is_permutation = operation is aten.randperm
        is_set = is_permutation or operation in ENDS
        generator = _generator(args, kwargs) if is_set else None
        state = None if generator is None else generator.get_state()
        # The operation runs in any case, so that the generator advances as in an
        # ordinary pass.
        drawn = func(*args, **kwargs)
        if generator is None or state is None or not drawn.numel():
            return drawn
        key = id(generator), state.numpy().tobytes()
        if is_permutation:
            return self._permuted(drawn, key)
        named = _by_name(func, args, kwargs, drawn)
        if operation in VALUE_DEPENDENT_DRAWS:
            generator.set_state(state)
            shares = torch.rand(
                drawn.shape, generator=generator, device=generator.device
            )
            if not self._is_shared(drawn):
                _set_all(drawn, value_inside(operation, shares, named))
        levels = self._levels(drawn, key, is_binary=operation in BERNOULLI_OPERATIONS)
        if is_joint(operation, named):
            levels = levels.flatten()[0]
        for level in {*levels.flatten().tolist()} - {DRAWN}:
            value = value_at(operation, level, named)
            if value is not None:
                _set_all(drawn, value, levels == level)
        return drawn

    def _is_shared(self, drawn: Tensor) -> bool:
        return drawn.numel() <= MAX_COIN_NUMBERS and self._size not in drawn.shape

    def _levels(self, drawn: Tensor, state: Any, *, is_binary: bool) -> Tensor:
        """Returns the levels of all numbers, of a shape that expands to the draw's."""
        if self._is_shared(drawn):
            return self._shared_levels(drawn, state)
        # Activation checkpointing runs layers again from the same generator state.  A
        # draw from a known state is therefore a repetition, and has its first number.
        draw = self._per_sample_draws.setdefault(state, len(self._per_sample_draws))
        if draw >= MAX_PER_SAMPLE_DRAWS:
            return torch.tensor(DRAWN)
        rows = self._size if self._size in drawn.shape else 1
        large = drawn.numel() > MAX_COIN_NUMBERS * rows
        number = per_sample_number(draw, is_binary=is_binary, large=large)
        self.numbers.add(number)
        level = self._pattern.level(number)
        if level >= EVEN_SAMPLES_LOW:
            return self._by_turns(drawn, level)
        return torch.tensor(level, device=drawn.device)

    def _by_turns(self, drawn: Tensor, level: int) -> Tensor:
        """Returns the low end for every second sample, or number, else the high end."""
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
        """Returns the permutation for this pass, which in most passes moves all."""
        numbers = self._shared_numbers(1, state)
        level = self._pattern.level(numbers[0]) if numbers else DRAWN
        # One permutation may decide whether another one mixes, so permutations with
        # even and with odd numbers are sorted in different passes.  Even ones are
        # sorted at a point inside the range and not at LOW, where a draw of another
        # kind may let them mix.
        if numbers.start % 2 == 0:
            is_sorted = level == INSIDE
        else:
            is_sorted = level == LOW and self._pattern == ODD_ORDERED
        if is_sorted:
            shift = 0
        elif level >= INSIDE:
            shift = -1 - int(share_of(level) * (len(drawn) - 1))
        else:
            shift = 1 if level == LOW else -1
        ordered = drawn.sort().values
        return drawn.copy_(ordered.flip(0) if level == HIGH else ordered.roll(shift))

    def _shared_levels(self, drawn: Tensor, state: Any) -> Tensor:
        numbers = self._shared_numbers(drawn.numel(), state)
        if not numbers:
            return torch.tensor(DRAWN)
        levels = [self._pattern.level(number) for number in numbers]
        return torch.tensor(levels, device=drawn.device).view(drawn.shape)

    def _shared_numbers(self, count: int, state: Any) -> range:
        """Returns the numbers of a shared draw; an empty range after MAX_DRAWS."""
        first = self._first_numbers.setdefault(state, self._next)
        self._next = max(self._next, first + count)
        if first >= MAX_DRAWS:
            return range(0)
        numbers = range(first, first + count)
        self.numbers.update(numbers)
        return numbers


class ControlledDraws:
    """Sets a module's random draws in each pass, until ``restore``.

    Args:
        module: The model.
        seed: Seed of the draws that stay as drawn.

    Attributes:
        pattern: Pattern of the next passes; None for expected values.
        numbers: Numbers of the draws in all passes with a pattern.
        unknown: Operations without a known expected value that the module used.
        drew: If True, a pass with a pattern drew a number.
        drew_means: If True, the last pass with expected values drew a number.
        low_dtypes: HALF_DTYPES that the module converts tensors to, for example by an
            autocast in its forward.
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
        """Sets the draws of one pass of B samples."""
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
        """Sets the draws of all passes in the context by a pattern."""
        before, self.pattern = self.pattern, pattern
        try:
            yield
        finally:
            self.pattern = before

    def restore(self) -> None:
        """Restores the generators of Python and numpy."""
        self._generators.restore()


@contextmanager
def _entered(mode: _SetDraws) -> Iterator[None]:
    try:
        with mode:
            yield
    finally:
        mode.restore()


def _generator(args: Any, kwargs: Any) -> torch.Generator:
    """Returns the generator of a draw."""
    if kwargs.get("generator") is not None:
        generator: torch.Generator = kwargs["generator"]
        return generator
    devices = (arg.device for arg in args if isinstance(arg, Tensor))
    return _default_generator(kwargs.get("device") or next(devices, None))


def _default_generator(device: torch.device | None) -> torch.Generator:
    if device is None or device.type != "cuda":
        return torch.default_generator
    index = torch.cuda.current_device() if device.index is None else device.index
    return torch.cuda.default_generators[index]


def _by_name(func: Any, args: Any, kwargs: Any, drawn: Tensor) -> Arguments:
    """Returns the arguments of a call by name, with defaults and the draws' dtype."""
    declared = func._schema.arguments
    defaults = {a.name: a.default_value for a in declared if a.has_default_value()}
    names = [argument.name for argument in declared]
    given = dict(zip(names, args, strict=False))
    return {**defaults, **given, **kwargs, "drawn": drawn.dtype}


def _set_all(drawn: Tensor, value: Any, where: Tensor | None = None) -> None:
    """Sets the numbers of a draw at which ``where`` is True; all numbers if None."""
    new = torch.as_tensor(value).to(drawn).expand_as(drawn)
    drawn.copy_(new if where is None else torch.where(where, new, drawn))


def _rrelu(func: Any, args: Any, kwargs: Any, *, has_mean_slopes: bool) -> Any:
    """Returns the output of a randomized leaky ReLU that draws a slope per entry.

    Torch draws a slope per negative entry.  The slopes of a sample then depend on the
    signs of the samples before it in the batch.
    """
    named = _by_name(func, args, kwargs, args[1])
    x, noise, low, high = (named[n] for n in ("self", "noise", "lower", "upper"))
    if not named["training"]:
        return func(*args, **kwargs)
    slopes = torch.full_like(x, (low + high) / 2)
    if not has_mean_slopes:
        slopes.uniform_(low, high)
    noise.copy_(torch.where(x <= 0, slopes, 1.0))
    return x.mul_(noise) if func.overloadpacket is RRELU_OPERATIONS[1] else x * noise


def _moved(permutation: Tensor) -> Tensor:
    """Returns a permutation that moves every element by one index."""
    return permutation.copy_(permutation.sort().values.roll(-1))


def _without_dropout(func: Any, args: Any) -> list[Any]:
    """Returns the arguments with all dropout rates 0."""
    names = [argument.name for argument in func._schema.arguments]
    return [
        0.0 if name in DROPOUT_ARGUMENTS and isinstance(value, float) else value
        for name, value in zip(names, args, strict=False)
    ]

"""Sets the random generators of Python and numpy for the safety check.

These are the global generators of the process, and generators in a module's attributes.
They are Mersenne Twisters: the next 624 outputs of 32 bits are a bijection of the
state.  The check can therefore choose a state for its outputs, so that two passes draw
equal numbers, or numbers at an end of their range.

Source: Matsumoto and Nishimura (1998), Mersenne Twister.
"""

from __future__ import annotations

import random
from functools import cached_property, lru_cache
from typing import Any, Protocol

import numpy as np
import torch
from torch import nn

from dpsgd_explorer.dp.checks.draw_patterns import (
    DISTINCT_DRAWS,
    DRAWN,
    HIGH,
    MAX_DRAWS,
    Pattern,
)

#: Number of outputs (words of 32 bits) that the state of a generator determines.
WORDS = 624
#: Words per floating-point number in [0, 1).
WORDS_PER_DRAW = 2
#: Floating-point numbers per state.
DRAWS = WORDS // WORDS_PER_DRAW
#: Word for a draw at the low end.  It gives 4e-6 in [0, 1), so that a logarithm of the
#: draw is finite.
LOW_WORD = 2**14
#: Word for a draw in the middle of the range.  Normal numbers are drawn by rejection,
#: which rejects exactly half of the range.
MIDDLE_WORD = 2**31 + 2**27
#: Number of states that are stored, each of up to 30 kB.  It is enough for all patterns
#: of the two global generators, which every check sets.
MAX_STATES = 128

Words = np.ndarray[Any, np.dtype[np.uint32]]


class _State:
    """A state of the twister, in the forms that Python and numpy take.

    Args:
        outputs: The next outputs, WORDS numbers.
    """

    def __init__(self, outputs: Words) -> None:
        self.words = untempered(outputs)

    @cached_property
    def for_python(self) -> tuple[int, tuple[int, ...], None]:
        """The argument of ``random.Random.setstate``."""
        return 3, (*self.words.tolist(), 0), None

    @cached_property
    def for_numpy(self) -> dict[str, Any]:
        """The argument of numpy's Mersenne Twisters."""
        return {"bit_generator": "MT19937", "state": {"key": self.words, "pos": 0}}


class Generator(Protocol):
    """A generator whose next outputs can be chosen."""

    def set_state(self, state: _State) -> None:
        """Sets the state of the twister, which determines the next WORDS outputs."""

    def words_used(self) -> int:
        """Returns the number of outputs since ``set_state``, at most WORDS."""

    def restore(self) -> None:
        """Restores the state that the generator had at construction."""


class _PythonGenerator:
    """A ``random.Random``."""

    def __init__(self, generator: random.Random) -> None:
        self._generator = generator
        self._state = generator.getstate()
        # Python draws an integer again until it is below the limit.  An end of the bits
        # would then not be an end of the range.
        vars(generator)["_randbelow"] = lambda n: int(generator.random() * n)

    def set_state(self, state: _State) -> None:
        self._generator.setstate(state.for_python)

    def words_used(self) -> int:
        return int(self._generator.getstate()[1][-1])

    def restore(self) -> None:
        vars(self._generator).pop("_randbelow", None)
        self._generator.setstate(self._state)


class _NumpyState:
    """A ``numpy.random.RandomState``, such as the generator of ``np.random.rand``."""

    def __init__(self, generator: np.random.RandomState) -> None:
        self._generator = generator
        self._state = generator.get_state(legacy=False)

    def set_state(self, state: _State) -> None:
        self._generator.set_state(state.for_numpy | {"has_gauss": 0, "gauss": 0.0})

    def words_used(self) -> int:
        state: Any = self._generator.get_state(legacy=False)
        return int(state["state"]["pos"])

    def restore(self) -> None:
        self._generator.set_state(self._state)


class _NumpyGenerator:
    """A ``numpy.random.Generator`` in a module's attribute.

    It may use another algorithm, so a Mersenne Twister replaces it until ``restore``.
    """

    def __init__(self, owner: nn.Module, name: str) -> None:
        self._owner, self._name = owner, name
        self._replaced = vars(owner)[name]
        self._bits: Any = np.random.MT19937()
        vars(owner)[name] = np.random.Generator(self._bits)

    def set_state(self, state: _State) -> None:
        self._bits.state = state.for_numpy

    def words_used(self) -> int:
        state: Any = self._bits.state
        return int(state["state"]["pos"])

    def restore(self) -> None:
        vars(self._owner)[self._name] = self._replaced


class Generators:
    """Sets the generators that a module may use, until ``restore``.

    These are the global generators and the generators in attributes of the module and
    its submodules.  Other generators, and random numbers of the operating system, stay
    as they are.

    Args:
        module: The model.
        seed: Seed of the numbers that stay as drawn.
    """

    def __init__(self, module: nn.Module, seed: int) -> None:
        self._generators: list[Generator] = []
        self._torch_states: list[tuple[torch.Generator, torch.Tensor]] = []
        self._added_ids: set[int] = set()
        for function in (random.random, np.random.rand):
            self._add(function.__self__)  # type: ignore[attr-defined]
        for owner in module.modules():
            for name, value in list(vars(owner).items()):
                if isinstance(value, np.random.Generator):
                    self._generators.append(_NumpyGenerator(owner, name))
                self._add(value)
        self._seed = seed

    def _add(self, value: Any) -> None:
        if id(value) in self._added_ids or isinstance(value, random.SystemRandom):
            return
        self._added_ids.add(id(value))
        # ControlledDraws sets the draws of torch's generators.
        if isinstance(value, torch.Generator):
            self._torch_states.append((value, value.get_state()))
        elif isinstance(value, random.Random):
            self._generators.append(_PythonGenerator(value))
        elif isinstance(value, np.random.RandomState):
            bits: Any = value.get_state(legacy=False)
            if bits["bit_generator"] == "MT19937":
                self._generators.append(_NumpyState(value))

    def set_draws(self, pattern: Pattern) -> None:
        """Sets the next draws to the levels of a pattern."""
        for i, generator in enumerate(self._generators):
            generator.set_state(_state_of(self._seed, pattern, i))

    def set_middle(self) -> None:
        """Sets the next draws to the middle of their range."""
        for generator in self._generators:
            generator.set_state(_middle_state(self._seed))

    def numbers_used(self) -> set[int]:
        """Returns the numbers of the draws of this pass, for ``Pattern.level``."""
        return {
            _number(i, draw)
            for i, generator in enumerate(self._generators)
            for draw in range(-(-generator.words_used() // WORDS_PER_DRAW))
        }

    def restore(self) -> None:
        """Restores every generator."""
        for generator in self._generators:
            generator.restore()
        for torch_generator, state in self._torch_states:
            torch_generator.set_state(state)


def _number(generator: int, draw: int) -> int:
    """Returns the number of a draw, with another offset per generator.

    The draws of torch's generators begin at 0.
    """
    return (5 * (generator + 1) + draw) % DISTINCT_DRAWS


@lru_cache(MAX_STATES)
def _state_of(seed: int, pattern: Pattern, generator: int) -> _State:
    """Returns the state with which a generator's draws have their levels."""
    return _State(_words(_drawn(seed), pattern, generator))


@lru_cache(1)
def _middle_state(seed: int) -> _State:
    """Returns the state with the next draws in the middle of their range."""
    words = np.full(WORDS, MIDDLE_WORD, dtype=np.uint32)
    # The last words are as drawn, so that a loop that waits for a draw ends.
    words[-MAX_DRAWS:] = _drawn(seed)[-MAX_DRAWS:]
    return _State(words)


@lru_cache(1)
def _drawn(seed: int) -> Words:
    """Returns the words of draws that stay as drawn."""
    words: Words = np.random.RandomState(seed).randint(0, 2**32, WORDS, dtype=np.uint32)
    return words


def _words(drawn: Words, pattern: Pattern, generator: int) -> Words:
    """Returns the outputs with which a generator's draws have their levels."""
    if pattern.point is not None and pattern.share is not None:
        words = drawn.copy()
        used = np.arange(WORDS_PER_DRAW * MAX_DRAWS)
        # Floating-point numbers use the high bits.  numpy's integers use the low bits,
        # and draw again above a limit, so the low bits differ between words.
        low_bits = (pattern.point + used) % 2**8
        words[: len(used)] = (int(pattern.share * 2**32) & ~(2**8 - 1)) + low_bits
        return words
    draws = [pattern.level(_number(generator, draw)) for draw in range(DRAWS)]
    draws[MAX_DRAWS:] = [DRAWN] * (DRAWS - MAX_DRAWS)
    levels = np.repeat(draws, WORDS_PER_DRAW)
    # Every word is smaller than the word before: numpy masks a word's bits for an
    # integer, and draws again until the integer is below a limit.
    high = (2**32 - 1 - np.arange(WORDS)).astype(np.uint32)
    ends = np.where(levels == HIGH, high, np.uint32(LOW_WORD))
    return np.where(levels == DRAWN, drawn, ends)


def untempered(words: Words) -> Words:
    """Returns the state of a Mersenne Twister with these words as its next outputs."""
    words = _without_right(words, 18, 0xFFFFFFFF)
    words = _without_left(words, 15, 0xEFC60000)
    words = _without_left(words, 7, 0x9D2C5680)
    return _without_right(words, 11, 0xFFFFFFFF)


def _without_right(words: Words, shift: int, mask: int) -> Words:
    """Returns the solution x of words = x ^ (x >> shift & mask)."""
    x = words
    for _ in range(32 // shift):  # each round makes ``shift`` more bits correct
        x = words ^ (x >> np.uint32(shift) & np.uint32(mask))
    return x


def _without_left(words: Words, shift: int, mask: int) -> Words:
    """Returns the solution x of words = x ^ (x << shift & mask)."""
    x = words
    for _ in range(32 // shift):
        x = words ^ (x << np.uint32(shift) & np.uint32(mask))
    return x

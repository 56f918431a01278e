"""Random generators of Python and numpy: those of the process, and a module's own.

They are Mersenne Twisters, whose next 624 outputs of 32 bits are a bijection of their
state.  So the state is chosen for the outputs: a pass of the safety check then draws
the same numbers as another, or numbers at an end of their range.

Source: Matsumoto and Nishimura (1998), Mersenne Twister.
"""

from __future__ import annotations

import random
from typing import Any, Protocol

import numpy as np
import torch
from torch import nn

from dpsgd_explorer.dp.checks.draw_patterns import (
    DISTINCT_DRAWS,
    DRAWN,
    HIGH,
    MOST_DRAWS,
    Pattern,
)

#: Outputs that a state of the generator determines.
WORDS = 624
#: Outputs of a floating-point number in [0, 1).
WORDS_A_DRAW = 2
DRAWS = WORDS // WORDS_A_DRAW
#: A word near the low end, in units of 2^-32: 4e-6, so that a logarithm is finite.
LOW_WORD = 2**14
#: A word in the middle.  Half of the range itself is rejected for normal numbers.
MIDDLE_WORD = 2**31 + 2**27

Words = np.ndarray[Any, np.dtype[np.uint32]]


class Generator(Protocol):
    """A generator whose next outputs can be chosen."""

    def set_state(self, state: Words) -> None:
        """Set the state of the twister, from which WORDS outputs follow."""

    def words_used(self) -> int:
        """Return the number of outputs since then, at most WORDS."""

    def restore(self) -> None:
        """Restore the state that the generator had when it was found."""


class _PythonGenerator:
    """A ``random.Random``."""

    def __init__(self, generator: random.Random) -> None:
        self._generator = generator
        self._state = generator.getstate()
        # Python draws integers again until one is below the limit, so an end of the
        # bits is not an end of the range.
        vars(generator)["_randbelow"] = lambda n: int(generator.random() * n)

    def set_state(self, state: Words) -> None:
        self._generator.setstate((3, (*state.tolist(), 0), None))

    def words_used(self) -> int:
        return int(self._generator.getstate()[1][-1])

    def restore(self) -> None:
        vars(self._generator).pop("_randbelow", None)
        self._generator.setstate(self._state)


class _NumpyState:
    """A ``numpy.random.RandomState``, as the one behind ``numpy.random.rand``."""

    def __init__(self, generator: np.random.RandomState) -> None:
        self._generator = generator
        self._state = generator.get_state(legacy=False)

    def set_state(self, state: Words) -> None:
        self._generator.set_state(_numpy_state(state) | {"has_gauss": 0, "gauss": 0.0})

    def words_used(self) -> int:
        state: Any = self._generator.get_state(legacy=False)
        return int(state["state"]["pos"])

    def restore(self) -> None:
        self._generator.set_state(self._state)


class _NumpyGenerator:
    """A ``numpy.random.Generator`` in a module's attribute, replaced for the check."""

    def __init__(self, owner: nn.Module, name: str) -> None:
        self._owner, self._name = owner, name
        self._own = vars(owner)[name]
        self._bits: Any = np.random.MT19937()
        vars(owner)[name] = np.random.Generator(self._bits)

    def set_state(self, state: Words) -> None:
        self._bits.state = _numpy_state(state)

    def words_used(self) -> int:
        state: Any = self._bits.state
        return int(state["state"]["pos"])

    def restore(self) -> None:
        vars(self._owner)[self._name] = self._own


class Generators:
    """The generators that a module may draw from, until ``restore``.

    Those that are neither the process's own nor an attribute of a module inside are not
    found, nor is what the operating system draws.

    Args:
        module: The model.
        seed: Seed of numbers that are not at an end.
    """

    def __init__(self, module: nn.Module, seed: int) -> None:
        self._found: list[Generator] = []
        self._of_torch: list[tuple[torch.Generator, torch.Tensor]] = []
        self._known: set[int] = set()
        for function in (random.random, np.random.rand):
            self._add(function.__self__)  # type: ignore[attr-defined]
        for owner in module.modules():
            for name, value in list(vars(owner).items()):
                if isinstance(value, np.random.Generator):
                    self._found.append(_NumpyGenerator(owner, name))
                self._add(value)
        drawn = np.random.RandomState(seed).randint(0, 2**32, WORDS, dtype=np.uint32)
        self._drawn: Words = drawn
        self._states: dict[tuple[Pattern, int], Words] = {}

    def _add(self, value: Any) -> None:
        if id(value) in self._known or isinstance(value, random.SystemRandom):
            return
        self._known.add(id(value))
        if isinstance(value, torch.Generator):  # its draws are set where they are made
            self._of_torch.append((value, value.get_state()))
        elif isinstance(value, random.Random):
            self._found.append(_PythonGenerator(value))
        elif isinstance(value, np.random.RandomState):
            bits: Any = value.get_state(legacy=False)
            if bits["bit_generator"] == "MT19937":
                self._found.append(_NumpyState(value))

    def set_draws(self, pattern: Pattern) -> None:
        """Set the next draws: the same ones each time, or at an end of their range."""
        for i, generator in enumerate(self._found):
            if (pattern, i) not in self._states:
                self._states[pattern, i] = untempered(self._words(pattern, i))
            generator.set_state(self._states[pattern, i])

    def _words(self, pattern: Pattern, generator: int) -> Words:
        """Return the outputs that give a generator's draws their levels."""
        if pattern.place is not None and pattern.share is not None:
            words = self._drawn.copy()
            used = np.arange(WORDS_A_DRAW * MOST_DRAWS)
            # Numbers follow from the high bits, numpy's integers from the low ones,
            # which differ from word to word: a word beyond a limit is drawn again.
            low_bits = (pattern.place + used) % 2**8
            words[: len(used)] = (int(pattern.share * 2**32) & ~(2**8 - 1)) + low_bits
            return words
        every = [pattern.level(_number(generator, draw)) for draw in range(DRAWS)]
        every[MOST_DRAWS:] = [DRAWN] * (DRAWS - MOST_DRAWS)
        levels = np.repeat(every, WORDS_A_DRAW)
        # Each is smaller: numpy masks a word until it is below a limit.
        high = (2**32 - 1 - np.arange(WORDS)).astype(np.uint32)
        ends = np.where(levels == HIGH, high, np.uint32(LOW_WORD))
        return np.where(levels == DRAWN, self._drawn, ends)

    def set_middle(self) -> None:
        """Set the next draws to the middle of their range."""
        words = np.full(WORDS, MIDDLE_WORD, dtype=np.uint32)
        words[-MOST_DRAWS:] = self._drawn[-MOST_DRAWS:]  # for what comes after them
        for generator in self._found:
            generator.set_state(untempered(words))

    def numbers_used(self) -> set[int]:
        """Return the numbers of the draws since ``set``, for ``Pattern.level``."""
        return {
            _number(i, draw)
            for i, generator in enumerate(self._found)
            for draw in range(-(-generator.words_used() // WORDS_A_DRAW))
        }

    def restore(self) -> None:
        """Restore every generator."""
        for generator in self._found:
            generator.restore()
        for of_torch, state in self._of_torch:
            of_torch.set_state(state)


def _number(generator: int, draw: int) -> int:
    """Return the number of a draw; torch's draws begin at 0."""
    return (5 * (generator + 1) + draw) % DISTINCT_DRAWS


def _numpy_state(state: Words) -> dict[str, Any]:
    return {"bit_generator": "MT19937", "state": {"key": state, "pos": 0}}


def untempered(words: Words) -> Words:
    """Return the state of a Mersenne Twister whose next outputs are these words."""
    words = _without_right(words, 18, 0xFFFFFFFF)
    words = _without_left(words, 15, 0xEFC60000)
    words = _without_left(words, 7, 0x9D2C5680)
    return _without_right(words, 11, 0xFFFFFFFF)


def _without_right(words: Words, shift: int, mask: int) -> Words:
    """Return x where words = x ^ (x >> shift & mask)."""
    found = words
    for _ in range(32 // shift):  # each round finds as many bits as it shifts
        found = words ^ (found >> np.uint32(shift) & np.uint32(mask))
    return found


def _without_left(words: Words, shift: int, mask: int) -> Words:
    """Return x where words = x ^ (x << shift & mask)."""
    found = words
    for _ in range(32 // shift):
        found = words ^ (found << np.uint32(shift) & np.uint32(mask))
    return found

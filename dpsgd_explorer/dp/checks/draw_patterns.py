"""Patterns of levels for the random draws of a module, set by the safety check.

A shared draw is a random number that a module draws once for a whole batch.  A module
may mix samples only if such a number is small, or large, or if two numbers agree.  The
safety check therefore sets shared draws to three levels: as drawn, the low end of the
range, the high end.  Every pair of draws sees every combination of levels.  A module
may also choose between several branches by one number.  The check therefore also sets
all draws to eight points inside their ranges, which reach every branch that has an
eighth of the range, or one of eight categories.

Worked example: two draws have 9 combinations of three levels.  Four draws need 9
combinations too, since every two of the columns a, b, a + b and 2a + b modulo 3, for a,
b in {0, 1, 2}, contain all 9 pairs.  16 draws need 18 combinations: 9 for the lower
digit of a draw's number in base 4, and 9 for the upper digit.

A per-sample draw has separate numbers for each sample.  Other passes set these draws,
since a dropout at its low end keeps no value that could mix.  Binary draws, such as the
mask of a dropout, stay at their high end while other draws are at either end.  In one
pass they are at the low end alone.  A draw of few numbers per sample may be a coin that
selects a branch.  Such draws are also set to both ends by turns: from draw to draw,
within a draw, and for a quarter of the draws at a time.  Those that are not binary are
set to the points inside, too.

Source: Bush (1952), Orthogonal arrays of index unity: OA(9, 4, 3, 2).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import NamedTuple

#: Levels of a draw: as drawn, low end, high end; from INSIDE on, points in the range.
DRAWN, LOW, HIGH, INSIDE = range(4)
#: Number of points inside the range; the check runs up to two passes for each.
POINTS = 8
#: Number of draws with all combinations for every pair: 4 columns of the array for each
#: of two digits.  Draw 16 has the levels of draw 0, and so on.
DISTINCT_DRAWS = 16
#: Number of shared draws that are set, per pass and generator.  Later draws stay as
#: drawn, so that a loop that waits for a draw ends.
MAX_DRAWS = 100
#: ``Pattern.digit`` of a pattern with one level for all shared draws.
_CONSTANT = -1
#: Levels of per-sample draws with half of the numbers at the low end, and the others at
#: the high end.  The low numbers are all numbers of every second sample, or each
#: sample's numbers with an even index, or with an odd index.
EVEN_SAMPLES_LOW, EVEN_LOW, ODD_LOW = range(INSIDE + POINTS, INSIDE + POINTS + 3)
#: Number of per-sample draws that are set, per pass.  Later draws stay as drawn, so
#: that a loop that waits for a draw ends.
MAX_PER_SAMPLE_DRAWS = 250
#: Number of groups of coins; per-sample draws of few numbers join them by turns.
_GROUPS = 4
#: Index of the group of draws with too many numbers per sample to be a coin.
_LARGE_GROUP = _GROUPS
#: (is binary, group) of each kind of per-sample draws.
_KINDS = [(is_binary, g) for is_binary in (True, False) for g in range(_GROUPS + 1)]
_PER_SAMPLE_DRAWN = (DRAWN,) * len(_KINDS)


def per_sample_number(draw: int, *, is_binary: bool, large: bool) -> int:
    """Returns the number of a per-sample draw, which is below 0, for ``Pattern.level``.

    Args:
        draw: Index of the draw among the per-sample draws of the pass.
        is_binary: If True, the values are 0 or 1.
        large: If True, the draw has too many numbers per sample to be a coin.
    """
    group = _LARGE_GROUP if large else draw % _GROUPS
    return -1 - _KINDS.index((is_binary, group))


def are_coins(numbers: Iterable[int]) -> bool:
    """Returns True if these draws contain per-sample draws that may be coins."""
    return any(n < 0 and _KINDS[-1 - n][1] != _LARGE_GROUP for n in numbers)


class Pattern(NamedTuple):
    """The level of each draw of a pass, by the draw's number.

    Attributes:
        digit: Digit in base 4 of a shared draw's number that chooses the column of the
            orthogonal array, or _CONSTANT.
        a, b: Row of the orthogonal array.
        per_sample: Levels of the per-sample draws, by kind.
    """

    digit: int
    a: int
    b: int
    per_sample: tuple[int, ...] = _PER_SAMPLE_DRAWN

    def level(self, number: int) -> int:
        """Returns the level of a draw: DRAWN, LOW, HIGH, or a larger level."""
        if number < 0:
            return self.per_sample[-1 - number]
        if self.digit == _CONSTANT:
            return self.a
        column = number % DISTINCT_DRAWS // 4**self.digit % 4
        return self.a if column == 0 else ((column - 1) * self.a + self.b) % 3

    @property
    def point(self) -> int | None:
        """Index of the point for all shared draws, or None."""
        return self.a - INSIDE if self.digit == _CONSTANT and self.a >= INSIDE else None

    @property
    def share(self) -> float | None:
        """Share of the range that is below the point, or None."""
        return None if self.point is None else share_of(INSIDE + self.point)

    def __str__(self) -> str:
        shared = self[:3] != (_CONSTANT, DRAWN, DRAWN)
        kinds = ["once for the whole batch"] * shared
        kinds += ["for each sample"] * (self.per_sample != _PER_SAMPLE_DRAWN)
        return f"that it draws {' and '.join(kinds)} are {self._where()}"

    def _where(self) -> str:
        levels = {*self.per_sample} - {DRAWN}
        if self.digit == _CONSTANT:
            levels |= {self.a} - {DRAWN}
        if (
            self.digit != _CONSTANT
            or len(levels) != 1
            or max(levels) >= EVEN_SAMPLES_LOW
        ):
            return "at some ends of their ranges"
        (level,) = levels
        if level >= INSIDE:
            return f"at {share_of(level):.0%} of their ranges"
        return f"at the {'low' if level == LOW else 'high'} ends of their ranges"


def share_of(level: int) -> float:
    """Returns the share of the range that is below a point inside the range."""
    return (level - INSIDE + 0.5) / POINTS


def _per_sample(level: Callable[[bool, int], int], shared: int = DRAWN) -> Pattern:
    return Pattern(_CONSTANT, shared, shared, tuple(level(*kind) for kind in _KINDS))


def _numbers_at(end: int, shared: int = DRAWN) -> Pattern:
    return _per_sample(lambda is_binary, group: HIGH if is_binary else end, shared)


def _by_turns(even: int, odd: int) -> Pattern:
    ends = (even, odd, even, odd, DRAWN)
    return _per_sample(lambda is_binary, group: ends[group])


def _group_at(chosen: int, end: int) -> Pattern:
    return _per_sample(lambda is_binary, group: end if group == chosen else DRAWN)


def _at_point(level: int) -> Pattern:
    return _per_sample(
        lambda is_binary, group: DRAWN if is_binary or group == _LARGE_GROUP else level
    )


ALL_DRAWN = Pattern(_CONSTANT, DRAWN, DRAWN)
ALL_LOW, ALL_HIGH = (Pattern(_CONSTANT, level, level) for level in (LOW, HIGH))
#: Patterns with all shared draws at an end: all combinations of two ends for two draws.
END_PATTERNS = (ALL_LOW, ALL_HIGH, Pattern(0, LOW, HIGH), Pattern(0, HIGH, LOW))
ALL_PATTERNS = (
    *END_PATTERNS,
    *(Pattern(digit, a, b) for digit in (0, 1) for a in range(3) for b in range(3)),
    *(Pattern(_CONSTANT, INSIDE + point, 0) for point in range(POINTS)),
    *(_numbers_at(end, shared) for shared in (DRAWN, LOW, HIGH) for end in (LOW, HIGH)),
    _per_sample(lambda is_binary, group: LOW if is_binary else DRAWN),
    _by_turns(EVEN_LOW, ODD_LOW),
    _by_turns(ODD_LOW, EVEN_LOW),
    *(_group_at(group, end) for group in range(_GROUPS) for end in (LOW, HIGH)),
    *(_at_point(INSIDE + point) for point in range(POINTS)),
)
#: The pattern that sorts permutations with odd numbers.
ODD_ORDERED = Pattern(0, DRAWN, LOW)
#: The pattern with per-sample numbers at the low end in every second sample, and at the
#: high end in the other samples.
PER_SAMPLE_PATTERN = _numbers_at(EVEN_SAMPLES_LOW)


def patterns(
    numbers: Collection[int], choice: Iterable[Pattern] = ALL_PATTERNS
) -> Iterator[Pattern]:
    """Yields patterns, without those that set the draws as an earlier pattern did.

    Args:
        numbers: Numbers of the draws so far.  The collection may grow during the
            iteration, since a draw at an end may lead to further draws.
        choice: Patterns to choose from, in order.
    """
    yielded, remaining = [ALL_DRAWN], list(choice)
    while remaining:
        seen = {_levels(pattern, numbers) for pattern in yielded}
        remaining = [p for p in remaining if _levels(p, numbers) not in seen]
        if not remaining:
            return
        yielded.append(remaining[0])
        yield remaining[0]


def _levels(pattern: Pattern, numbers: Iterable[int]) -> tuple[int, ...]:
    return tuple(pattern.level(number) for number in sorted(numbers))

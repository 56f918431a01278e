"""Which of a module's draws are set to an end of their range, pass by pass.

A shared draw is a random number that a module draws once for a whole batch.  A module
may mix samples only where such a number is small, or large, or where two of them agree,
so the safety check runs with each pair of draws in each combination of three levels:
as drawn, at the low end, at the high end.  A module may also choose between several
branches by one number, so all draws are set to eight places inside their ranges too: a
branch that has an eighth of the range, or one of eight categories, is seen.

Worked: two draws have 9 combinations, one of them as drawn.  Four draws need no more
than those 9, of which any two draws see all: the levels a, b, a + b and 2a + b modulo 3
for a, b in {0, 1, 2}.  16 draws need them twice, by the two digits of a draw's number
in base 4.

A sample's own draws are set in passes of their own, since a dropout at its low end
leaves nothing that could mix.  Yes-or-no draws (a dropout's) stay at their high end
while numbers are at either; then they are at the low end alone.  Draws of few numbers
per sample may be coins: these are also set in alternation, from draw to draw and within
one, a quarter of the draws at a time, and numbers among them to the places inside.

Source: Bush (1952), Orthogonal arrays of index unity: OA(9, 4, 3, 2).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import NamedTuple

#: Levels of a draw.  Those from INSIDE on are places inside its range.
DRAWN, LOW, HIGH, INSIDE = range(4)
#: Places inside the range.
PLACES = 8
#: Draws of which every pair sees all combinations; a further one shares the levels of
#: the draw this many numbers before it.
DISTINCT_DRAWS = 16
#: Draws of a pass and a generator that are set.  A loop that ends by a draw must end.
MOST_DRAWS = 100
_CONSTANT = -1  # a pattern in which all draws have one level
#: Levels of samples' own draws: the low end for every second sample, or for a sample's
#: even numbers, or for its odd ones, and the high end for the others.
EVEN_SAMPLES_LOW, EVEN_LOW, ODD_LOW = range(INSIDE + PLACES, INSIDE + PLACES + 3)
#: Samples' own draws of a pass that are set.  A loop that ends by a draw must end.
MOST_OWN_DRAWS = 250
#: Classes of own draws: yes-or-no draws and numbers, each in four groups of coins, and
#: those of many numbers per sample.
_GROUPS = 4
_LARGE = _GROUPS
_KINDS = [(yes_or_no, g) for yes_or_no in (True, False) for g in range(_GROUPS + 1)]
_ALL_OWN_DRAWN = (DRAWN,) * len(_KINDS)


def own_number(draw: int, *, yes_or_no: bool, large: bool) -> int:
    """Return the number of a sample's own draw, for ``Pattern.level``: below 0.

    Args:
        draw: How many own draws of the pass came before.
        yes_or_no: Whether it is 0 or 1.
        large: Whether it is of too many numbers per sample to be a coin.
    """
    group = _LARGE if large else draw % _GROUPS
    return -1 - _KINDS.index((yes_or_no, group))


def are_coins(numbers: Iterable[int]) -> bool:
    """Whether own draws of few numbers per sample are among these."""
    return any(n < 0 and _KINDS[-1 - n][1] != _LARGE for n in numbers)


class Pattern(NamedTuple):
    """The level of each draw of a pass, by the draw's number.

    Attributes:
        digit: Digit of a shared draw's number, in base 4, that chooses the level.
        a, b: Row of the orthogonal array.
        own: Levels of the samples' own draws, by class.
    """

    digit: int
    a: int
    b: int
    own: tuple[int, ...] = _ALL_OWN_DRAWN

    def level(self, number: int) -> int:
        """Return DRAWN, LOW, HIGH, or INSIDE and more."""
        if number < 0:
            return self.own[-1 - number]
        if self.digit == _CONSTANT:
            return self.a
        column = number % DISTINCT_DRAWS // 4**self.digit % 4
        return self.a if column == 0 else ((column - 1) * self.a + self.b) % 3

    @property
    def place(self) -> int | None:
        """Number of the place inside the range of all draws; None for other levels."""
        return self.a - INSIDE if self.digit == _CONSTANT and self.a >= INSIDE else None

    @property
    def share(self) -> float | None:
        """Share of the range that lies below the place; None for other levels."""
        return None if self.place is None else share_of(INSIDE + self.place)

    def __str__(self) -> str:
        shared = self[:3] != (_CONSTANT, DRAWN, DRAWN)
        whose = ["once for the whole batch"] * shared
        whose += ["for each sample"] * (self.own != _ALL_OWN_DRAWN)
        return f"that it draws {' and '.join(whose)} are {self._where()}"

    def _where(self) -> str:
        levels = {*self.own} - {DRAWN}
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
    """Return the share of the range that lies below a place inside."""
    return (level - INSIDE + 0.5) / PLACES


def _own(level: Callable[[bool, int], int], shared: int = DRAWN) -> Pattern:
    return Pattern(_CONSTANT, shared, shared, tuple(level(*kind) for kind in _KINDS))


def _numbers_at(end: int, shared: int = DRAWN) -> Pattern:
    return _own(lambda yes_or_no, group: HIGH if yes_or_no else end, shared)


def _by_turns(even: int, odd: int) -> Pattern:
    ends = (even, odd, even, odd, DRAWN)
    return _own(lambda yes_or_no, group: ends[group])


def _group_at(chosen: int, end: int) -> Pattern:
    return _own(lambda yes_or_no, group: end if group == chosen else DRAWN)


def _place_inside(level: int) -> Pattern:
    return _own(
        lambda yes_or_no, group: DRAWN if yes_or_no or group == _LARGE else level
    )


ALL_DRAWN = Pattern(_CONSTANT, DRAWN, DRAWN)
ALL_LOW, ALL_HIGH = (Pattern(_CONSTANT, level, level) for level in (LOW, HIGH))
#: Alternating ends: with the two before, all combinations of two ends for two draws.
FEW_PATTERNS = (ALL_LOW, ALL_HIGH, Pattern(0, LOW, HIGH), Pattern(0, HIGH, LOW))
ALL_PATTERNS = (
    *FEW_PATTERNS,
    *(Pattern(digit, a, b) for digit in (0, 1) for a in range(3) for b in range(3)),
    *(Pattern(_CONSTANT, INSIDE + place, 0) for place in range(PLACES)),
    *(_numbers_at(end, shared) for shared in (DRAWN, LOW, HIGH) for end in (LOW, HIGH)),
    _own(lambda yes_or_no, group: LOW if yes_or_no else DRAWN),
    _by_turns(EVEN_LOW, ODD_LOW),
    _by_turns(ODD_LOW, EVEN_LOW),
    *(_group_at(group, end) for group in range(_GROUPS) for end in (LOW, HIGH)),
    *(_place_inside(INSIDE + place) for place in range(PLACES)),
)
#: The pattern in which permutations of odd numbers leave all elements in their places.
ODD_ORDERED = Pattern(0, DRAWN, LOW)
#: Own draws of a whole batch: both ends at the same time.
OWN_PATTERN = _numbers_at(EVEN_SAMPLES_LOW)


def patterns(
    numbers: Collection[int], choice: Iterable[Pattern] = ALL_PATTERNS
) -> Iterator[Pattern]:
    """Yield the patterns that differ in some draw from those before and from ALL_DRAWN.

    Args:
        numbers: Numbers of the draws seen so far.  It may grow meanwhile: a draw
            at an end may lead to others.
        choice: Patterns to choose from, in order.
    """
    tried, waiting = [ALL_DRAWN], list(choice)
    while waiting:
        seen = {_levels(pattern, numbers) for pattern in tried}
        waiting = [p for p in waiting if _levels(p, numbers) not in seen]
        if not waiting:
            return
        tried.append(waiting[0])
        yield waiting[0]


def _levels(pattern: Pattern, numbers: Iterable[int]) -> tuple[int, ...]:
    return tuple(pattern.level(number) for number in sorted(numbers))

"""Which of a module's shared draws are set to an end of their range, pass by pass.

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

Source: Bush (1952), Orthogonal arrays of index unity: OA(9, 4, 3, 2).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
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


class Pattern(NamedTuple):
    """The level of each shared draw of a pass, by the draw's number.

    Attributes:
        digit: Digit of the number, in base 4, that chooses the level.
        a, b: Row of the orthogonal array.
    """

    digit: int
    a: int
    b: int

    def level(self, number: int) -> int:
        """Return DRAWN, LOW, HIGH, or INSIDE and more."""
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
        return None if self.place is None else (self.place + 0.5) / PLACES

    def __str__(self) -> str:
        if self.digit != _CONSTANT:
            return "at some ends of their ranges"
        if self.share is not None:
            return f"at {self.share:.0%} of their ranges"
        return f"at the {'low' if self.a == LOW else 'high'} ends of their ranges"


ALL_DRAWN = Pattern(_CONSTANT, DRAWN, DRAWN)
ALL_LOW, ALL_HIGH = (Pattern(_CONSTANT, level, level) for level in (LOW, HIGH))
#: Alternating ends: with the two before, all combinations of two ends for two draws.
FEW_PATTERNS = (ALL_LOW, ALL_HIGH, Pattern(0, LOW, HIGH), Pattern(0, HIGH, LOW))
ALL_PATTERNS = (
    *FEW_PATTERNS,
    *(Pattern(digit, a, b) for digit in (0, 1) for a in range(3) for b in range(3)),
    *(Pattern(_CONSTANT, INSIDE + place, 0) for place in range(PLACES)),
)


def patterns(
    numbers: Collection[int], choice: Iterable[Pattern] = ALL_PATTERNS
) -> Iterator[Pattern]:
    """Yield the patterns that differ in some draw from those before and from ALL_DRAWN.

    Args:
        numbers: Numbers of the shared draws seen so far.  It may grow meanwhile: a draw
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

"""A small census table, and every block of people that fits what is published of it.

All blocks of two women and three men of whole ages are enumerated, and kept where they
agree with the published statistics.  Published statistics are exact, as in a census
without noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

Block = NDArray[np.int16]  # [N, 5]: ages of the women, then of the men, each ascending

WOMEN, MEN = (31, 66), (8, 30, 45)  # invented
AGES = WOMEN + MEN
OLDEST = 89  # largest age that is considered
ADULT = 18


@dataclass(frozen=True)
class Statistic:
    """One published number: its words, and its value for each block."""

    words: str
    slug: str


STATISTICS = (
    Statistic("median age of all", "median"),
    Statistic("mean age of the women", "women"),
    Statistic("median age of the men", "men"),
    Statistic("mean age of the adults", "adults"),
)


def value(slug: str, blocks: Block) -> NDArray[np.float64]:
    """Returns one statistic of each block [N, 5], as [N]."""
    grown = blocks >= ADULT
    if slug == "median":
        return np.asarray(np.median(blocks, axis=1), dtype=np.float64)
    if slug == "women":
        return np.asarray(blocks[:, : len(WOMEN)].mean(axis=1), dtype=np.float64)
    if slug == "men":
        return np.asarray(np.median(blocks[:, len(WOMEN) :], axis=1), dtype=np.float64)
    if slug == "adults":
        counted = np.maximum(grown.sum(axis=1), 1)
        return np.asarray(np.where(grown, blocks, 0).sum(axis=1) / counted)
    raise ValueError(f"slug must name a statistic, got {slug!r}.")


def true_block() -> Block:
    """Returns the block itself, [1, 5]."""
    return np.array([AGES], dtype=np.int16)


@cache
def consistent() -> Block:
    """Returns every block with the published mean age of all people."""
    ages = np.arange(OLDEST + 1, dtype=np.int16)
    women = np.array([(a, b) for a in ages for b in ages[a:]], dtype=np.int16)
    first, second, third = np.meshgrid(ages, ages, ages, indexing="ij")
    keep = (first <= second) & (second <= third)
    men = np.stack([first[keep], second[keep], third[keep]], axis=1)
    total = sum(AGES)
    of_women, of_men = women.sum(axis=1), men.sum(axis=1)
    found = []
    for share in range(total + 1):
        left, right = women[of_women == share], men[of_men == total - share]
        if len(left) and len(right):
            found.append(
                np.hstack(
                    [
                        np.repeat(left, len(right), axis=0),
                        np.tile(right, (len(left), 1)),
                    ]
                )
            )
    return np.concatenate(found)


def all_blocks() -> int:
    """Returns the number of blocks before anything is published."""
    count = OLDEST + 1
    return (count * (count + 1) // 2) * (count * (count + 1) * (count + 2) // 6)


@cache
def fits() -> tuple[tuple[int, tuple[tuple[int, int], ...]], ...]:
    """Returns, for each set of statistics, how many blocks fit and each age's range.

    The set is the binary number of the index: bit ``i`` for ``STATISTICS[i]``.
    """
    blocks = consistent()
    agrees = [
        value(one.slug, blocks) == value(one.slug, true_block())[0]
        for one in STATISTICS
    ]
    answers = []
    for published in range(2 ** len(STATISTICS)):
        keep = np.ones(len(blocks), dtype=bool)
        for i, agreed in enumerate(agrees):
            if published >> i & 1:
                keep &= agreed
        left = blocks[keep]
        ranges = tuple(
            (int(low), int(high))
            for low, high in zip(left.min(axis=0), left.max(axis=0), strict=True)
        )
        answers.append((len(left), ranges))
    return tuple(answers)

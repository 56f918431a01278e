"""First names of men and women, drawn as often as the US census of 1990 counted them.

A record is a person: a man or a woman with the same probability, whose name is drawn
from the census' list of 1,219 or 4,275 names by its frequency.  Common names belong to
many persons, of the training and of the test part alike: what is protected is a person,
not a name.  The draws are those of Python's Mersenne Twister, so they are the same
everywhere.

A name of up to eleven letters is preceded by blanks, so that the last place holds its
last letter: 0 is a blank, 1 to 26 are A to Z.

Source: US Census Bureau (1995), "Frequently occurring first names and surnames from the
1990 census"; data/README.md.
"""

from __future__ import annotations

import random
from bisect import bisect
from itertools import accumulate
from pathlib import Path

import torch
from torch import Tensor

from dpsgd_explorer.experiments.data_files.files import FOLDER, DataFile

MALE = DataFile(
    "names/dist.male.first.xz",
    "0a5078ef6effe3b483d15b0f7f95047662126c9bfb624ecd5e5b978fc0f2470b",
)
FEMALE = DataFile(
    "names/dist.female.first.xz",
    "bd2f310fc4e5d5e5ea122c9d4342c9821145823118eb20db1647f305ec77b358",
)
FILES = (MALE, FEMALE)  # in the order of the labels
TRAIN_SIZE, TEST_SIZE = 40_000, 8_000
LENGTH = 11  # of the longest names
SEED = 1
SHARE = 1000  # of a frequency, in percent with three digits, to make it whole
BLANK = "@"  # the character before "A"


def load(folder: Path = FOLDER) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return training names and labels, then test names and labels.

    Shapes: names [N, 11] int64, characters 0 to 26; labels [N] int64, 1 for a woman.
    Half of each part are women.

    Raises:
        DataError: a file is missing or damaged.
    """
    lists = [frequencies(file.read(folder).decode()) for file in FILES]
    persons = draw(lists, TRAIN_SIZE + TEST_SIZE)
    names = torch.tensor([encode(name) for name in persons])
    labels = torch.arange(len(persons)) % len(lists)
    train, test = slice(TRAIN_SIZE), slice(TRAIN_SIZE, None)
    return names[train], labels[train], names[test], labels[test]


def frequencies(text: str) -> dict[str, int]:
    """Return each name's frequency, in thousandths of a percent.

    A line reads ``MARY  2.629  2.629  1``: name, percent, running sum, rank.
    """
    rows = (line.split() for line in text.splitlines() if line)
    return {name: round(SHARE * float(percent)) for name, percent, *_ in rows}


def draw(lists: list[dict[str, int]], count: int) -> list[str]:
    """Return ``count`` names, from each list in turn, by their frequencies."""
    chance = random.Random(SEED)
    tables = [(list(of), list(accumulate(of.values()))) for of in lists]
    drawn = []
    for person in range(count):
        names, sums = tables[person % len(tables)]
        drawn.append(names[bisect(sums, chance.random() * sums[-1])])
    return drawn


def encode(name: str) -> list[int]:
    """Return a name as ``LENGTH`` characters, blanks first."""
    return [ord(letter) - ord(BLANK) for letter in name.rjust(LENGTH, BLANK)]

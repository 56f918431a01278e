"""First names of men and women, drawn by their frequencies in the 1990 US census.

Each record is a person.  Half of the persons are men and half are women.  The name is
drawn by frequency from the census list of 1,219 names for men or 4,275 for women.  Many
persons share a common name, in the training and in the test records, so the guarantee
protects persons, not names.  Python's Mersenne Twister draws the names, so they are
equal on all machines.

Names have up to eleven letters.  Blanks precede shorter names, so that the last
position contains the last letter.  Code 0 is a blank, and 1 to 26 are A to Z.

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
#: Files in the order of the labels.
FILES = (MALE, FEMALE)
TRAIN_SIZE, TEST_SIZE = 40_000, 8_000
#: Number of characters of the longest names.
LENGTH = 11
SEED = 1
#: Factor that makes frequencies, percentages with three decimals, whole numbers.
FREQUENCY_FACTOR = 1000
#: The character before "A", which gives blanks the code 0.
BLANK = "@"


def load(folder: Path = FOLDER) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Returns training names and labels, then test names and labels.

    Shapes: names [N, 11] int64, codes 0 to 26; labels [N] int64, 1 for a woman.

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
    """Returns {name: frequency in thousandths of a percent}.

    A line contains name, percentage, cumulative percentage and rank, such as
    ``MARY  2.629  2.629  1``.
    """
    rows = (line.split() for line in text.splitlines() if line)
    return {
        name: round(FREQUENCY_FACTOR * float(percent)) for name, percent, *_ in rows
    }


def draw(lists: list[dict[str, int]], count: int) -> list[str]:
    """Returns ``count`` names, drawn from each list in turn by their frequencies."""
    generator = random.Random(SEED)
    tables = [(list(names), list(accumulate(names.values()))) for names in lists]
    drawn = []
    for person in range(count):
        names, sums = tables[person % len(tables)]
        drawn.append(names[bisect(sums, generator.random() * sums[-1])])
    return drawn


def encode(name: str) -> list[int]:
    """Returns a name as ``LENGTH`` codes, blanks first."""
    return [ord(letter) - ord(BLANK) for letter in name.rjust(LENGTH, BLANK)]

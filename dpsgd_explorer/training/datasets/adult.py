"""UCI Adult: 32,561 training and 16,281 test records of the 1994 census, as features.

The features cost no privacy, because they do not depend on the records: the donor's
description lists the values of each attribute, and thresholds and bounds are round
numbers, chosen without looking at the records.

| attribute | columns |
|---|---|
| eight attributes with listed values | one column per value and for "?" (unknown) |
| age, education-num, hours-per-week | per threshold: 1 at or above it, else 0 |
| capital-gain, capital-loss | thresholds, and log(1 + value) divided by its bound |
| fnlwgt | no column: it describes the sampling of the census, not the person |

Each row is then scaled to norm 1.

Source: Becker and Kohavi (1996), UCI Machine Learning Repository; data/README.md.
"""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpsgd_explorer.experiments.data_files.files import FOLDER, DataFile

TRAIN = DataFile(
    "adult/adult.data.xz",
    "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
)
TEST = DataFile(
    "adult/adult.test.xz",
    "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
)
DESCRIPTION = DataFile(
    "adult/adult.names.xz",
    "c248284c0b5de30c9e1958d6cdd168a34a654758b620e68f46aefa83fc0a576a",
)
FILES = (TRAIN, TEST, DESCRIPTION)

POSITIVE = ">50K"
UNKNOWN = "?"
THRESHOLDS: dict[str, tuple[int, ...]] = {
    "age": (20, 25, 30, 35, 40, 45, 50, 55, 60, 65),
    "education-num": (10, 13, 14, 15),
    "hours-per-week": (20, 30, 35, 40, 45, 50, 60),
    "capital-gain": (1, 5_000, 10_000),
    "capital-loss": (1,),
}
#: {attribute: bound of the values whose logarithm is a column}.
VALUE_BOUNDS: dict[str, int] = {"capital-gain": 100_000, "capital-loss": 100_000}

Column = NDArray[np.float32]


def load(folder: Path = FOLDER) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Returns training features and labels, then test features and labels.

    Shapes: features [N, D] float32, rows of norm 1; labels [N] int64, 1 for an income
    above 50,000 dollars.

    Raises:
        DataError: a file is missing or damaged.
    """
    attributes = described(DESCRIPTION.read(folder).decode())
    train, test = (
        encode(records(file.read(folder).decode()), attributes)
        for file in (TRAIN, TEST)
    )
    return (*train, *test)


def feature_names(folder: Path = FOLDER) -> tuple[str, ...]:
    """Returns the name of each column, such as "sex = Female" or "age ≥ 30".

    Raises:
        DataError: the description is missing or damaged.
    """
    names: list[str] = []
    for name, listed in described(DESCRIPTION.read(folder).decode()).items():
        words = name.replace("-", " ")
        if listed:
            values = [*listed, "unknown"]
            names += [f"{words} = {value}" for value in values]
        elif name in THRESHOLDS:
            names += [f"{words} ≥ {value:,}" for value in THRESHOLDS[name]]
            names += [f"{words}, logarithm"] if name in VALUE_BOUNDS else []
    return tuple(names)


def described(text: str) -> dict[str, list[str]]:
    """Returns {attribute: listed values} in the file's order; numbers have no values.

    A line has the form ``name: value, value.`` or ``name: continuous.``.  Lines that
    start with ``|`` are comments.
    """
    attributes = {}
    for line in text.splitlines():
        if ":" in line and not line.startswith("|"):
            name, values = line.rstrip(".").split(":")
            listed = values.strip()
            attributes[name] = [] if listed == "continuous" else listed.split(", ")
    return attributes


def records(text: str) -> list[list[str]]:
    """Returns the rows, without empty lines and comments."""
    lines = (line for line in text.splitlines() if line and not line.startswith("|"))
    return list(csv.reader(lines, skipinitialspace=True))


def encode(
    rows: list[list[str]], attributes: dict[str, list[str]]
) -> tuple[Tensor, Tensor]:
    """Returns the features and labels of rows: [N, D] and [N]."""
    *answers, income = zip(*rows, strict=True)
    blocks: list[Column] = []
    for (name, listed), values in zip(attributes.items(), answers, strict=True):
        if listed:
            blocks.append(one_hot(values, [*listed, UNKNOWN]))
        elif name in THRESHOLDS:
            blocks.extend(numeric(name, np.array(values, dtype=np.float32)))
    features = np.concatenate(blocks, axis=1)
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    labels = [answer.rstrip(".") == POSITIVE for answer in income]
    return torch.from_numpy(features), torch.tensor(labels, dtype=torch.int64)


def one_hot(values: tuple[str, ...], listed: list[str]) -> Column:
    """Returns a column for each listed value, 1 for records with the value: [N, V]."""
    index = {value: i for i, value in enumerate(listed)}
    return np.eye(len(listed), dtype=np.float32)[[index[value] for value in values]]


def numeric(name: str, values: Column) -> list[Column]:
    """Returns a column for each threshold and, for money, one for the logarithm."""
    columns: list[Column] = [
        (values[:, None] >= np.array(THRESHOLDS[name])).astype(np.float32)
    ]
    if name in VALUE_BOUNDS:
        share = np.log1p(values)[:, None] / math.log1p(VALUE_BOUNDS[name])
        columns.append(share.astype(np.float32))
    return columns

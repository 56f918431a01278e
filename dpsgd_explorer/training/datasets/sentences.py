"""A sentence for each person of the US census of 1994 (UCI Adult).

An example is "A divorced woman of 39 works 40 hours in sales."  A sentence contains
marital status, sex, age, hours per week and occupation.  One sentence is one record.

As records of the trainer, the inputs are the bytes of a sentence between line breaks
without the last byte, and the targets are the next bytes.

Source: Becker and Kohavi (1996), UCI Machine Learning Repository; data/README.md.
"""

from __future__ import annotations

import re

import torch
from torch import Tensor

from dpsgd_explorer.experiments.architecture import DECODER_LENGTH
from dpsgd_explorer.training.datasets import adult

#: Bytes of the longest sentence, with the line breaks around it.
LENGTH = DECODER_LENGTH
PADDING = 0
#: Target behind the end of a sentence, which torch's cross-entropy leaves out.
IGNORED = -100
#: Number of test persons; an evaluation of all 16,281 takes longer than a training.
TEST_SIZE = 500

SEX = {"Female": "woman", "Male": "man"}
STATUS = {
    "Divorced": "divorced",
    "Married-AF-spouse": "married",
    "Married-civ-spouse": "married",
    "Married-spouse-absent": "married",
    "Never-married": "single",
    "Separated": "separated",
    "Widowed": "widowed",
}
WORK = {
    "?": "some job",
    "Adm-clerical": "an office",
    "Armed-Forces": "the army",
    "Craft-repair": "a craft",
    "Exec-managerial": "management",
    "Farming-fishing": "farming",
    "Handlers-cleaners": "cleaning",
    "Machine-op-inspct": "a factory",
    "Other-service": "services",
    "Priv-house-serv": "a household",
    "Prof-specialty": "a profession",
    "Protective-serv": "security",
    "Sales": "sales",
    "Tech-support": "tech support",
    "Transport-moving": "transport",
}
SENTENCE = re.compile(
    rf"A ({'|'.join(set(STATUS.values()))}) ({'|'.join(SEX.values())}) of [1-9]\d "
    rf"works [1-9]\d? hours in ({'|'.join(WORK.values())})\."
)


def load() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Returns training bytes and next bytes, then test bytes and next bytes.

    Shapes: all (N, LENGTH - 1) int64.

    Raises:
        DataError: a file is missing or damaged.
    """
    train, test = encode(sentences("train")), encode(sentences("test")[:TEST_SIZE])
    return train[:, :-1], following(train), test[:, :-1], following(test)


def following(ids: Tensor) -> Tensor:
    """Returns the bytes after the first, and IGNORED behind the end: (N, T - 1)."""
    return torch.where(ids[:, 1:] == PADDING, IGNORED, ids[:, 1:])


def sentences(part: str) -> list[str]:
    """Returns one sentence per person of the "train" or "test" part of UCI Adult."""
    file = {"train": adult.TRAIN, "test": adult.TEST}[part]
    return [sentence(row) for row in adult.records(file.read().decode())]


def sentence(row: list[str]) -> str:
    """Returns the sentence of one row of the census."""
    age, _, _, _, _, status, work, _, _, sex, _, _, hours, *_ = row
    return (
        f"A {STATUS[status]} {SEX[sex]} of {age} works {hours} hours in {WORK[work]}."
    )


def encode(texts: list[str]) -> Tensor:
    """Returns the bytes (N, LENGTH) of texts between line breaks, padded with 0."""
    lines = [f"\n{text}\n".encode() for text in texts]
    for line, text in zip(lines, texts, strict=True):
        if len(line) > LENGTH:
            raise ValueError(f"a text must have at most {LENGTH - 2} bytes: {text}")
    padded = b"".join(line.ljust(LENGTH, bytes([PADDING])) for line in lines)
    ids = torch.frombuffer(bytearray(padded), dtype=torch.uint8)
    return ids.view(len(texts), LENGTH).long()

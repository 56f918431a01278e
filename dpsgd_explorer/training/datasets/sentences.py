"""A sentence for each person of the US census of 1994 (UCI Adult), such as:

A divorced woman of 39 works 40 hours in sales.
"""

import re

import torch
from torch import Tensor

from dpsgd_explorer.training.datasets import adult

LENGTH = 57  # bytes of the longest sentence, with the line breaks around it
PADDING = 0

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


def sentences(part: str) -> list[str]:
    """Returns one sentence per person of the "train" or "test" part of UCI Adult."""
    file = {"train": adult.TRAIN, "test": adult.TEST}[part]
    return [sentence(row) for row in adult.records(file.read(adult.FOLDER).decode())]


def sentence(row: list[str]) -> str:
    """Returns the sentence of one row of the census."""
    age, _, _, _, _, status, work, _, _, sex, _, _, hours, *_ = row
    return (
        f"A {STATUS[status]} {SEX[sex]} of {age} works {hours} hours in {WORK[work]}."
    )


def encode(texts: list[str]) -> Tensor:
    """Returns the bytes (N, LENGTH) of texts between line breaks, padded with 0."""
    rows = torch.full((len(texts), LENGTH), PADDING)
    for row, text in zip(rows, texts, strict=True):
        line = f"\n{text}\n".encode()
        if len(line) > LENGTH:
            raise ValueError(f"a text must have at most {LENGTH - 2} bytes: {text}")
        row[: len(line)] = torch.tensor(list(line))
    return rows

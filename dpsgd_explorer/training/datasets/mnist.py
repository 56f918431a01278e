"""MNIST: 60,000 and 10,000 handwritten digits, from the four classic idx files.

Source: LeCun, Bottou, Bengio and Haffner (1998); data/README.md tells the way here.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from dpsgd_explorer.errors import DataError
from dpsgd_explorer.experiments.data_files.files import FOLDER, DataFile

UNSIGNED_BYTE = 0x08  # the idx format's code for the element type

TRAIN_IMAGES = DataFile(
    "mnist/train-images-idx3-ubyte.gz",
    "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
)
TRAIN_LABELS = DataFile(
    "mnist/train-labels-idx1-ubyte.gz",
    "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
)
TEST_IMAGES = DataFile(
    "mnist/t10k-images-idx3-ubyte.gz",
    "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
)
TEST_LABELS = DataFile(
    "mnist/t10k-labels-idx1-ubyte.gz",
    "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
)
FILES = (TRAIN_IMAGES, TRAIN_LABELS, TEST_IMAGES, TEST_LABELS)


def load(folder: Path = FOLDER) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return training pictures and labels, then test pictures and labels.

    Shapes: pictures [N, 1, 28, 28] float32 in [0, 1]; labels [N] int64.

    Raises:
        DataError: a file is missing or damaged.
    """
    return (
        pictures(TRAIN_IMAGES.read(folder)),
        labels(TRAIN_LABELS.read(folder)),
        pictures(TEST_IMAGES.read(folder)),
        labels(TEST_LABELS.read(folder)),
    )


def pictures(content: bytes) -> Tensor:
    """Return the pictures of an idx file: [N, 1, H, W] float32 in [0, 1]."""
    return torch.from_numpy(idx_array(content))[:, None].float().div_(255)


def labels(content: bytes) -> Tensor:
    """Return the labels of an idx file: [N] int64."""
    return torch.from_numpy(idx_array(content)).long()


def idx_array(content: bytes) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    """Read an idx file of unsigned bytes.

    Two zero bytes, the element type, the number of axes; each axis' length as four
    bytes, the highest first; then the elements.

    Raises:
        DataError: the header or the length is not of that form.
    """
    header = 4 + 4 * content[3] if content[:3] == bytes([0, 0, UNSIGNED_BYTE]) else 0
    shape = tuple(np.frombuffer(content[4:header], ">u4").tolist())
    if not shape or len(content) != header + math.prod(shape):
        raise DataError(
            "an idx file must hold unsigned bytes and be as long as its header says, "
            f"got {len(content)} bytes that begin with {content[:4].hex()}."
        )
    # copied, because torch wants memory it could write to
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape).copy()

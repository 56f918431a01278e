"""MNIST: 60,000 training and 10,000 test pictures of handwritten digits.

The repository contains the four idx files; see data/README.md.  An installed package
downloads them.

Source: LeCun, Bottou, Bengio and Haffner (1998).
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from dpsgd_explorer.errors import DataError
from dpsgd_explorer.experiments.data_files.fetched import FetchedSet
from dpsgd_explorer.experiments.data_files.sets import MNIST
from dpsgd_explorer.training.datasets.download import read

#: Code of the element type "unsigned byte" in the idx format.
UNSIGNED_BYTE = 0x08

FILES = MNIST.files
TRAIN_IMAGES, TRAIN_LABELS, TEST_IMAGES, TEST_LABELS = FILES


def load(data: FetchedSet = MNIST) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Returns training pictures and labels, then test pictures and labels.

    Shapes: pictures [N, 1, 28, 28] float32 in [0, 1]; labels [N] int64.

    Args:
        data: Data set of four idx files, such as MNIST.

    Raises:
        DataError: a file is not on the machine and could not be downloaded.
    """
    train, train_labels, test, test_labels = (read(data, file) for file in data.files)
    return pictures(train), labels(train_labels), pictures(test), labels(test_labels)


def pictures(content: bytes) -> Tensor:
    """Returns the pictures of an idx file: [N, 1, H, W] float32 in [0, 1]."""
    return torch.from_numpy(idx_array(content))[:, None].float().div_(255)


def labels(content: bytes) -> Tensor:
    """Returns the labels of an idx file: [N] int64."""
    return torch.from_numpy(idx_array(content)).long()


def idx_array(content: bytes) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    """Returns the array of an idx file of unsigned bytes.

    The file contains two zero bytes, a byte for the element type, a byte for the number
    of axes, the length of each axis as a big-endian uint32, and the elements.

    Raises:
        DataError: the header or the length does not have this form.
    """
    header = 4 + 4 * content[3] if content[:3] == bytes([0, 0, UNSIGNED_BYTE]) else 0
    shape = tuple(np.frombuffer(content[4:header], ">u4").tolist())
    if not shape or len(content) != header + math.prod(shape):
        raise DataError(
            "an idx file must contain unsigned bytes and have the length that its "
            f"header states, got {len(content)} bytes that begin with "
            f"{content[:4].hex()}."
        )
    # A copy, because torch requires writable memory.
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape).copy()

"""MNIST: 60,000 and 10,000 handwritten digits, from the four classic idx files.

Source: LeCun, Bottou, Bengio and Haffner (1998). A checkout has the files, see
data/README.md; an installed package fetches them.
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

UNSIGNED_BYTE = 0x08  # the idx format's code for the element type

FILES = MNIST.files
TRAIN_IMAGES, TRAIN_LABELS, TEST_IMAGES, TEST_LABELS = FILES


def load(data: FetchedSet = MNIST) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return training pictures and labels, then test pictures and labels.

    Shapes: pictures [N, 1, 28, 28] float32 in [0, 1]; labels [N] int64.

    Args:
        data: A data set in the four files of MNIST.

    Raises:
        DataError: a file is not on the machine and could not be fetched.
    """
    train, train_labels, test, test_labels = (read(data, file) for file in data.files)
    return pictures(train), labels(train_labels), pictures(test), labels(test_labels)


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
            "an idx file must contain unsigned bytes and have the length that its "
            f"header states, got {len(content)} bytes that begin with "
            f"{content[:4].hex()}."
        )
    # copied, because torch wants memory it could write to
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape).copy()

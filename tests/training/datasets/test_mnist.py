import struct

import pytest
import torch

from dpsgd_explorer.errors import DataError
from dpsgd_explorer.training.datasets import mnist
from dpsgd_explorer.training.datasets.registry import load

# How often each digit occurs, as the publication's label files have it.
TRAIN_COUNTS = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
TEST_COUNTS = [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]


@pytest.fixture(scope="module")
def digits():
    return load("mnist")


@pytest.mark.parametrize(
    ("part", "counts"), [(0, TRAIN_COUNTS), (1, TEST_COUNTS)], ids=["train", "test"]
)
def test_labels_are_the_published_ones(digits, part, counts):
    targets = digits[part].targets
    assert targets.dtype == torch.int64
    assert torch.bincount(targets).tolist() == counts


@pytest.mark.parametrize("part", [0, 1], ids=["train", "test"])
def test_pixels_are_256ths_of_one_in_float32(digits, part):
    pictures = digits[part].inputs
    assert pictures.dtype == torch.float32
    assert (float(pictures.min()), float(pictures.max())) == (0.0, 1.0)
    levels = pictures[:1000] * 255
    assert torch.equal(levels, levels.round())


def test_the_first_digit_is_upright_and_a_five(digits):
    train, _ = digits
    assert int(train.targets[0]) == 5
    picture = train.inputs[0, 0]
    # Its first inked row and the ink of that row, read off the published file.
    assert int(picture.sum(dim=1).nonzero()[0]) == 5
    row = (picture[5] * 255).long()
    assert row[12:24].tolist() == [3, 18, 18, 18, 126, 136, 175, 26, 166, 255, 247, 127]


def test_idx_axes_and_elements_are_read_in_order():
    content = bytes([0, 0, 8, 2]) + struct.pack(">2I", 2, 3) + bytes(range(6))
    assert mnist.idx_array(content).tolist() == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        bytes([0, 0, 8, 0]),
        bytes([0, 0, 13, 1]) + struct.pack(">I", 3) + bytes(3),
        bytes([0, 1, 8, 1]) + struct.pack(">I", 3) + bytes(3),
        bytes([0, 0, 8, 1]) + struct.pack(">I", 3) + bytes(2),
        bytes([0, 0, 8, 1]) + struct.pack(">I", 3) + bytes(4),
        bytes([0, 0, 8, 3]) + struct.pack(">I", 1),
    ],
    ids=["empty", "no axis", "floats", "magic", "short", "long", "half a header"],
)
def test_a_file_that_is_no_idx_file_is_refused(content):
    with pytest.raises(DataError, match="idx file"):
        mnist.idx_array(content)

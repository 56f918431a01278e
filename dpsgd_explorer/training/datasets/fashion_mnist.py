"""Fashion-MNIST: 60,000 and 10,000 pictures of clothes, in the idx files of MNIST.

Source: Xiao, Rasul and Vollgraf (2017), arXiv:1708.07747; not in the package, see
``experiments.data_files``.
"""

from __future__ import annotations

from torch import Tensor

from dpsgd_explorer.experiments.data_files.sets import FASHION_MNIST
from dpsgd_explorer.training.datasets.download import read
from dpsgd_explorer.training.datasets.mnist import labels, pictures

TRAIN_IMAGES, TRAIN_LABELS, TEST_IMAGES, TEST_LABELS = FASHION_MNIST.files


def load() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return training pictures and labels, then test pictures and labels.

    Shapes: pictures [N, 1, 28, 28] float32 in [0, 1]; labels [N] int64.

    Raises:
        DataError: a file is not on the machine and could not be fetched.
    """
    contents = [read(FASHION_MNIST, file) for file in FASHION_MNIST.files]
    return (
        pictures(contents[0]),
        labels(contents[1]),
        pictures(contents[2]),
        labels(contents[3]),
    )

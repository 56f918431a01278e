"""Fashion-MNIST: 60,000 and 10,000 pictures of clothes, in the idx files of MNIST.

Source: Xiao, Rasul and Vollgraf (2017), arXiv:1708.07747; not in the package, see
``experiments.data_files``.
"""

from __future__ import annotations

from functools import partial

from dpsgd_explorer.experiments.data_files.sets import FASHION_MNIST
from dpsgd_explorer.training.datasets import mnist

TRAIN_IMAGES, TRAIN_LABELS, TEST_IMAGES, TEST_LABELS = FASHION_MNIST.files
load = partial(mnist.load, FASHION_MNIST)

"""Fashion-MNIST: 60,000 training and 10,000 test pictures of clothes, in idx files.

The files are downloaded; see ``experiments.data_files``.

Source: Xiao, Rasul and Vollgraf (2017), arXiv:1708.07747.
"""

from __future__ import annotations

from functools import partial

from dpsgd_explorer.experiments.data_files.sets import FASHION_MNIST
from dpsgd_explorer.training.datasets import mnist

TRAIN_IMAGES, TRAIN_LABELS, TEST_IMAGES, TEST_LABELS = FASHION_MNIST.files
load = partial(mnist.load, FASHION_MNIST)

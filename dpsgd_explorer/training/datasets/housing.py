"""California housing as a question of two classes: is a district dear?

20,640 districts of the 1990 census; the class says whether the median house value is
above 200,000 dollars.  A feature never depends on the records: thresholds are round
numbers, so there is no statistic to pay for.  Each row is scaled to length 1.  Every
fifth row is for testing.

Source: Pace and Barry (1997), "Sparse spatial autoregressions"; see
experiments/california_housing/.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpsgd_explorer.experiments.california_housing import housing
from dpsgd_explorer.experiments.data_files.files import DataFile

FILE = DataFile(housing.PATH.name, housing.SHA256)
DEAR = 2.0  # in units of 100,000 dollars
TEST_SHARE = 5  # one row in so many is for testing
THRESHOLDS: dict[str, tuple[float, ...]] = {
    "MedInc": (1, 2, 2.5, 3, 3.5, 4, 4.5, 5, 6, 8),
    "HouseAge": (10, 20, 30, 40, 50),
    "AveRooms": (3, 4, 5, 6, 7),
    "AveBedrms": (0.9, 1, 1.1, 1.2),
    "Population": (500, 1000, 2000, 4000),
    "AveOccup": (2, 2.5, 3, 3.5, 4),
    "Latitude": (33, 33.5, 34, 34.5, 35, 36, 37, 37.5, 38, 39),
    "Longitude": (-123, -122, -121, -120, -119, -118.5, -118, -117.5, -117),
}


def load() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return training features and labels, then test features and labels.

    Shapes: features [N, D] float32, rows of length 1; labels [N] int64, 1 if dear.

    Raises:
        DataError: the file is missing or damaged.
    """
    table, values = housing.load()
    features = torch.from_numpy(encode(table))
    labels = torch.from_numpy((values > DEAR).astype(np.int64))
    tested = torch.arange(len(labels)) % TEST_SHARE == 0
    return features[~tested], labels[~tested], features[tested], labels[tested]


def encode(table: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return a column for each threshold and a last one of ones: [N, 8] -> [N, D]."""
    columns = [
        table[:, place, None] >= np.array(THRESHOLDS[name])
        for place, name in enumerate(housing.FEATURES)
    ]
    everyone = np.ones((len(table), 1))
    features = np.concatenate([*columns, everyone], axis=1).astype(np.float32)
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    return np.asarray(features, dtype=np.float32)


def feature_names() -> tuple[str, ...]:
    """Return the name of each column, such as "MedInc ≥ 3"."""
    names = [
        f"{name} ≥ {value:g}" for name, values in THRESHOLDS.items() for value in values
    ]
    return (*names, "every district")

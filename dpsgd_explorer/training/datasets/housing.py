"""California housing as a classification of districts by their house values.

The data set has 20,640 districts of the 1990 census.  The label is 1 if the median
house value is above 200,000 dollars.  Thresholds of the features are round numbers,
chosen without looking at the records, so the features cost no privacy.  Each row is
scaled to norm 1.  Every fifth row is a test record.

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
#: Threshold of the label, in units of 100,000 dollars.
LABEL_THRESHOLD = 2.0
#: Every fifth row is a test record.
TEST_INTERVAL = 5
#: {feature: thresholds}; each threshold gives a column.
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
    """Returns training features and labels, then test features and labels.

    Shapes: features [N, D] float32, rows of norm 1; labels [N] int64.

    Raises:
        DataError: the file is missing or damaged.
    """
    table, values = housing.load()
    features = torch.from_numpy(encode(table))
    labels = torch.from_numpy((values > LABEL_THRESHOLD).astype(np.int64))
    is_test = torch.arange(len(labels)) % TEST_INTERVAL == 0
    return features[~is_test], labels[~is_test], features[is_test], labels[is_test]


def encode(table: NDArray[np.float64]) -> NDArray[np.float32]:
    """Returns a column for each threshold, then a column of ones: [N, 8] -> [N, D]."""
    columns = [
        table[:, index, None] >= np.array(THRESHOLDS[name])
        for index, name in enumerate(housing.FEATURES)
    ]
    ones = np.ones((len(table), 1))
    features = np.concatenate([*columns, ones], axis=1).astype(np.float32)
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    return np.asarray(features, dtype=np.float32)


def feature_names() -> tuple[str, ...]:
    """Returns the name of each column, such as "MedInc ≥ 3"."""
    names = [
        f"{name} ≥ {value:g}" for name, values in THRESHOLDS.items() for value in values
    ]
    return (*names, "every district")

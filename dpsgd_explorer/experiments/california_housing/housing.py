"""California housing: 20,640 districts of the 1990 census, eight features, one label.

Columns and their order follow scikit-learn; the label is the median house value in
units of 100,000 dollars, which the census cut off at 5.00001.  ``NOTEBOOK`` is the
preprocessing of the notebook on AdaSSP and noisy gradient descent.  Its ranges are
round numbers, not bounds: five of the eight features exceed them.  Privacy depends
only on the norm of the preprocessed rows, which is exactly 1.

Source: Pace and Barry (1997), "Sparse spatial autoregressions"; data/README.md.
"""

from __future__ import annotations

import hashlib
import io
import lzma
from functools import cache
from pathlib import Path

import numpy as np

from dpsgd_explorer.errors import DataError
from dpsgd_explorer.regression.checks import Array
from dpsgd_explorer.regression.preprocessing import Preprocessing

PATH = Path(__file__).parent / "data" / "california_housing.csv.xz"
SHA256 = "6c0573ec35c926d6fab1225b6ff5d3ee1c664ebf960168f3fd13d70b6acdc485"
FEATURES = (
    "MedInc",
    "HouseAge",
    "AveRooms",
    "AveBedrms",
    "Population",
    "AveOccup",
    "Latitude",
    "Longitude",
)
LABEL = "MedHouseVal"
SIZE = 20_640
RANGES = (10.0, 50.0, 100.0, 40.0, 40_000.0, 1_000.0, 50.0, 100.0)
NOTEBOOK = Preprocessing(RANGES, x_bound=1.0, y_bound=5.0)


@cache
def load() -> tuple[Array, Array]:
    """Return features (20640, 8) and labels (20640,) in natural units, read-only.

    Raises:
        DataError: the file is missing or damaged.
    """
    table = np.loadtxt(io.BytesIO(content(PATH)), delimiter=",", skiprows=1)
    table.flags.writeable = False
    return table[:, :-1], table[:, -1]


def content(path: Path) -> bytes:
    """Return the decompressed file after checking its hash.

    Raises:
        DataError: the file is missing, damaged, or has another hash.
    """
    try:
        text = lzma.decompress(path.read_bytes())
    except (OSError, EOFError, lzma.LZMAError) as error:
        raise _damage(path, str(error)) from error
    digest = hashlib.sha256(text).hexdigest()
    if digest != SHA256:
        raise _damage(path, f"its content has sha256 {digest}")
    return text


def _damage(path: Path, problem: str) -> DataError:
    return DataError(
        f"data file {path.name} in {path.parent} must have the sha256 {SHA256}, but: "
        f"{problem}. Restore the file from the repository, or create it again with "
        "tools/make_housing.py."
    )

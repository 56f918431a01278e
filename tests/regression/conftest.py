import json
from pathlib import Path

import pytest

from dpsgd_explorer.experiments.california_housing import housing
from dpsgd_explorer.regression.statistics import Statistics


@pytest.fixture(scope="session")
def golden():
    path = Path(__file__).parents[1] / "golden" / "regression.json"
    return json.loads(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def prepared():
    return housing.NOTEBOOK.apply(*housing.load())


@pytest.fixture(scope="session")
def statistics(prepared):
    return Statistics.of(prepared.X, prepared.y)

import json
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def golden():
    path = Path(__file__).parents[1] / "golden" / "accounting.json"
    return json.loads(path.read_text(encoding="utf-8"))

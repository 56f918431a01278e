"""docs/explanation/regression.md holds what its command would write."""

import json
import re

import pytest

from tools import write_regression_page
from tools.marked_text import lines_between
from tools.write_regression_page import GOLDEN, OF_STATISTICS, PAGE


@pytest.fixture(scope="module")
def rows():
    """Return the cells of the table of releases."""
    return [
        [cell.strip() for cell in line.strip("|\n").split("|")]
        for line in lines_between(PAGE, "released")
        if re.match(r"\| \d", line)
    ]


def test_the_page_is_as_its_command_writes_it(monkeypatch, statistics):
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    monkeypatch.setattr(write_regression_page, "DESCENTS", 2)
    golden["ssp"] = {"1.0": golden["ssp"]["1.0"]}
    text = PAGE.read_text(encoding="utf-8")
    assert OF_STATISTICS in text
    for line in write_regression_page.released_rows(statistics, golden):
        assert line in text


def test_our_medians_are_the_golden_ones(rows):
    assert len(rows) == 8
    for epsilon, method, scale, exact, spent, _, *medians in rows:
        assert scale == exact
        assert float(spent) <= float(epsilon)
        notebook, golden, tight, golden_tight = map(float, medians)
        assert notebook == pytest.approx(golden, rel=0.01)
        assert tight == pytest.approx(golden_tight, rel=0.01)
        if method == "AdaSSP":
            assert tight < notebook

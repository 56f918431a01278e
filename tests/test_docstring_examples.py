"""The examples in docstrings give what they show."""

import doctest
import importlib
from pathlib import Path

import pytest

import dpsgd_explorer

SOURCES = Path(dpsgd_explorer.__file__).parent
MODULES = sorted(
    ".".join(file.relative_to(SOURCES.parent).with_suffix("").parts)
    for file in SOURCES.rglob("*.py")
    if ">>> " in file.read_text(encoding="utf-8")
)


def test_the_library_has_examples():
    packages = {name.split(".")[1] for name in MODULES}
    assert {"accounting", "dp"} <= packages
    assert len(MODULES) >= 7


@pytest.mark.parametrize("name", MODULES)
def test_examples_give_what_they_show(name):
    result = doctest.testmod(importlib.import_module(name))
    assert result.attempted > 0
    assert result.failed == 0

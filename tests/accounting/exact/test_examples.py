"""The examples in the exact accountant's docstrings give what they show."""

import doctest
import importlib
import pkgutil

import pytest

from dpsgd_explorer.accounting import exact

MODULES = [
    f"{exact.__name__}.{one.name}" for one in pkgutil.iter_modules(exact.__path__)
]


def test_several_modules_have_examples():
    finder = doctest.DocTestFinder()
    modules = [importlib.import_module(name) for name in MODULES]
    assert sum(any(x.examples for x in finder.find(one)) for one in modules) >= 5


@pytest.mark.parametrize("name", MODULES)
def test_examples_give_what_they_show(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0

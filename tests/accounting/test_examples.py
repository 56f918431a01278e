"""The examples in the accountants' docstrings give what they show."""

import doctest
import importlib
import pkgutil

import pytest

from dpsgd_explorer import accounting

MODULES = [
    module.name
    for module in pkgutil.walk_packages(accounting.__path__, f"{accounting.__name__}.")
]


def test_several_modules_have_examples():
    finder = doctest.DocTestFinder()
    modules = [importlib.import_module(name) for name in MODULES]
    assert sum(any(x.examples for x in finder.find(one)) for one in modules) >= 6


@pytest.mark.parametrize("name", MODULES)
def test_examples_give_what_they_show(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0

"""The measures of the house, on a tree small enough to count by hand."""

from tools.measure_house import Module, measures

TREE = {
    "dpsgd_explorer/accounting/odd.py": '''"""Odd."""
from dpsgd_explorer.accounting import even  # a sibling
from dpsgd_explorer.accounting.even import TWO, twice


def triple(x):
    """Docstring
    of two lines."""

    return x + twice(x)
''',
    "dpsgd_explorer/accounting/even.py": "from dpsgd_explorer import dp\nTWO = 2\n",
    "dpsgd_explorer/dp/engine.py": "text = '''a\n# no comment\n'''\n",
    "tests/test_odd.py": "# one\n\nassert 1\n",
}


def test_measures_count_code_names_and_siblings():
    modules = [Module.parsed(path, source) for path, source in TREE.items()]
    assert measures(modules) == {
        "files in the largest folder": "2 (`accounting`)",
        "imports between files of `accounting`": "1",
        "imports between files of `dp`": "0",
        "mean length of the names defined": "3.5",  # triple, x, TWO, text
        "comments per 100 lines of code": "11.1",  # one in 4 + 2 + 3 lines
        "lines of code, package": "9",
        "lines of code, tests": "1",
    }

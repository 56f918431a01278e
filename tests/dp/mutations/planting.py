"""Bugs as replacements of functions, methods and attributes of the real package.

A bug is planted in a process of its own, see ``arena``, and is never taken out.
"""

import sys
from typing import NamedTuple

PACKAGE = "dpsgd_explorer"


class Bug(NamedTuple):
    """A bug.

    Attributes:
        name: What goes wrong.
        tests: Tests under ``tests/dp`` that must fail, each on its own or together.
        changes: Functions without arguments that plant it.
    """

    name: str
    tests: tuple[str, ...]
    changes: tuple

    def plant(self):
        for change in self.changes:
            change()


class Altered:
    """An object in which some attributes are changed; all others are the original's."""

    def __init__(self, original, **changed):
        self.__dict__.update(changed, _original=original)

    def __getattr__(self, name):
        return getattr(self._original, name)


def bug(name, tests, *changes):
    return Bug(name, (tests,) if isinstance(tests, str) else tests, changes)


def wrap(function, by):
    """Return a change: calls of the function become ``by(function, *args, **kwargs)``.

    A method is replaced in its class; a function wherever the package has imported it
    or lists it in a table.
    """

    def planted(*args, **kwargs):
        return by(function, *args, **kwargs)

    return lambda: _replace(function, planted)


def alter(module, **values):
    """Return a change: the module's attributes get these values."""
    return lambda: vars(module).update(values)


def _replace(function, planted):
    owner, *path = function.__qualname__.split(".")[::-1][1:] or [None]
    if owner is not None:
        place = sys.modules[function.__module__]
        for name in [*path[::-1], owner]:
            place = getattr(place, name)
        setattr(place, function.__name__, planted)
        return
    for table in _tables():
        for key in [key for key, value in table.items() if value is function]:
            table[key] = planted


def _tables():
    """Return the names of each module of the package, and the dictionaries there."""
    modules = [
        vars(module)
        for name, module in sys.modules.items()
        if name.partition(".")[0] == PACKAGE
    ]
    inside = [value for names in modules for value in names.values()]
    return [*modules, *(table for table in inside if type(table) is dict)]

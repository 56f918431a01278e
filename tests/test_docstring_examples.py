"""Every public name has an example, and the examples give what they show."""

import doctest
import importlib
import inspect
from pathlib import Path

import pytest

import dpsgd_explorer
from tools.write_public_interface import public_names

SOURCES = Path(dpsgd_explorer.__file__).parent
MODULES = sorted(
    ".".join(file.relative_to(SOURCES.parent).with_suffix("").parts)
    for file in SOURCES.rglob("*.py")
    if ">>> " in file.read_text(encoding="utf-8")
)


def calls():
    """Return {public path: object} of the classes and functions.

    A constant or an alias of types has no docstring of its own; its page describes it.
    """
    return {
        path.removeprefix("dpsgd_explorer."): thing
        for path, thing in public_names().items()
        if inspect.isclass(thing) or inspect.isroutine(thing)
    }


def is_public(example):
    """Whether a docstring is a public name's, or a public class's method's."""
    homes = {f"{thing.__module__}.{thing.__qualname__}" for thing in calls().values()}
    return any(example.name == home or f"{home}." in example.name for home in homes)


def has_a_repr(value):
    """Whether a value of the package shows more than its address in memory."""
    ours = type(value).__module__.startswith("dpsgd_explorer")
    return not ours or " object at 0x" not in repr(value)


def test_every_public_name_has_an_example():
    assert len(calls()) > 60
    without = [
        path for path, thing in calls().items() if ">>> " not in (thing.__doc__ or "")
    ]
    assert without == [], "write an example for these"


def test_every_public_class_has_a_repr():
    classes = {path: x for path, x in calls().items() if inspect.isclass(x)}
    nameless = [path for path, x in classes.items() if x.__repr__ is object.__repr__]
    assert len(classes) > 25
    assert nameless == []


@pytest.mark.parametrize("name", MODULES)
def test_examples_give_what_they_show(name):
    module = importlib.import_module(name)
    runner = doctest.DocTestRunner()
    for example in doctest.DocTestFinder().find(module):
        runner.run(example, clear_globs=False)
        if is_public(example):
            made = {k: x for k, x in example.globs.items() if k not in vars(module)}
            nameless = [key for key, value in made.items() if not has_a_repr(value)]
            assert nameless == [], f"{example.name}: give these a repr: {nameless}"
    failed, attempted = runner.summarize(verbose=False)
    assert attempted > 0
    assert failed == 0


def test_an_object_without_a_repr_is_seen():
    nameless = type("Nameless", (), {"__module__": "dpsgd_explorer.dp"})
    assert not has_a_repr(nameless())
    assert has_a_repr(object())  # of another library

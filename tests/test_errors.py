"""Errors travel between processes as they are, and each one is raised somewhere."""

import ast
import pickle
from pathlib import Path

import pytest

from dpsgd_explorer import errors
from dpsgd_explorer.errors import (
    CheckpointError,
    ConfigError,
    MissingPackageError,
    PrivacyError,
)
from tools.write_errors_page import classes

ERRORS = [
    PrivacyError("no noise"),
    MissingPackageError("pooch is not installed."),
    ConfigError("steps", "steps must be above 0.", fields={"steps": "above 0"}),
    CheckpointError("cut short", is_damaged=True),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_keeps_its_words_and_its_fields(error):
    other = pickle.loads(pickle.dumps(error))
    assert type(other) is type(error)
    assert str(other) == str(error)
    assert vars(other) == vars(error)


def test_each_error_of_the_catalogue_is_raised_somewhere():
    """Only the base class is never raised itself; a warning is passed on."""
    here = Path(errors.__file__)
    calls = [
        node
        for path in here.parent.rglob("*.py")
        if path != here
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
    ]
    warned = [call for call in calls if ast.unparse(call.func) == "warnings.warn"]
    created = {ast.unparse(call.func) for call in calls}
    created |= {ast.unparse(argument) for call in warned for argument in call.args}
    assert set(classes()) - created == {"ExplorerError"}

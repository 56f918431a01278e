"""Errors travel between processes as they are."""

import pickle

import pytest

from dpsgd_explorer.errors import (
    CheckpointError,
    ConfigError,
    MissingPackageError,
    PrivacyError,
)

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

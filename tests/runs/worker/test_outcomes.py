"""Every bad end has a state, a code and a sentence."""

import signal

import numpy as np
import pytest
import torch

from dpsgd_explorer.errors import DataError, DivergedError, ReplayError
from dpsgd_explorer.runs.worker import outcomes


def failure_of(action):
    """What an action that cannot succeed raises."""
    try:
        action()
    except Exception as error:
        return error
    raise AssertionError("it succeeded")


@pytest.mark.parametrize(
    ("error", "state", "code"),
    [
        (DivergedError("it diverged."), "failed", "diverged"),
        (DataError("data file x must be there."), "failed", "refused"),
        (ReplayError("not repeated."), "interrupted", "replay_mismatch"),
        (failure_of(lambda: np.ones(2**50)), "failed", "memory_limit"),
        (failure_of(lambda: torch.ones(2**50)), "failed", "memory_limit"),
        (SystemError("error return without exception set"), "failed", "memory_limit"),
        (RuntimeError("can't start new thread"), "failed", "memory_limit"),
        (ZeroDivisionError("division by zero"), "failed", "internal_error"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_exceptions(error, state, code):
    outcome = outcomes.of_exception(error, memory_mib=512)
    assert (outcome[0], outcome[1]["code"]) == (state, code)
    assert outcome[1]["message"].endswith(".")


def test_the_words_of_a_bug_stay_in_the_log():
    _, error = outcomes.of_exception(RuntimeError("/secret/path"), memory_mib=512)
    assert "secret" not in error["message"]


@pytest.mark.parametrize(
    ("exit_code", "state", "code", "words"),
    [
        (74, "interrupted", "storage_full", "storage full"),
        (-signal.SIGXCPU, "failed", "time_limit", "60 seconds"),
        (-signal.SIGSEGV, "failed", "crashed", "signal SIGSEGV"),
        (1, "failed", "crashed", "exit code 1"),
    ],
    ids=["storage full", "processor time", "signal", "exit code"],
)
def test_exit_codes(exit_code, state, code, words):
    outcome = outcomes.of_exit(exit_code, seconds=60)
    assert (outcome[0], outcome[1]["code"]) == (state, code)
    assert words in outcome[1]["message"]

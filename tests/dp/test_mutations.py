"""Every known bug, planted in the package, turns its own tests red."""

import pytest

from tests.dp.mutations.arena import FAILED, PASSED, results
from tests.dp.mutations.dp_sgd import BUGS, OTHERS, PLANTED

pytestmark = pytest.mark.timeout(900)  # the first test waits for all of them
SOUND = "no bug"


@pytest.fixture(scope="module")
def outcomes():
    """Return {bug: result}, with the sound code's."""
    return dict(zip([SOUND, *BUGS], results(list(BUGS)), strict=True))


def test_without_a_bug_the_tests_pass(outcomes):
    assert outcomes[SOUND].code == PASSED, outcomes[SOUND].output


@pytest.mark.parametrize("name", BUGS)
def test_a_bug_turns_its_tests_red(outcomes, name):
    assert outcomes[name].code == FAILED, outcomes[name].output


def test_all_thirteen_bugs_of_the_audit_are_here():
    assert len(PLANTED) == 13
    assert len(BUGS) == len(PLANTED) + len(OTHERS)

"""What the lab shows is what the loops are and what came of them."""

import pytest

from dpsgd_explorer.audit.planted_bugs.catalogue import CHECKS, LOOPS
from dpsgd_explorer.audit.planted_bugs.task import STEPS
from dpsgd_explorer.experiments import planted_bug_config
from dpsgd_explorer.web.recorded.files import recording
from tools.record.planted_bugs import described, promise, tried

RECORDED = recording("planted_bugs")


def test_every_loop_of_the_list_is_recorded_as_its_file_stands():
    assert list(RECORDED["loops"]) == list(LOOPS) == list(planted_bug_config.LOOPS)
    assert RECORDED["checks"] == CHECKS
    assert planted_bug_config.STEPS == STEPS
    for name, bug in LOOPS.items():
        loop = RECORDED["loops"][name]
        assert {key: loop[key] for key in described(bug)} == described(bug)
        assert loop["seen_by"] == bug.seen_by


def test_the_recorded_promise_is_that_of_the_loops():
    assert RECORDED["promise"] == pytest.approx(promise(), rel=1e-9)


def test_a_loop_that_stops_is_recorded_as_it_stops():
    found = tried(LOOPS["never_summed"])
    assert found == {key: RECORDED["loops"]["never_summed"][key] for key in found}


@pytest.mark.long("audit")
@pytest.mark.parametrize("name", LOOPS)
def test_a_run_of_a_loop_repeats_what_is_recorded(name):
    found, recorded = tried(LOOPS[name]), RECORDED["loops"][name]
    assert found["seen_by"] == recorded["seen_by"]
    assert (found["refused"], found["error"]) == (
        recorded["refused"],
        recorded["error"],
    )
    assert len(found["points"]) == len(recorded["points"])
    for point, other in zip(found["points"], recorded["points"], strict=True):
        # Other builds of torch add up in another order; a score may cross a threshold.
        assert point == pytest.approx(other, rel=0.15, abs=0.15)

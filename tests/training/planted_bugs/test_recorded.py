"""What the lab shows is what the loops are and what came of them."""

import pytest

from dpsgd_explorer.experiments import planted_bug_config
from dpsgd_explorer.training import planted_bug
from dpsgd_explorer.training.planted_bugs.catalogue import AUDIT, CHECKS, LOOPS, TORCH
from dpsgd_explorer.training.planted_bugs.task import STEPS
from dpsgd_explorer.training.planted_bugs.trial import AUDITED_STEPS
from dpsgd_explorer.web.labs.find_the_bug.exhibits import stored
from dpsgd_explorer.web.labs.find_the_bug.record import described, promise, tried

RECORDED = stored()
HONEST = "honest"
SECOND_EPOCH = 12  # steps; an epoch takes ten


def test_every_loop_of_the_list_is_recorded_as_its_file_stands():
    assert list(RECORDED["loops"]) == list(LOOPS) == list(planted_bug_config.LOOPS)
    assert RECORDED["checks"] == CHECKS
    assert planted_bug_config.STEPS == STEPS
    assert {name: x.title for name, x in LOOPS.items()} == planted_bug_config.LOOPS
    for name, bug in LOOPS.items():
        loop = RECORDED["loops"][name]
        assert {key: loop[key] for key in described(bug)} == described(bug)
        assert loop["seen_by"] == bug.seen_by


def test_the_recorded_promise_is_that_of_the_loops():
    assert RECORDED["promise"] == pytest.approx(promise(), rel=1e-9)


def test_a_loop_that_stops_is_recorded_as_it_stops():
    found = tried(LOOPS["never_summed"])
    assert found == {key: RECORDED["loops"]["never_summed"][key] for key in found}


def test_every_recorded_audit_ends_as_its_loop_is_listed():
    for name, bug in LOOPS.items():
        recorded = RECORDED["loops"][name]
        assert recorded["seen_by"] == bug.seen_by
        steps = [point["step"] for point in recorded["points"]]
        assert steps == ([] if bug.seen_by == TORCH else list(AUDITED_STEPS))
        for point in recorded["points"][-1:]:
            assert is_over(point) == (bug.seen_by == AUDIT)


def is_over(point):
    return point["epsilon_lower"] > point["epsilon_promised"]


@pytest.mark.long("audit")
@pytest.mark.parametrize("name", LOOPS)
def test_every_loop_is_seen_as_listed(name, monkeypatch):
    """Steps are alike: all but the honest loop end, audited, when an epoch has passed.

    Their verdict is that of all steps by then.
    """
    if name != HONEST:
        monkeypatch.setattr(planted_bug, "STEPS", SECOND_EPOCH)
        monkeypatch.setattr(planted_bug, "AUDITED_STEPS", [SECOND_EPOCH])
    found, recorded = tried(LOOPS[name]), RECORDED["loops"][name]
    points, expected = found.pop("points"), recorded["points"]
    if name != HONEST:
        expected = [point for point in expected if point["step"] == SECOND_EPOCH]
    assert found == {key: recorded[key] for key in found}
    assert found["seen_by"] == LOOPS[name].seen_by
    assert [p["step"] for p in points] == [p["step"] for p in expected]
    if not points:
        return
    last, other = points[-1], expected[-1]
    assert last["step"] == (STEPS if name == HONEST else SECOND_EPOCH)
    assert last["epsilon_promised"] == pytest.approx(other["epsilon_promised"])
    # Another build of torch rounds otherwise, and a score may cross a threshold.
    assert last["epsilon_lower"] == pytest.approx(other["epsilon_lower"], rel=0.25)
    assert is_over(last) == (LOOPS[name].seen_by == AUDIT)

"""A run is written by whoever holds its fence number, and by nobody else."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from dpsgd_explorer.errors import LeaseLostError
from dpsgd_explorer.experiments.events import Event
from dpsgd_explorer.runs.store.leases import LEASE_SECONDS, MAX_TRIES
from dpsgd_explorer.runs.store.records import Claim
from dpsgd_explorer.runs.store.store import RunStore
from tests.runs.servers import DATABASES as DATABASES


def step(number, epsilon=0.5, seconds=0.1):
    return Event("step", {"step": number, "epsilon": epsilon, "seconds": seconds})


def evaluation(number, accuracy):
    data = {"step": number, "epsilon": 0.5, "test_accuracy": accuracy}
    return Event("evaluation", data | {"test_loss": 0.4, "seconds": 0.2})


def log_of(store, run):
    return [(event.kind, json.loads(event.data)) for event in store.events(run.id)]


WRITES = {
    "append": lambda leases, claim: leases.append(claim, [step(1)]),
    "heartbeat": lambda leases, claim: leases.heartbeat(claim),
    "finish": lambda leases, claim: leases.finish(claim, "done"),
    "checkpoint": lambda leases, claim: leases.save_checkpoint(claim, b"x"),
    "release": lambda leases, claim: leases.release(claim, lost=True),
}


@pytest.fixture
def run(store, config):
    return store.create(config, visitor="ann")


def test_ten_doorbells_make_one_claim(store, run):
    with ThreadPoolExecutor(10) as pool:
        claims = list(pool.map(lambda _: store.leases.claim(run.id), range(10)))
    assert [claim for claim in claims if claim] == [Claim(run.id, 1)]


def test_a_claimed_run_is_running_and_its_log_says_so(store, run, clock):
    clock.forward(2)
    store.leases.claim()
    claimed = store.get(run.id)
    assert (claimed.state, claimed.started_at) == ("running", clock())
    assert log_of(store, run)[-1] == ("state", {"state": "running"})


def test_appended_events_move_the_step(store, run):
    claim = store.leases.claim()
    assert store.leases.append(claim, [step(1), step(2), evaluation(2, 0.8)]) == 5
    stored = store.get(run.id)
    assert (stored.step, stored.last_seq) == (2, 5)


def test_an_event_that_is_not_json_is_refused_whole(store, run):
    claim = store.leases.claim()
    with pytest.raises(ValueError, match="not JSON compliant"):
        store.leases.append(claim, [step(1), step(2, epsilon=float("nan"))])
    assert store.get(run.id).last_seq == 2


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("how", ["taken over", "queued again", "ended", "deleted"])
def test_a_worker_that_lost_the_run_cannot_write(store, run, clock, write, how):
    old = store.leases.claim()
    if how == "ended":
        store.leases.finish(old, "done")
    elif how == "deleted":
        store.forget_visitor("ann")
    else:
        clock.forward(LEASE_SECONDS + 1)
        assert store.leases.reap() == [run.id]
        if how == "taken over":
            assert store.leases.claim() == Claim(run.id, 2)
    before = store.events_since(0, 100)
    with pytest.raises(LeaseLostError, match=r"no longer owns run .* \(fence 1\)"):
        WRITES[write](store.leases, old)
    assert store.events_since(0, 100) == before
    assert store.leases.order(old) == "stop"


@pytest.mark.parametrize("write", ["append", "heartbeat", "checkpoint"])
def test_each_write_extends_the_lease(store, run, clock, write):
    claim = store.leases.claim()
    clock.forward(LEASE_SECONDS - 1)
    WRITES[write](store.leases, claim)
    clock.forward(LEASE_SECONDS - 1)
    assert store.leases.reap() == []
    clock.forward(2)
    assert store.leases.reap() == [run.id]


def test_a_resumed_run_adds_nothing_to_its_log(store, run, clock):
    claim = store.leases.claim()
    store.leases.append(claim, [step(1)])
    started_at = store.get(run.id).started_at
    before = store.events(run.id)
    clock.forward(LEASE_SECONDS + 1)
    store.leases.reap()
    assert store.get(run.id).state == "queued"
    store.leases.claim()
    assert store.events(run.id) == before
    assert store.get(run.id).started_at == started_at


def test_a_run_whose_worker_is_lost_too_often_is_interrupted(store, run, clock):
    for number in range(1, MAX_TRIES + 1):
        assert store.leases.claim() == Claim(run.id, number)
        clock.forward(LEASE_SECONDS + 1)
        store.leases.reap()
    ended = store.get(run.id)
    assert (ended.state, ended.error["code"]) == ("interrupted", "worker_lost")
    assert log_of(store, run)[-1] == (
        "state",
        {"state": "interrupted", "error": ended.error},
    )


def test_a_shutdown_counts_as_no_try(store, run):
    for _ in range(MAX_TRIES + 2):
        assert store.leases.release(store.leases.claim(), lost=False) == "queued"


def test_a_lost_run_that_was_to_be_cancelled_is_cancelled(store, run, clock):
    store.leases.claim()
    store.cancel(run.id, "ann")
    assert store.get(run.id).state == "running"
    clock.forward(LEASE_SECONDS + 1)
    assert store.leases.reap() == []
    assert store.get(run.id).state == "cancelled"


def test_the_holder_is_told_to_cancel(store, run):
    claim = store.leases.claim()
    assert store.leases.order(claim) == "continue"
    store.cancel(run.id, "ann")
    assert store.leases.order(claim) == "cancel"


def test_a_lease_that_ran_out_is_read_where_nobody_can_write(store, run, clock):
    claim = store.leases.claim()
    clock.forward(LEASE_SECONDS)
    with store.database.write():
        assert store.leases.order(claim) == "continue"
        clock.forward(1)
        assert store.leases.order(claim) == "lapsed"
    store.cancel(run.id, "ann")
    assert store.leases.order(claim) == "cancel"


def test_a_checkpoint_knows_its_place_and_goes_with_the_run(store, run):
    claim = store.leases.claim()
    assert store.leases.checkpoint(run.id) is None
    store.leases.append(claim, [step(1)])
    store.leases.save_checkpoint(claim, b"one")
    store.leases.append(claim, [step(2)])
    store.leases.save_checkpoint(claim, b"two")
    store.leases.append(claim, [step(3)])
    kept = store.leases.checkpoint(run.id)
    assert (kept.seq, kept.data) == (4, b"two")
    store.leases.finish(claim, "done")
    assert store.leases.checkpoint(run.id) is None


def test_the_summary_of_a_whole_run_is_its_end(store, run):
    claim = store.leases.claim()
    end = {"step": 20, "epsilon": 0.75, "delta": 1e-5, "test_accuracy": 0.85}
    end |= {"test_loss": 0.3, "seconds": 4.0, "reason": "finished", "receipt": {}}
    store.leases.append(claim, [step(20), evaluation(20, 0.8), Event("end", end)])
    store.leases.finish(claim, "done")
    assert store.get(run.id).summary == {
        "epsilon": 0.75,
        "delta": 1e-5,
        "test_accuracy": 0.85,
        "test_loss": 0.3,
        "steps": 20,
        "seconds": 4.0,
    }


def test_the_summary_of_a_stopped_run_tells_what_was_spent(store, run, config):
    claim = store.leases.claim()
    events = [step(1, 0.2), evaluation(1, 0.7), step(2, 0.3), step(3, 0.4, seconds=0.9)]
    store.leases.append(claim, events)
    store.leases.finish(claim, "cancelled")
    assert store.get(run.id).summary == {
        "epsilon": 0.4,
        "delta": config.delta,
        "test_accuracy": 0.7,
        "test_loss": 0.4,
        "steps": 3,
        "seconds": 0.9,
    }


def test_the_summary_says_what_kind_of_answer_its_epsilon_is(store, run):
    claim = store.leases.claim()
    begun = [Event("phase", {"step": 0, "status": word}) for word in ("exact", "bound")]
    store.leases.append(claim, [*begun, step(1)])
    store.leases.finish(claim, "cancelled")
    assert store.get(run.id).summary["status"] == "bound"


def test_a_run_that_took_no_step_has_no_summary(store, run):
    store.leases.finish(
        store.leases.claim(), "failed", error={"code": "refused", "message": "no."}
    )
    ended = store.get(run.id)
    assert ended.summary == {}
    assert ended.error == {"code": "refused", "message": "no."}


@pytest.mark.parametrize("hours", [-1, 1])
def test_setting_the_clock_takes_no_lease_and_leaves_none(
    database_url, config, clock, hours
):
    leases = type(clock)()
    store = RunStore(database_url, clock=clock, lease_clock=leases)
    run = store.create(config, visitor="ann")
    claim = store.leases.claim()
    clock.forward(hours * 3600)
    leases.forward(1)
    assert store.leases.reap() == []
    store.leases.heartbeat(claim)
    leases.forward(LEASE_SECONDS + 1)
    assert store.leases.reap() == [run.id]
    assert store.leases.claim().run_id == run.id
    store.database.close()


def test_a_lease_from_before_the_machine_was_restarted_is_lost(store, run, clock):
    store.leases.claim()
    clock.forward(-3600)
    assert store.leases.reap() == [run.id]


def test_a_lease_is_lost_as_soon_as_its_holder_is_gone(store, run, database_url):
    code = (
        "import sys; from dpsgd_explorer.runs.store.store import RunStore\n"
        "clock = lambda: float(sys.argv[2])\n"
        "store = RunStore(sys.argv[1], clock=clock, lease_clock=clock)\n"
        "print(store.leases.claim(), flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", code, database_url, str(store.clock())]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, **pipes) as process:
        assert b"fence=1" in process.stdout.readline()
        assert store.leases.reap() == []
        process.kill()
        process.wait()
        assert store.leases.reap() == [run.id]

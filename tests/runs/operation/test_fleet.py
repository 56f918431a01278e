"""What an operator reads and orders, on each database."""

import pytest

from dpsgd_explorer.errors import RunNotFoundError
from dpsgd_explorer.experiments.events import Event
from dpsgd_explorer.runs.operation.fleet import Fleet
from dpsgd_explorer.runs.operation.visitors import Usage
from dpsgd_explorer.runs.operation.workers import LOST_SECONDS, WorkerSign
from tests.runs.servers import DATABASES as DATABASES


@pytest.fixture
def fleet(store, clock):
    return Fleet(store.database, clock)


@pytest.fixture
def sign(store, clock):
    return WorkerSign(store.database, 2, clock=clock, pause_clock=clock)


def test_a_new_site_has_nothing(fleet):
    reading = fleet.read()
    assert (reading.queued, reading.oldest_queued_s) == (0, 0)
    assert (reading.finished, reading.lease_losses, reading.workers) == ({}, 0, [])
    assert reading.queue_paused_at is None
    assert fleet.unfinished() == fleet.usage() == []


def test_the_queue_is_as_old_as_its_oldest_run(store, fleet, clock, config):
    store.create(config, visitor="ann")
    clock.forward(20)
    store.create(config, visitor="bob")
    clock.forward(10)
    assert (fleet.read().queued, fleet.read().oldest_queued_s) == (2, 30)
    clock.forward(-100)  # the clock was set back
    assert fleet.read().oldest_queued_s == 0


def test_what_ended_is_counted_by_kind_and_state_for_good(store, fleet, config, clock):
    for state in ("done", "done", "failed"):
        run = store.create(config, visitor="ann")
        claim = store.leases.claim(run.id)
        store.leases.finish(claim, state)
    waiting = store.create(config, visitor="ann")
    store.cancel(waiting.id, "ann")
    counted = {
        ("training", "done"): 2,
        ("training", "failed"): 1,
        ("training", "cancelled"): 1,
    }
    assert fleet.read().finished == counted
    clock.forward(1)
    assert store.delete_ended(clock(), 10) == 4
    assert fleet.read().finished == counted


def test_events_are_counted_for_good(store, fleet, config):
    before = fleet.read().events
    run = store.create(config, visitor="ann")
    claim = store.leases.claim(run.id)
    store.leases.append(claim, [Event("progress", {"what": "step"})] * 3)
    store.leases.finish(claim, "done")
    after = fleet.read().events
    assert after - before == store.get(run.id).last_seq
    store.delete(run.id, "ann")
    store.forget_visitor("ann")
    assert fleet.read().events == after


def test_each_lost_worker_is_counted(store, fleet, config):
    run = store.create(config, visitor="ann")
    for lost in (True, False, True):
        store.leases.release(store.leases.claim(run.id), lost=lost)
    assert fleet.read().lease_losses == 2


def test_a_worker_is_seen_until_it_ends_or_is_silent(fleet, sign, clock):
    sign.tend(busy=1)
    clock.forward(7)
    [worker] = fleet.workers()
    assert (worker.busy, worker.places, worker.seen_s) == (1, 2, 7)
    sign.tend(busy=2)
    [worker] = fleet.workers()
    assert (worker.busy, worker.seen_s, worker.is_lost) == (2, 0, False)
    clock.forward(LOST_SECONDS + 1)
    assert fleet.workers()[0].is_lost
    sign.end()
    assert fleet.workers() == []


def test_a_worker_that_gave_no_sign_for_a_day_is_forgotten(store, fleet, sign, clock):
    sign.tend(busy=0)
    clock.forward(25 * 3600)
    WorkerSign(store.database, 1, clock=clock, pause_clock=clock).tend(busy=0)
    assert [worker.places for worker in fleet.workers()] == [1]


def test_a_paused_queue_starts_nothing(store, fleet, clock, config):
    run = store.create(config, visitor="ann")
    training = store.leases.claim(run.id)
    waiting = store.create(config, visitor="bob")
    fleet.pause_queue()
    clock.forward(60)
    fleet.pause_queue()
    assert fleet.read().queue_paused_at == clock() - 60
    assert store.leases.claim() is None
    store.leases.finish(training, "done")  # what trains goes on to its end
    assert store.queue_place(waiting.id).is_paused
    fleet.resume_queue()
    assert not store.queue_place(waiting.id).is_paused
    assert store.leases.claim().run_id == waiting.id


def test_what_the_operator_ends_says_so(store, fleet, config):
    waiting, training, paused = (store.create(config, visitor="ann") for _ in range(3))
    claim = store.leases.claim(training.id)
    held = store.leases.claim(paused.id)
    store.pauses.pause(paused.id, "ann")
    store.leases.pause(held, 0)
    for run in (waiting, training, paused):
        fleet.end_run(run.id)
        fleet.end_run(run.id)  # a second press changes nothing
    for mine in (claim, held):
        assert store.leases.order(mine) == "cancel"
        store.leases.finish(mine, "cancelled")
    for run in (waiting, training, paused):
        ended = store.get(run.id)
        assert (ended.state, ended.error["code"]) == ("cancelled", "ended_by_operator")
    with pytest.raises(RunNotFoundError):
        fleet.end_run("nowhere")


def test_an_end_of_the_operator_outlives_the_worker(store, fleet, config, clock):
    run = store.create(config, visitor="ann")
    store.leases.claim(run.id)
    fleet.end_run(run.id)
    clock.forward(3600)
    store.leases.reap()
    assert store.get(run.id).error["code"] == "ended_by_operator"


def test_runs_are_listed_as_they_stand(store, fleet, config, clock):
    ids = []
    for _ in range(3):
        ids.append(store.create(config, visitor="ann").id)
        clock.forward(1)
    store.leases.claim(ids[2])
    store.delete(ids[1], "ann")
    assert [run.id for run in fleet.unfinished()] == [ids[2], ids[0]]


def test_visitors_are_counted_as_quotas_count_them(store, fleet, config, clock):
    for visitor in ("ann", "ann", "bob"):
        store.create(config, visitor=visitor, group="" if visitor == "bob" else "g")
    run = store.create(config, visitor="ann")
    store.leases.claim(run.id)
    assert fleet.usage() == [
        Usage(visitor="ann", launches=2, running=1, queued=2),
        Usage(visitor="bob", launches=1, running=0, queued=1),
    ]
    clock.forward(25 * 3600)
    assert fleet.usage() == []

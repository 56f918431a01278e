"""A deleted run is out of sight at once, restorable for seconds, then gone for good."""

import pytest
from sqlalchemy import select

from dpsgd_explorer.errors import LeaseLostError, QuotaError, RunNotFoundError
from dpsgd_explorer.experiments.events import Event
from dpsgd_explorer.quotas import Quotas
from dpsgd_explorer.runs.store import schema
from dpsgd_explorer.runs.store.deletion import GRACE_SECONDS, UNDO_SECONDS
from dpsgd_explorer.runs.store.retention import sweep
from dpsgd_explorer.runs.store.store import RunStore
from tests.runs.servers import DATABASES as DATABASES


def rows_about(store, *texts):
    """Return the tables that hold a row with one of the texts in it."""
    with store.database.read() as connection:
        return {
            name
            for name, table in schema.metadata.tables.items()
            for row in connection.execute(select(table))
            if any(text in map(str, row) for text in texts)
        }


def test_a_deleted_run_is_out_of_sight_and_can_be_restored(store, config):
    kept, run = (store.create(config, visitor="ann") for _ in range(2))
    store.delete(run.id, "ann")
    with pytest.raises(RunNotFoundError):
        store.get(run.id)
    assert store.runs_of("ann") == [kept]
    assert [deleted.id for deleted in store.deleted_of("ann")] == [run.id]
    assert store.deleted_of("bob") == []
    with pytest.raises(RunNotFoundError):
        store.restore(run.id, "bob")
    assert store.restore(run.id, "ann").state == "cancelled"
    assert store.deleted_of("ann") == []
    with pytest.raises(RunNotFoundError):
        store.restore(run.id, "ann")


@pytest.mark.parametrize("act", ["label", "delete", "cancel"])
def test_nothing_can_be_done_to_a_deleted_run(store, config, act):
    run = store.create(config, visitor="ann")
    store.delete(run.id, "ann")
    with pytest.raises(RunNotFoundError):
        getattr(store, act)(run.id, "ann")


def test_a_running_run_is_stopped_at_once(store, config):
    run = store.create(config, visitor="ann")
    claim = store.leases.claim()
    assert store.leases.order(claim) == "continue"
    store.delete(run.id, "ann")
    assert store.leases.order(claim) == "cancel"
    store.leases.finish(claim, "cancelled")
    assert store.restore(run.id, "ann").state == "cancelled"


def test_a_queued_run_is_never_started(store, config):
    run = store.create(config, visitor="ann")
    store.delete(run.id, "ann")
    assert store.leases.claim() is None
    assert store.leases.claim(run.id) is None
    assert store.counts()["queued"] == 0


def test_after_its_time_it_is_gone_with_all_that_was_stored(
    store, database_url, config, clock
):
    run = store.create(config, visitor="ann")
    claim = store.leases.claim()
    store.leases.append(claim, [Event("step", {"step": 1})])
    store.leases.save_checkpoint(claim, b"state")
    store.delete(run.id, "ann")
    again = RunStore(database_url, clock=clock, lease_clock=clock)  # another process
    clock.forward(UNDO_SECONDS)
    sweep(again, None)
    assert rows_about(store, run.id) == {"runs", "events", "checkpoints", "launches"}
    assert store.deleted_of("ann") == []  # no more offered, yet one is on its way
    clock.forward(GRACE_SECONDS + 1)
    with pytest.raises(RunNotFoundError):
        store.restore(run.id, "ann")
    sweep(again, None)
    again.database.close()
    assert rows_about(store, run.id) == {"launches"}
    with pytest.raises(LeaseLostError):
        store.leases.append(claim, [])


def test_a_clock_that_is_set_back_keeps_no_deleted_run(store, config, clock):
    run = store.create(config, visitor="ann")
    store.delete(run.id, "ann")
    clock.forward(-86_400)
    assert store.purge(10) == 1
    assert rows_about(store, run.id) == {"launches"}


def test_all_data_of_a_visitor_go_at_once_and_nobody_elses(store, config):
    runs = [store.create(config, visitor="ann", group="mine") for _ in range(2)]
    deleted, running = (store.create(config, visitor="ann") for _ in range(2))
    other = store.create(config, visitor="bob")
    store.delete(deleted.id, "ann")
    claim = store.leases.claim(running.id)
    store.leases.save_checkpoint(claim, b"state")
    store.leases.save_weights(claim, b"trained")
    forgotten = store.forget_visitor("ann")
    assert (forgotten.runs, forgotten.launches) == (4, 3)
    ids = [run.id for run in (*runs, deleted, running)]
    assert rows_about(store, "ann", "mine", *ids) == set()
    assert store.leases.order(claim) == "stop"
    assert store.runs_of("bob") == [other]
    assert store.leases.claim().run_id == other.id
    assert store.forget_visitor("ann").runs == 0


def test_who_deletes_all_data_gets_no_new_launches_from_the_network(
    database_url, config
):
    quotas = Quotas(network_launches_a_day=2)
    store = RunStore(database_url, quotas=quotas)
    store.create(config, visitor="ann", network="192.0.2.0/24", group="mine")
    store.create(config, visitor="ann", network="192.0.2.0/24", group="mine")
    store.create(config, visitor="ann", network="192.0.2.0/24")
    store.forget_visitor("ann")
    with pytest.raises(QuotaError, match=r"network 192\.0\.2\.0/24 already has 2"):
        store.create(config, visitor="new", network="192.0.2.0/24")
    store.create(config, visitor="new", network="198.51.100.0/24")
    store.database.close()

"""What was added is stored, or an error says that it was not."""

import pytest

from dpsgd_explorer.errors import LeaseLostError
from dpsgd_explorer.experiments.events import Event
from dpsgd_explorer.runs.store.leases import LEASE_SECONDS
from dpsgd_explorer.runs.worker.event_writer import EventWriter
from tests.runs.system_processes import wait_until


def step(number, **data):
    return Event("step", {"step": number, "epsilon": 0.5} | data)


@pytest.fixture
def claim(store, config):
    store.create(config, visitor="ann")
    return store.leases.claim()


@pytest.fixture
def writer(store, claim):
    return EventWriter(store.leases, claim, lease_s=LEASE_SECONDS)


def test_everything_is_stored_in_order_when_it_is_left(store, claim, writer):
    with writer:
        for number in range(1, 201):
            writer.add(step(number))
            if number == 120:
                writer.add_checkpoint(b"120")
    assert [event.kind for event in store.events(claim.run_id, 2)] == ["step"] * 200
    assert store.get(claim.run_id).step == 200
    assert (store.leases.checkpoint(claim.run_id).seq) == 122


def test_events_before_an_error_of_the_training_are_stored(store, claim, writer):
    writer.__enter__()
    writer.add(step(1))
    writer.__exit__(ZeroDivisionError, ZeroDivisionError(), None)
    assert store.get(claim.run_id).step == 1


def test_an_event_that_cannot_be_stored_any_more_is_an_error(store, claim, writer):
    writer.__enter__()
    store.leases.release(claim, lost=True)
    writer.add(step(1))
    with pytest.raises(LeaseLostError):
        writer.__exit__(None, None, None)


def test_an_event_that_is_not_json_is_an_error(claim, writer):
    writer.__enter__()
    writer.add(step(1, loss=float("nan")))
    with pytest.raises(ValueError, match="not JSON compliant"):
        writer.__exit__(None, None, None)


def test_a_lease_that_is_lost_stops_the_training(store, claim, writer):
    writer.__enter__()
    store.leases.release(claim, lost=True)

    def fails():
        try:
            writer.add(step(1))
        except LeaseLostError:
            return True
        return False

    wait_until(fails)
    with pytest.raises(LeaseLostError):
        writer.__exit__(None, None, None)


def test_the_lease_is_kept_while_there_is_nothing_to_store(store, claim, clock):
    with EventWriter(store.leases, claim, lease_s=0.5):
        for _ in range(3):
            clock.forward(0.4)
            lease_until = clock() + 0.5
            wait_until(lambda end=lease_until: lease_of(store, claim) >= end)
    assert store.leases.reap() == []


def lease_of(store, claim):
    with store.database.read() as connection:
        query = "SELECT lease_until FROM runs WHERE id = ?"
        return connection.exec_driver_sql(query, (claim.run_id,)).scalar()

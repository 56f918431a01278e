"""Listeners are woken by PostgreSQL's word, and outlive a server that goes away."""

import threading

import pytest

from dpsgd_explorer.experiments.events import Event
from dpsgd_explorer.runs.database import postgresql as postgresql_module
from dpsgd_explorer.runs.feed import Hub
from dpsgd_explorer.runs.store.store import RunStore
from tests.runs.system_processes import PATIENCE_SECONDS

pytestmark = pytest.mark.long("servers")


@pytest.fixture
def store(postgresql_url):
    opened = RunStore(postgresql_url, outage_s=PATIENCE_SECONDS)
    yield opened
    opened.database.close()


@pytest.fixture
def hub(store):
    opened = Hub(store, heartbeat_s=0.1)
    yield opened
    if opened._thread is not None:
        opened._thread.join(PATIENCE_SECONDS)


@pytest.fixture
def claim(store, config):
    store.create(config, visitor="ann")
    return store.leases.claim()


def step(number):
    return Event("step", {"step": number, "epsilon": 0.5, "seconds": 0.1})


def test_an_event_of_another_process_wakes_the_reader_without_a_look(
    store, claim, monkeypatch
):
    """Without the word, the wait would last longer than the test may."""
    monkeypatch.setattr(postgresql_module, "SAFETY_SECONDS", PATIENCE_SECONDS)
    wake = store.database.wake()
    wake.wait()  # connects, and returns for what came before
    woken = threading.Thread(target=wake.wait)
    woken.start()
    store.leases.append(claim, [step(1)])
    woken.join(PATIENCE_SECONDS / 2)
    assert not woken.is_alive()
    wake.close()


def test_a_stream_goes_on_after_the_server_was_away(
    store, hub, claim, postgresql, monkeypatch
):
    monkeypatch.setattr(postgresql_module, "SAFETY_SECONDS", 0.1)
    stream = hub.follow(claim.run_id)
    seen = [next(stream).seq for _ in range(2)]
    postgresql.stop()
    postgresql.start()
    store.leases.append(claim, [step(number) for number in range(1, 4)])
    store.leases.finish(claim, "done")
    seen += [event.seq for event in stream if event is not None]
    assert seen == [1, 2, 3, 4, 5, 6]

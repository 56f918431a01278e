"""Events reach every listener, once and in order, and nothing is left behind."""

import threading
from contextlib import closing
from itertools import islice

import pytest

from dpsgd_explorer.errors import RunNotFoundError
from dpsgd_explorer.experiments.events import Event
from dpsgd_explorer.runs import feed
from dpsgd_explorer.runs.database import sqlite
from dpsgd_explorer.runs.feed import Hub
from dpsgd_explorer.runs.store import store as store_module
from dpsgd_explorer.runs.store.store import RunStore
from tests.runs.system_processes import PATIENCE_SECONDS


def step(number):
    return Event("step", {"step": number, "epsilon": 0.5, "seconds": 0.1})


@pytest.fixture
def hub(store):
    return Hub(store, heartbeat_s=PATIENCE_SECONDS)


@pytest.fixture
def claim(store, config):
    store.create(config, visitor="ann")
    return store.leases.claim()


def seqs(stream):
    return [event.seq for event in stream]


def until_quiet(hub):
    """Wait until the hub's thread has ended."""
    thread = hub._thread
    if thread is not None:
        thread.join(PATIENCE_SECONDS)
    return hub._thread is None


def test_a_finished_run_is_told_whole_and_the_stream_ends(store, hub, claim):
    store.leases.append(claim, [step(number) for number in range(1, 6)])
    store.leases.finish(claim, "done")
    told = list(hub.follow(claim.run_id))
    assert told == store.events(claim.run_id)
    assert told[-1].ends_run


def test_a_stream_starts_behind_the_event_asked_for(store, hub, claim):
    store.leases.append(claim, [step(number) for number in range(1, 6)])
    store.leases.finish(claim, "done")
    assert seqs(hub.follow(claim.run_id, 4)) == [5, 6, 7, 8]


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        pytest.param(-7, [1, 2, 3], id="negative is the start"),
        pytest.param(3, [], id="nothing follows the end"),
        pytest.param(99, [], id="ahead is the end"),
    ],
)
def test_a_place_outside_the_log(store, hub, claim, after, expected):
    store.leases.finish(claim, "done")
    assert seqs(hub.follow(claim.run_id, after)) == expected


def test_an_unknown_run_is_refused_before_the_stream_starts(hub):
    with pytest.raises(RunNotFoundError):
        hub.follow("nothing")


def test_events_are_delivered_as_soon_as_the_log_is_read_again(
    store, hub, claim, monkeypatch
):
    """An event is found by the reading that begins next after it was stored."""
    read, begun, found = RunStore.events_since, [], {}
    lock = threading.Lock()

    def count(self, event_id, limit):
        if self is not store:  # of a hub that ends with the test before
            return read(self, event_id, limit)
        with lock:
            begun.append(event_id)
            number = len(begun)
        rows = read(self, event_id, limit)
        with lock:
            for row in rows:  # the next reading may have begun meanwhile
                found[row.seq] = min(number, found.get(row.seq, number))
        return rows

    monkeypatch.setattr(RunStore, "events_since", count)
    with hub._listening(claim.run_id) as listener:
        for number in range(3, 8):
            store.leases.append(claim, [step(number)])
            next_reading = len(begun) + 1
            assert seqs(listener.collect(PATIENCE_SECONDS)) == [number]
            assert found[number] <= next_reading
    assert sqlite.PAUSE_SECONDS <= 0.1


def test_a_commit_of_another_process_wakes_the_reader(
    store, claim, database_url, monkeypatch
):
    monkeypatch.setattr(sqlite, "SAFETY_SECONDS", PATIENCE_SECONDS)
    with closing(store.database.wake()) as wake:
        wake.wait()  # begins to listen
        woken = threading.Thread(target=wake.wait, daemon=True)
        woken.start()
        elsewhere = RunStore(database_url)
        elsewhere.label(claim.run_id, "ann", name="first")
        woken.join(PATIENCE_SECONDS / 2)
        assert not woken.is_alive()
        elsewhere.database.close()


def test_every_listener_gets_every_event_of_its_run_only(store, config, hub):
    runs = [store.create(config, visitor="ann") for _ in range(2)]
    claims = [store.leases.claim(run.id) for run in runs]
    told = {}

    def listen(number):
        told[number] = list(hub.follow(runs[number % 2].id))

    threads = [threading.Thread(target=listen, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for number in range(1, 40):
        for claim in claims:
            store.leases.append(claim, [step(number)])
    for claim in claims:
        store.leases.finish(claim, "done")
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
    assert told == {n: store.events(runs[n % 2].id) for n in range(8)}


def test_a_listener_too_slow_for_its_box_misses_nothing(store, hub, claim, monkeypatch):
    monkeypatch.setattr(feed, "BUFFER_SIZE", 10)
    monkeypatch.setattr(store_module, "EVENTS_PER_PAGE", 7)
    other = hub.follow(claim.run_id)
    stream = hub.follow(claim.run_id)
    assert seqs(islice(stream, 2)) == [1, 2]
    for number in range(1, 101):
        store.leases.append(claim, [step(number)])
    store.leases.finish(claim, "done")
    assert len(list(other)) == 103  # so the hub has delivered all of it
    assert seqs(stream) == list(range(3, 104))


def test_silence_gives_heartbeats(store, claim):
    stream = Hub(store, heartbeat_s=0.05).follow(claim.run_id, 2)
    assert list(islice(stream, 3)) == [None] * 3
    stream.close()


def test_a_stream_ends_after_the_longest_time(store, claim):
    hub = Hub(store, heartbeat_s=0.05, longest_s=0.2)
    assert [event for event in hub.follow(claim.run_id) if event] == store.events(
        claim.run_id
    )


def test_the_stream_of_a_deleted_run_ends(store, claim):
    hub = Hub(store, heartbeat_s=0.05)
    stream = hub.follow(claim.run_id)
    assert seqs(islice(stream, 2)) == [1, 2]
    store.delete(claim.run_id, "ann")
    assert [event for event in stream if event] == []


def test_a_listener_that_leaves_is_forgotten_and_the_thread_ends(store, hub, claim):
    streams = [hub.follow(claim.run_id) for _ in range(5)]
    for stream in streams:
        next(stream)
    assert hub.listeners == 5
    for stream in streams:
        stream.close()
    assert hub.listeners == 0
    assert until_quiet(hub)


def test_a_stream_that_was_never_read_holds_nothing(hub, claim):
    hub.follow(claim.run_id)
    assert hub.listeners == 0


def test_the_hub_works_again_after_a_pause(store, hub, claim):
    first = hub.follow(claim.run_id)
    next(first)
    first.close()
    assert until_quiet(hub)
    store.leases.append(claim, [step(1)])
    second = hub.follow(claim.run_id, 2)
    assert next(second).seq == 3
    threading.Timer(0.05, store.leases.append, [claim, [step(2)]]).start()
    assert next(second).seq == 4
    second.close()


def test_a_database_fault_does_not_end_the_stream(store, hub, claim, monkeypatch):
    read = RunStore.events_since
    faults = iter([True, True])

    def read_or_fail(self, event_id, limit):
        if next(faults, False):
            with self.database.read() as connection:
                connection.exec_driver_sql("SELECT * FROM no_such_table")
        return read(self, event_id, limit)

    monkeypatch.setattr(RunStore, "events_since", read_or_fail)
    stream = hub.follow(claim.run_id, 2)
    threading.Timer(0.05, store.leases.append, [claim, [step(1)]]).start()
    assert next(stream).seq == 3
    stream.close()

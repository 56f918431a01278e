"""On a full disk runs can still end, and everything else waits."""

import errno
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from dpsgd_explorer.errors import StorageFullError, StorageReadOnlyError
from dpsgd_explorer.experiments.events import Event
from dpsgd_explorer.runs.files.disk_reserve import RESERVE_BYTES, DiskReserve


@pytest.fixture
def disk(monkeypatch):
    """A disk that says it has as much room as the test sets."""
    room = SimpleNamespace(free=2**40)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: room)
    return room


@pytest.fixture
def reserve(tmp_path):
    return tmp_path / "runs.sqlite3.reserve"


def test_room_is_kept_while_there_is_enough(store, config, reserve, disk):
    store.create(config, visitor="ann")
    assert reserve.stat().st_size == RESERVE_BYTES


def test_a_write_that_finds_no_room_gives_the_reserve_away(
    store, config, reserve, disk, fill_up
):
    store.create(config, visitor="ann")
    claim = store.leases.claim()
    fill_up()
    disk.free = 0
    events = [Event("step", {"step": 1, "text": "x" * 100_000})]
    with pytest.raises(StorageFullError, match="disk is full"):
        store.leases.append(claim, events)
    assert not reserve.exists()


ENDS = {
    "interrupted": lambda store, claim: store.leases.finish(claim, "interrupted"),
    "queued": lambda store, claim: store.leases.release(claim, lost=False),
    "running": lambda store, claim: store.cancel(claim.run_id, "ann"),
}


@pytest.mark.parametrize("state", ENDS)
def test_without_the_reserve_only_what_ends_something_is_stored(
    store, config, reserve, disk, state
):
    store.create(config, visitor="ann")
    claim = store.leases.claim()
    reserve.unlink()
    disk.free = 0
    with pytest.raises(StorageFullError):
        store.create(config, visitor="ann")
    with pytest.raises(StorageFullError):
        store.leases.heartbeat(claim)
    ENDS[state](store, claim)
    assert store.get(claim.run_id).state == state
    store.delete(claim.run_id, "ann")
    assert store.runs_of("ann") == []


def test_when_there_is_room_again_the_reserve_is_made_again(
    store, config, reserve, disk
):
    store.create(config, visitor="ann")
    reserve.unlink()
    store.create(config, visitor="ann")
    assert reserve.stat().st_size == RESERVE_BYTES


def test_a_disk_that_takes_no_writes_is_named(tmp_path, monkeypatch):
    def refuse(*_arguments):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(Path, "write_bytes", refuse)
    with pytest.raises(StorageReadOnlyError, match="is read-only now"):
        DiskReserve(tmp_path / "reserve").demand()

"""The queue carries run ids, as JSON, and is allowed to fail."""

import json
import sqlite3
import threading
from dataclasses import replace

import pytest

from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.runs.doorbell import Doorbell
from tests.runs.system_processes import PATIENCE_SECONDS


@pytest.fixture
def doorbell(settings):
    opened = []

    def doorbell(answer=None):
        opened.append(Doorbell(settings, answer))
        return opened[-1]

    yield doorbell
    for each in opened:
        each.huey.storage.close()


def test_a_ring_is_heard_in_another_process(doorbell):
    heard = []
    worker = doorbell(heard.append)
    doorbell().ring("run-1")
    worker.huey.execute(worker.huey.dequeue())
    assert heard == ["run-1"]
    assert worker.huey.dequeue() is None


def test_a_reader_that_waits_is_woken(doorbell, monkeypatch):
    monkeypatch.setattr("dpsgd_explorer.runs.queue.WAIT_SECONDS", PATIENCE_SECONDS)
    heard = []
    worker = doorbell(heard.append)
    reader = threading.Thread(
        target=lambda: worker.huey.execute(worker.huey.dequeue()), daemon=True
    )
    reader.start()
    reader.join(0.2)
    doorbell().ring("run-1")
    reader.join(PATIENCE_SECONDS / 2)
    assert heard == ["run-1"]


def test_a_message_of_an_earlier_version_is_heard(doorbell, tmp_path):
    """Its file has the tables of huey, and a task named after its module."""
    name = "dpsgd_explorer.runs.doorbell.ring"
    message = ["7f1a", name, None, 0, 0, None, ["run-1"], {}, *[None] * 6, 0]
    with sqlite3.connect(tmp_path / "queue.sqlite3") as queue:
        queue.execute(
            "CREATE TABLE task (id integer not null primary key, queue text not null,"
            " data blob not null, priority real not null default 0.0)"
        )
        values = ("dpsgd-explorer", json.dumps(message).encode())
        queue.execute("INSERT INTO task (queue, data) VALUES (?, ?)", values)
    queue.close()
    heard = []
    worker = doorbell(heard.append)
    worker.huey.execute(worker.huey.dequeue())
    assert heard == ["run-1"]


def test_a_message_holds_the_run_id_and_no_pickle(doorbell, tmp_path):
    doorbell().ring("run-1")
    queue = sqlite3.connect(tmp_path / "queue.sqlite3")
    ((data,),) = queue.execute("SELECT data FROM task").fetchall()
    queue.close()
    assert ["run-1"] in json.loads(data)


def test_a_queue_that_cannot_be_opened_is_no_error(doorbell, tmp_path, caplog):
    bell, file = doorbell(), tmp_path / "queue.sqlite3"
    file.unlink()
    file.mkdir()
    bell.ring("run-1")
    assert "workers could not be notified of run run-1" in caplog.text
    file.rmdir()


def test_a_ring_that_cannot_be_queued_is_no_error(doorbell, tmp_path, caplog):
    bell = doorbell()
    assert bell.huey.pending_count() == 0
    queue = sqlite3.connect(tmp_path / "queue.sqlite3")
    queue.execute("DROP TABLE task")
    queue.close()
    bell.ring("run-1")
    assert "workers could not be notified of run run-1" in caplog.text


@pytest.mark.parametrize("url", ["amqp://cache", "mysql://db/queue", "queue"])
def test_a_queue_that_is_not_supported_is_refused_with_what_is(settings, url):
    with pytest.raises(ConfigError, match="must be the address of a SQLite file"):
        Doorbell(replace(settings, queue_url=url))

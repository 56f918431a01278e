"""A backup is taken while the site writes, and opens as the database it was."""

import shutil
import sqlite3
import threading

import pytest

from dpsgd_explorer.cli.main import REFUSED, main
from dpsgd_explorer.experiments.events import Event
from dpsgd_explorer.runs.store.store import RunStore


@pytest.fixture
def backup(database_url, monkeypatch, tmp_path):
    """Run the command as an operator does."""
    monkeypatch.setenv("DPSGD_DATABASE_URL", database_url)
    monkeypatch.setenv("DPSGD_INSTANCE_DIR", str(tmp_path))
    return lambda file: main(["database", "backup", str(file)])


def write_until(ended, store, claim):
    number = 0
    while not ended.is_set():
        number += 1
        data = {"step": number, "epsilon": 0.5, "text": "x" * 5000}
        store.leases.append(claim, [Event("step", data)])


def test_what_is_restored_is_one_state_of_the_site(store, config, backup, tmp_path):
    """By the steps that docs/how-to/operate/backup.md names."""
    run = store.create(config, visitor="ann", name="kept")
    claim, ended = store.leases.claim(), threading.Event()
    writer = threading.Thread(target=write_until, args=(ended, store, claim))
    writer.start()
    file = tmp_path / "backup" / "runs.sqlite3"
    file.parent.mkdir()
    try:
        assert backup(file) == 0
    finally:
        ended.set()
        writer.join()
    assert file.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in file.parent.iterdir()] == [file.name]
    lost = store.create(config, visitor="bob").id
    restored = shutil.copyfile(file, tmp_path / "restored.sqlite3")
    with sqlite3.connect(restored) as copy:
        assert copy.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    again = RunStore(f"sqlite:///{restored}")
    kept = again.get(run.id)
    log = again.events(run.id)
    assert (kept.name, kept.last_seq) == ("kept", len(log))
    assert log == store.events(run.id)[: len(log)]
    with pytest.raises(LookupError):
        again.get(lost)
    assert again.create(config, visitor="cy").state == "queued"
    again.database.close()


def test_a_backup_changes_no_table_of_an_earlier_version(
    store, database_url, backup, tmp_path
):
    with store.database.write() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '7'")
    store.database.close()
    assert backup(tmp_path / "old.sqlite3") == 0
    for file in (database_url.removeprefix("sqlite:///"), tmp_path / "old.sqlite3"):
        with sqlite3.connect(file) as opened:
            query = "SELECT version_num FROM alembic_version"
            assert opened.execute(query).fetchall() == [("7",)]


def test_a_file_that_is_there_is_not_overwritten(backup, tmp_path, capsys):
    file = tmp_path / "there"
    file.write_text("mine")
    assert backup(file) == REFUSED
    assert "FILE must be a new file" in capsys.readouterr().err
    assert file.read_text() == "mine"
    assert backup(tmp_path / "no folder" / "file") == REFUSED


@pytest.mark.parametrize(
    "words", [["database", "backup"], ["database", "current", "x"]]
)
def test_a_file_goes_with_backup_alone(words, capsys):
    assert main(words) == REFUSED
    assert "FILE must be given with backup" in capsys.readouterr().err


def test_a_server_is_backed_up_by_its_own_program(monkeypatch, capsys, tmp_path):
    url = "postgresql+psycopg://ann:secret@db.example/runs"
    monkeypatch.setenv("DPSGD_DATABASE_URL", url)
    monkeypatch.setenv("DPSGD_INSTANCE_DIR", str(tmp_path))
    assert main(["database", "backup", "runs.dump"]) == REFUSED
    said = capsys.readouterr().err
    assert "pg_dump --format=custom" in said
    assert "secret" not in said


def test_the_write_ahead_log_shrinks_after_a_burst(store, config, tmp_path):
    store.create(config, visitor="ann")
    claim = store.leases.claim()
    log = tmp_path / "runs.sqlite3-wal"
    with store.database.read() as reader:  # keeps the log from being reused
        reader.exec_driver_sql("SELECT count(*) FROM runs").all()
        for number in range(40):
            data = {"step": number, "text": "x" * 400_000}
            store.leases.append(claim, [Event("step", data)])
        assert log.stat().st_size > 12 * 2**20
    for number in range(40, 44):
        store.leases.append(claim, [Event("step", {"step": number})])
    assert log.stat().st_size <= 4 * 2**20

"""What ended long ago is deleted, and its room given back."""

import sqlite3

import pytest
from sqlalchemy import select

from dpsgd_explorer.cli.main import main
from dpsgd_explorer.experiments.events import Event
from dpsgd_explorer.runs.store import retention
from dpsgd_explorer.runs.store.retention import DAY, sweep
from dpsgd_explorer.runs.store.schema import events
from dpsgd_explorer.runs.store.store import RunStore


@pytest.fixture
def ended(store, config):
    """End a run with a log of so many kilobytes."""

    def ended(kilobytes=1, state="done"):
        run = store.create(config, visitor="ann")
        claim = store.leases.claim(run.id)
        text = [Event("step", {"step": 1, "text": "x" * 1_000})]
        store.leases.append(claim, text * kilobytes)
        store.leases.finish(claim, state)
        return run.id

    return ended


def all_runs(store):
    return {run.id for run in store.runs_of("ann")}


def test_what_ended_long_ago_goes_and_everything_else_stays(
    store, config, clock, ended, monkeypatch
):
    monkeypatch.setattr(retention, "RUNS_PER_STEP", 2)
    queued, running = (store.create(config, visitor="ann").id for _ in range(2))
    store.leases.claim(running)
    for state in ("done", "failed", "cancelled", "interrupted", "done"):
        ended(state=state)
    clock.forward(7 * DAY + 1)
    recent = ended()
    sweep(store, 7)
    assert all_runs(store) == {queued, running, recent}
    with store.database.read() as connection:
        left = set(connection.scalars(select(events.c.run_id)))
    assert left == {queued, running, recent}


def test_without_a_number_of_days_nothing_is_deleted(store, clock, ended):
    ended()
    clock.forward(1000 * DAY)
    sweep(store, None)
    assert len(all_runs(store)) == 1


def test_room_is_given_back_to_the_disk(store, clock, ended):
    small = store.database.size
    ended(kilobytes=3_000)
    store.database.compact()
    full = store.database.size
    assert full > small + 3_000_000
    clock.forward(DAY)
    while retention.step(store, 0):
        pass
    store.database.compact()
    assert store.database.size < full - 2_900_000


@pytest.fixture
def product(tmp_path, monkeypatch, database_url):
    monkeypatch.setenv("DPSGD_INSTANCE_DIR", str(tmp_path))
    monkeypatch.setenv("DPSGD_DATABASE_URL", database_url)


def test_prune_deletes_and_says_how_much(product, store, clock, ended, capsys):
    ended(kilobytes=2_000)
    assert main(["prune"]) == 2
    assert "--days must be" in capsys.readouterr().err
    assert main(["prune", "--days", "nan"]) == 2
    capsys.readouterr()
    assert main(["prune", "--days", "0"]) == 0  # the clock of the test is of 1970
    said = capsys.readouterr().out
    assert said.startswith("1 runs deleted, 0 left; ")
    assert float(said.split()[-3]) > 1.9


def test_prune_shrinks_a_database_of_an_earlier_version(
    product, tmp_path, database_url, config, capsys
):
    file = tmp_path / "runs.sqlite3"
    with sqlite3.connect(file) as made:  # without auto_vacuum
        made.execute("CREATE TABLE big (text)")
        made.execute("INSERT INTO big VALUES (zeroblob(2000000))")
        made.execute("DROP TABLE big")
    made.close()
    store = RunStore(database_url)
    run = store.create(config, visitor="ann")
    assert main(["prune", "--days", "1"]) == 0
    assert capsys.readouterr().out.startswith("0 runs deleted, 1 left; ")
    assert store.get(run.id).state == "queued"
    assert file.stat().st_size < 300_000
    store.database.close()

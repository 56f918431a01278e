"""Visitors' own tables in the database: any process reads them, and they go in time."""

import pytest

from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.runs.own_tables import (
    DAY,
    MAX_DRAFTS,
    MAX_TABLES,
    OwnTables,
    delete_old,
)
from dpsgd_explorer.runs.store.store import RunStore
from tests.experiments.test_own_table import COLUMNS, csv_of
from tests.runs.servers import DATABASES as DATABASES


@pytest.fixture
def tables(store, clock):
    return OwnTables(store.database, "somebody", clock)


def stated(tables, rows=120):
    """Bring a file and state its columns; return the table."""
    return tables.state(tables.add(csv_of(rows=rows)), COLUMNS).table


def test_another_process_reads_a_table_and_another_visitor_does_not(
    tables, database_url, clock
):
    table = stated(tables)
    elsewhere = RunStore(database_url)
    there = OwnTables(elsewhere.database, "somebody", clock)
    assert there.all() == [table]
    assert there.get(table.name) == table
    assert there.content(table.name) == csv_of(rows=120)
    stranger = OwnTables(elsewhere.database, "anybody", clock)
    assert stranger.all() == stranger.drafts() == []
    assert stranger.get(table.name) is stranger.content(table.name) is None
    assert not stranger.delete(table.name)
    elsewhere.database.close()


def test_a_file_is_a_draft_until_its_columns_are_stated(tables):
    draft = tables.add(csv_of())
    assert tables.add(csv_of()) == draft  # brought twice
    assert tables.draft(draft.sha256) == draft
    assert tables.drafts() == [draft]
    assert tables.all() == []
    table = tables.state(draft, COLUMNS).table
    assert tables.drafts() == []
    assert tables.get(draft.sha256) is None
    with pytest.raises(ConfigError, match="no longer on this site"):
        tables.state(draft, COLUMNS)  # in another tab
    assert tables.state(tables.add(csv_of()), COLUMNS).table == table
    assert tables.all() == [table]


def test_there_are_so_many_tables_of_a_visitor_and_in_all(tables, clock, monkeypatch):
    drafts = []
    for rows in range(120, 121 + MAX_DRAFTS):
        drafts.append(tables.add(csv_of(rows=rows)))
        clock.forward(1)
    assert {each.sha256 for each in tables.drafts()} == {
        each.sha256 for each in drafts[1:]
    }
    made = []
    for draft in drafts[1:]:
        made.append(tables.state(draft, COLUMNS).table)
        clock.forward(1)
    assert tables.all() == made[::-1]
    with pytest.raises(ConfigError, match=f"the maximum is {MAX_TABLES}"):
        tables.add(csv_of(rows=200))
    monkeypatch.setattr("dpsgd_explorer.runs.own_tables.MAX_SITE_TABLES", MAX_TABLES)
    other = OwnTables(tables._database, "anybody", clock)
    with pytest.raises(ConfigError, match="the maximum number of tables"):
        other.add(csv_of())
    tables.delete_all()
    assert tables.all() == []
    other.add(csv_of())


def test_old_tables_and_forgotten_drafts_are_deleted(tables, store, clock):
    table, draft = stated(tables), tables.add(csv_of(rows=200))
    clock.forward(DAY / 24)
    assert delete_old(store.database, None, clock()) == 0
    clock.forward(DAY)
    assert delete_old(store.database, None, clock()) == 1
    assert tables.draft(draft.sha256) is None
    clock.forward(30 * DAY)
    assert delete_old(store.database, None, clock()) == 0
    assert tables.all() == [table]
    assert delete_old(store.database, 30, clock()) == 1
    assert tables.all() == []

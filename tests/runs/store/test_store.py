"""What the web layer may see and change."""

import contextlib
import json

import pytest

from dpsgd_explorer.errors import ConfigError, RunNotFoundError
from dpsgd_explorer.experiments.events import Event
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.runs.store.schema import FINAL_STATES, MOVES
from dpsgd_explorer.runs.store.store import RunStore


def log_of(store, run):
    return [
        (event.seq, event.kind, json.loads(event.data)) for event in events(store, run)
    ]


def events(store, run, **page):
    return store.events(run.id, **page)


def step(number, epsilon=0.5):
    return Event("step", {"step": number, "epsilon": epsilon, "seconds": 0.1})


def test_a_created_run_is_queued_and_its_log_says_so(store, config, clock):
    run = store.create(config, visitor="ann", name="first", group="pair")
    assert (run.state, run.visitor, run.name, run.group) == (
        "queued",
        "ann",
        "first",
        "pair",
    )
    assert (run.step, run.steps, run.summary, run.error) == (0, 20, {}, None)
    assert (run.created_at, run.started_at, run.ended_at) == (clock(), None, None)
    assert log_of(store, run) == [(1, "state", {"state": "queued"})]


def test_the_stored_configuration_is_the_one_given(store, config):
    run = store.create(config, visitor="ann")
    assert TrainingConfig.parse(run.config) == config


def test_ids_cannot_be_guessed_from_each_other(store, config):
    ids = {store.create(config, visitor="ann").id for _ in range(20)}
    assert len(ids) == 20
    assert min(map(len, ids)) >= 22  # 128 bits in base 64


def test_a_visitor_sees_their_own_runs_newest_first(store, config, clock):
    made = []
    for _ in range(3):
        made.append(store.create(config, visitor="ann").id)
        clock.forward(1)
    store.create(config, visitor="bob")
    assert [run.id for run in store.runs_of("ann")] == made[::-1]
    assert [run.id for run in store.runs_of("ann", limit=1)] == made[-1:]


def test_whoever_has_the_id_may_read(store, config):
    run = store.create(config, visitor="ann")
    assert store.get(run.id) == run
    with pytest.raises(RunNotFoundError, match="run 'nothing' does not exist"):
        store.get("nothing")


@pytest.mark.parametrize(
    "act",
    [
        pytest.param(lambda store, run: store.delete(run.id, "bob"), id="delete"),
        pytest.param(lambda store, run: store.cancel(run.id, "bob"), id="cancel"),
        pytest.param(
            lambda store, run: store.label(run.id, "bob", name="x"), id="label"
        ),
    ],
)
def test_only_its_visitor_may_change_a_run(store, config, act):
    run = store.create(config, visitor="ann")
    with pytest.raises(RunNotFoundError):
        act(store, run)
    assert store.get(run.id) == run


def test_event_ids_are_not_used_again_after_a_delete(store, config):
    store.create(config, visitor="ann")
    last_id = store.last_event_id()
    store.forget_visitor("ann")
    second = store.create(config, visitor="ann")
    assert [event.run_id for event in store.events_since(last_id, 10)] == [second.id]


def test_a_run_can_be_renamed(store, config):
    run = store.create(config, visitor="ann")
    assert store.label(run.id, "ann", name="tea time").name == "tea time"


@pytest.mark.parametrize("name", ["x" * 61, "a\nb", "\x1b[31m", "\u202egpj"])
def test_a_name_is_short_and_printable(store, config, name):
    with pytest.raises(ConfigError, match="name must have at most 60 printable"):
        store.create(config, visitor="ann", name=name)
    run = store.create(config, visitor="ann")
    with pytest.raises(ConfigError):
        store.label(run.id, "ann", name=name)


def test_cancelling_a_queued_run_ends_it_at_once(store, config, clock):
    run = store.create(config, visitor="ann")
    clock.forward(3)
    cancelled = store.cancel(run.id, "ann")
    assert (cancelled.state, cancelled.ended_at) == ("cancelled", clock())
    assert log_of(store, run)[-1] == (2, "state", {"state": "cancelled"})
    assert store.leases.claim() is None


def test_cancelling_a_run_that_has_ended_changes_nothing(store, config):
    run = store.create(config, visitor="ann")
    claim = store.leases.claim()
    store.leases.finish(claim, "done")
    before = store.get(run.id)
    assert store.cancel(run.id, "ann") == before


def test_the_log_is_read_in_pages(store, config):
    run = store.create(config, visitor="ann")
    claim = store.leases.claim()
    store.leases.append(claim, [step(number) for number in range(1, 21)])
    whole = events(store, run)
    assert [event.seq for event in whole] == list(range(1, 23))
    pages = [events(store, run, after=after, limit=5) for after in range(0, 25, 5)]
    assert [event for page in pages for event in page] == whole


def test_events_of_all_runs_come_in_the_order_they_were_stored(store, config):
    runs = [store.create(config, visitor="ann") for _ in range(2)]
    claims = [store.leases.claim(run.id) for run in runs]
    for number in range(1, 4):
        for claim in claims:
            store.leases.append(claim, [step(number)])
    found = store.events_since(0, 100)
    assert [event.id for event in found] == list(range(1, 11))
    assert [event.run_id for event in found[-4:]] == [run.id for run in runs] * 2
    assert store.events_since(found[3].id, 2) == found[4:6]
    assert store.last_event_id() == found[-1].id


def test_counts_name_every_state(store, config):
    store.create(config, visitor="ann")
    store.create(config, visitor="ann")
    store.leases.claim()
    assert store.counts() == dict.fromkeys(FINAL_STATES, 0) | {
        "queued": 1,
        "running": 1,
        "paused": 0,
    }


def test_no_move_leads_out_of_a_final_state():
    assert {state for state, moves in MOVES.items() if not moves} == FINAL_STATES


def test_a_hundred_threads_may_read_at_once(store):
    with contextlib.ExitStack() as readers:
        for _ in range(100):
            readers.enter_context(store.database.read())
        assert store.counts()["queued"] == 0


def test_a_database_of_another_version_is_refused(database_url, store):
    with store.database.write() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '99'")
    with pytest.raises(ConfigError, match="schema 99"):
        RunStore(database_url)


@pytest.mark.parametrize("url", ["mysql://db/runs", "sqlite://", "runs.sqlite3"])
def test_an_address_that_is_not_supported_is_refused_with_what_is(url):
    with pytest.raises(ConfigError, match="must be the address of a SQLite file"):
        RunStore(url)

"""Groups: all runs or none, ended together, and no run of another's among them."""

import pytest
from sqlalchemy import func, select

from dpsgd_explorer.errors import ConfigError, QuotaError, RunNotFoundError
from dpsgd_explorer.experiments.events import Event
from dpsgd_explorer.experiments.groups import RunGroup
from dpsgd_explorer.runs.store.deletion import GRACE_SECONDS, UNDO_SECONDS
from dpsgd_explorer.runs.store.schema import groups, launches
from tests.runs.servers import DATABASES as DATABASES


@pytest.fixture
def sweep(config):
    """So many runs that differ in the learning rate."""

    def sweep(number=3):
        base = config.model_dump(mode="json")
        rates = [{"learning_rate": i + 1} for i in range(number)]
        return RunGroup.parse("sweep", base, rates)

    return sweep


def rows(store, table):
    with store.database.read() as connection:
        return connection.scalar(select(func.count()).select_from(table))


def test_a_group_is_queued_in_the_order_of_its_values(store, sweep):
    group = store.create_group(sweep(), visitor="ann")
    assert [run.config["learning_rate"] for run in group.runs] == [1, 2, 3]
    assert [run.name for run in group.runs] == ["η = 1", "η = 2", "η = 3"]
    assert {run.group for run in group.runs} == {group.id}
    assert [store.queue_place(run.id).position for run in group.runs] == [1, 2, 3]
    assert (group.purpose, group.setting) == ("sweep", "learning_rate")
    assert store.group(group.id) == group


def test_a_group_is_one_launch(limited, sweep, config):
    store = limited(launches_a_day=2, queued=2)
    store.create_group(sweep(), visitor="ann")
    assert store.launches_since("ann", 0) == 1
    store.create(config, visitor="ann")
    with pytest.raises(QuotaError):
        store.create(config, visitor="ann")


@pytest.mark.parametrize(
    ("quotas", "says"),
    [
        ({"queued_in_all": 2}, "queue of this site already has 2 runs"),
        (
            {"queued_in_all": 8, "shares_queue": True},
            "You already have 2 runs queued or paused",
        ),
    ],
)
def test_no_run_is_queued_if_one_is_over_a_quota(limited, sweep, quotas, says):
    store = limited(**quotas)
    with pytest.raises(QuotaError, match=says):
        store.create_group(sweep(), visitor="ann")
    assert store.counts()["queued"] == 0
    assert (rows(store, groups), rows(store, launches)) == (0, 0)


def test_no_run_is_queued_if_they_cost_too_much_together(limited, sweep, config):
    assert limited(cost_limit=3 * config.cost).create_group(sweep(), visitor="ann")
    store = limited(cost_limit=3 * config.cost - 1)
    with pytest.raises(ConfigError, match="3 runs may need at most") as refused:
        store.create_group(sweep(), visitor="bob")
    assert refused.value.field == "variations"
    assert store.runs_of("bob") == []


def test_a_group_that_was_made_takes_no_further_run(store, sweep, config):
    group = store.create_group(sweep(), visitor="ann")
    with pytest.raises(ConfigError, match="has a fixed set of runs"):
        store.create(config, visitor="ann", group=group.id)
    assert len(store.group(group.id).runs) == 3


def test_a_group_is_cancelled_as_one(store, sweep):
    group = store.create_group(sweep(), visitor="ann")
    done, running, _ = group.runs
    finished = store.leases.claim(done.id)
    store.leases.finish(finished, "done")
    claim = store.leases.claim(running.id)
    ended = store.cancel_group(group.id, "ann")
    assert [run.state for run in ended.runs] == ["done", "running", "cancelled"]
    assert store.leases.order(claim) == "cancel"
    assert not ended.has_ended
    store.leases.finish(claim, "cancelled")
    assert store.group(group.id).has_ended


def test_only_its_visitor_may_end_a_group(store, sweep):
    group = store.create_group(sweep(), visitor="ann")
    for change in (store.cancel_group, store.delete_group):
        with pytest.raises(RunNotFoundError):
            change(group.id, "bob")
    assert {run.state for run in store.group(group.id).runs} == {"queued"}


def test_a_group_goes_with_its_last_run(store, sweep, clock):
    group = store.create_group(sweep(), visitor="ann")
    first, *others = group.runs
    store.delete(first.id, "ann")
    assert [run.id for run in store.group(group.id).runs] == [x.id for x in others]
    store.delete_group(group.id, "ann")
    with pytest.raises(RunNotFoundError):
        store.group(group.id)
    assert store.runs_of("ann") == []
    clock.forward(UNDO_SECONDS + GRACE_SECONDS + 1)
    assert store.purge(10) == 3
    assert rows(store, groups) == 0


def test_a_group_comes_back_with_a_run_that_is_restored(store, sweep):
    group = store.create_group(sweep(), visitor="ann")
    store.delete_group(group.id, "ann")
    store.restore(group.runs[1].id, "ann")
    [run] = store.group(group.id).runs
    assert (run.id, run.state) == (group.runs[1].id, "cancelled")


def test_groups_of_a_visitor_who_is_forgotten_are_gone(store, sweep):
    store.create_group(sweep(), visitor="ann")
    store.forget_visitor("ann")
    assert rows(store, groups) == 0


def test_old_groups_are_swept_with_their_runs(store, sweep, clock):
    group = store.create_group(sweep(2), visitor="ann")
    store.cancel_group(group.id, "ann")
    clock.forward(10)
    assert store.delete_ended(clock.now, 1) == 1
    assert len(store.group(group.id).runs) == 1
    store.delete_ended(clock.now, 1)
    assert rows(store, groups) == 0


def test_the_log_of_a_group_has_all_runs_and_no_single_steps(store, sweep, config):
    alone = store.create(config, visitor="ann")
    group = store.create_group(sweep(2), visitor="ann")
    for run in (alone, *group.runs):
        claim = store.leases.claim(run.id)
        step = Event("step", {"step": 1, "epsilon": 0.1})
        store.leases.append(claim, [step, Event("evaluation", {"step": 1})])
    log = store.group_events(group.id, 0, 100)
    of = {run.id: [e.kind for e in log if e.run_id == run.id] for run in group.runs}
    assert list(of.values()) == [["state", "state", "evaluation"]] * 2
    assert len(log) == 6
    assert [e.id for e in log] == sorted(e.id for e in log)
    assert store.group_events(group.id, log[3].id, 100) == log[4:]
    assert store.group_events(group.id, 0, 2) == log[:2]

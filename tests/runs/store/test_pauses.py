"""Pause, resume and one step more, as the table of runs sees them."""

import json

import pytest

from dpsgd_explorer.errors import ConfigError, LeaseLostError, RunNotFoundError
from dpsgd_explorer.experiments.events import Event
from dpsgd_explorer.runs.store.leases import LEASE_SECONDS
from dpsgd_explorer.runs.store.store import RunStore
from tests.runs.servers import DATABASES as DATABASES


@pytest.fixture
def run(store, config):
    return store.create(config, visitor="ann")


@pytest.fixture
def paused(store, run):
    """A run that its process holds in a pause after step 0."""
    claim = store.leases.claim()
    store.pauses.pause(run.id, "ann")
    assert store.leases.pause(claim, 0)
    return claim


def states(store, run_id):
    return [
        json.loads(event.data)["state"]
        for event in store.events(run_id)
        if event.kind == "state"
    ]


def test_a_pause_is_an_order_that_the_process_carries_out(store, run):
    claim = store.leases.claim()
    assert store.leases.orders(claim).until_step is None
    store.pauses.pause(run.id, "ann")
    assert store.get(run.id).state == "running"
    assert store.leases.orders(claim).until_step == 0
    assert store.leases.pause(claim, 7)
    held = store.get(run.id)
    assert (held.state, held.step) == ("paused", 7)
    assert store.leases.order(claim) == "paused"
    store.pauses.resume(run.id, "ann")
    assert store.leases.pause_order(claim).continues(7)
    assert store.leases.go_on(claim)
    assert states(store, run.id) == ["queued", "running", "paused", "running"]


def test_a_pause_that_was_taken_back_is_not_entered(store, run):
    claim = store.leases.claim()
    store.pauses.pause(run.id, "ann")
    store.pauses.resume(run.id, "ann")
    assert not store.leases.pause(claim, 0)
    assert store.get(run.id).state == "running"


def test_each_click_is_one_step_more(store, run, paused):
    for _ in range(3):
        store.pauses.take_step(run.id, "ann")
    order = store.leases.pause_order(paused)
    assert order.until_step == 3
    assert order.continues(2)
    assert not order.continues(3)


def test_a_paused_run_gives_up_its_place_and_comes_first_when_resumed(
    store, run, paused, config
):
    store.create(config, visitor="bob")
    assert store.leases.pause_order(paused).others_wait
    assert store.leases.leave(paused, 0)
    with pytest.raises(LeaseLostError):
        store.leases.heartbeat(paused)
    assert store.leases.order(paused) == "stop"
    assert store.get(run.id).state == "paused"
    assert store.leases.reap() == []
    store.pauses.resume(run.id, "ann")
    assert store.get(run.id).state == "queued"
    assert store.leases.claim().run_id == run.id
    assert states(store, run.id) == ["queued", "running", "paused", "queued", "running"]


def test_a_run_that_is_to_go_on_is_not_given_up(store, run, paused):
    store.pauses.take_step(run.id, "ann")
    assert not store.leases.leave(paused, 0)


def test_one_step_of_a_run_without_a_process_queues_it(store, run, paused):
    store.leases.leave(paused, 0)
    store.pauses.pause(run.id, "ann")
    assert store.get(run.id).state == "paused"
    store.pauses.take_step(run.id, "ann")
    assert store.get(run.id).state == "queued"
    again = store.leases.claim()
    assert store.leases.orders(again).until_step == 1


@pytest.mark.parametrize("order", ["pause", "take_step"])
def test_a_process_that_dies_in_a_pause_leaves_the_run_paused_or_queued(
    store, run, paused, clock, order
):
    getattr(store.pauses, order)(run.id, "ann")
    clock.forward(LEASE_SECONDS + 1)
    assert store.leases.reap() == ([] if order == "pause" else [run.id])
    expected = "paused" if order == "pause" else "queued"
    assert store.get(run.id).state == expected
    assert store.leases.reap() == []


def test_a_consumer_that_shuts_down_leaves_a_paused_run_paused(store, run, paused):
    assert store.leases.release(paused, lost=False) == "paused"
    store.pauses.resume(run.id, "ann")
    assert store.get(run.id).state == "queued"


def test_a_paused_run_is_cancelled_with_and_without_a_process(store, run, paused):
    assert store.cancel(run.id, "ann").state == "paused"
    assert store.leases.order(paused) == "cancel"


def test_a_paused_run_without_a_process_is_cancelled_at_once(store, run, paused):
    store.leases.leave(paused, 0)
    assert store.cancel(run.id, "ann").state == "cancelled"
    store.pauses.resume(run.id, "ann")
    assert store.get(run.id).state == "cancelled"


def test_a_visitor_who_has_runs_enough_waits_in_line_when_resuming(
    store, run, paused, config
):
    store.create(config, visitor="ann")
    store.leases.claim()
    store.pauses.resume(run.id, "ann")
    assert not store.leases.go_on(paused, running_per_visitor=1)
    assert store.get(run.id).state == "queued"
    assert store.leases.order(paused) == "stop"


def test_only_its_visitor_pauses_a_run(store, run):
    for order in (store.pauses.pause, store.pauses.resume, store.pauses.take_step):
        with pytest.raises(RunNotFoundError):
            order(run.id, "bob")


def test_runs_that_were_left_paused_are_deleted_in_the_end(store, run, paused, clock):
    store.leases.leave(paused, 0)
    assert store.delete_ended(clock() - 1, 10) == 0
    assert store.delete_ended(clock() + 1, 10) == 1
    with pytest.raises(RunNotFoundError):
        store.get(run.id)


@pytest.fixture
def budgeted(store, config):
    values = config.model_dump(mode="json") | {"filter_epsilon": 30.0}
    return store.create(config.parse(values), visitor="ann")


def test_steps_that_are_done_cannot_be_taken_back(store, budgeted):
    claim = store.leases.claim()
    store.leases.append(claim, [Event("step", {"step": 7})])
    with pytest.raises(
        ConfigError, match="at least 7, the number of steps done, got 6"
    ):
        store.pauses.change(budgeted.id, "ann", {"steps": 6})
    store.pauses.change(budgeted.id, "ann", {"steps": 7})
    assert store.leases.orders(claim).changes == {"steps": 7}


def test_a_change_is_checked_beside_those_that_wait(store, budgeted):
    store.pauses.change(budgeted.id, "ann", {"steps": 50})
    assert store.pauses.config(budgeted.id).steps == 50
    store.pauses.change(budgeted.id, "ann", {"noise_multiplier": 2.0})
    now = store.pauses.config(budgeted.id)
    assert (now.steps, now.noise_multiplier) == (50, 2.0)
    with pytest.raises(ConfigError) as refused:
        store.pauses.change(budgeted.id, "ann", {"expected_batch_size": 10**6})
    assert refused.value.field == "expected_batch_size"


def test_the_value_in_force_takes_an_ordered_change_back(store, budgeted):
    claim = store.leases.claim()
    before = store.pauses.config(budgeted.id).learning_rate
    store.pauses.change(budgeted.id, "ann", {"learning_rate": 2 * before, "steps": 50})
    store.pauses.change(budgeted.id, "ann", {"learning_rate": before})
    assert store.leases.orders(claim).changes == {"steps": 50}
    assert store.pauses.config(budgeted.id).learning_rate == before


def test_a_change_may_not_cost_more_than_a_run_may(database_url, config):
    store = RunStore(database_url, cost_limit=2 * config.cost)
    values = config.model_dump(mode="json") | {"filter_epsilon": 30.0}
    run = store.create(config.parse(values), visitor="ann")
    with pytest.raises(ConfigError, match="multiply-adds") as refused:
        store.pauses.change(run.id, "ann", {"steps": 10_000})
    assert refused.value.field == "steps"
    store.pauses.change(run.id, "ann", {"steps": config.steps + 1})
    store.database.close()


def test_a_change_of_steps_is_what_the_run_then_has_in_all(store, budgeted):
    claim = store.leases.claim()
    store.pauses.change(budgeted.id, "ann", {"steps": 50})
    store.leases.append(
        claim, [Event("phase", {"step": 3, "steps": 50, "changes": {"steps": 50}})]
    )
    assert store.get(budgeted.id).steps == 50
    assert store.leases.orders(claim).changes == {}

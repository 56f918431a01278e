"""A run that is done goes on as if it had been so from its start, whatever dies."""

import os
import signal

import pytest
from sqlalchemy import delete

from dpsgd_explorer.experiments import kinds
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.runs.store.leases import LEASE_SECONDS
from dpsgd_explorer.runs.store.schema import checkpoints
from dpsgd_explorer.runs.worker.child import carry_out
from tests.runs.real_runs import CHEAP, answering, assert_ended_as
from tests.runs.system_processes import PATIENCE_SECONDS, wait_until

BUDGET = 30.0
FREE = {"learning_rate": 0.5}


def config_of(**changes):
    values = CHEAP["training"] | {"filter_epsilon": BUDGET, "steps": 6} | changes
    return TrainingConfig.parse(values)


def repeated(config, changes):
    experiment = kinds.start(config, changes=changes)
    return [event.timeless() for event in experiment.events()]


@pytest.fixture
def carried_out(store, settings):
    """Carry out the next run in the queue, in this very process."""

    def carried_out():
        claim = store.leases.claim()
        assert carry_out(store, claim, settings, lease_s=LEASE_SECONDS) == 0
        return store.get(claim.run_id)

    return carried_out


@pytest.fixture
def done(store, carried_out):
    """A run that is done and may be continued."""
    store.create(config_of(), visitor="ann")
    return carried_out()


@pytest.mark.parametrize("is_kept", [True, False], ids=["kept", "repeated"])
def test_a_continued_run_is_one_that_was_so_from_its_start(
    store, done, carried_out, is_kept
):
    if not is_kept:
        with store.database.write() as connection:
            connection.execute(delete(checkpoints))
    child = store.get(store.continuing.go_on(done.id, 3, visitor="ann"))
    assert (child.state, child.step, child.steps) == ("queued", 6, 9)
    assert (child.parent, child.config) == (done.id, done.config)
    carried_out()
    whole = repeated(config_of(), [(6, {"further_steps": 3})])
    assert_ended_as(whole, store, child.id)
    ended = store.get(child.id)
    assert (ended.step, ended.steps, ended.summary["epsilon"]) == (9, 9, BUDGET)
    assert store.get(done.id).last_seq == done.last_seq

    again = store.continuing.go_on(child.id, 2, visitor="ann")
    carried_out()
    further = [(6, {"further_steps": 3}), (9, {"further_steps": 2})]
    assert_ended_as(repeated(config_of(), further), store, again)


def test_settings_are_changed_while_a_continued_run_waits(store, done, carried_out):
    child = store.continuing.go_on(done.id, 3, visitor="ann")
    store.pauses.change(child, "ann", FREE)
    store.pauses.change(child, "ann", {"steps": 8})
    config = store.pauses.config(child)
    assert (config.steps, config.learning_rate) == (8, 0.5)
    carried_out()
    further = [(6, {"further_steps": 3}), (6, FREE | {"steps": 8})]
    assert_ended_as(repeated(config_of(), further), store, child)


@pytest.mark.parametrize("settings_of_run", [{}, {"filter_epsilon": None}], ids=str)
def test_a_checkpoint_is_kept_of_a_run_that_can_be_continued(
    store, carried_out, settings_of_run
):
    store.create(config_of(**settings_of_run), visitor="ann")
    ended = carried_out()
    kept = store.leases.checkpoint(ended.id)
    if settings_of_run:
        assert kept is None
    else:
        assert kept.seq == ended.last_seq - 1  # all but the state "done"


@pytest.mark.long("real runs")
def test_a_process_killed_as_soon_as_it_continues_loses_nothing(
    consumer, killed_config, own_children
):
    values = killed_config.model_dump(mode="json") | {"filter_epsilon": BUDGET}
    config = TrainingConfig.parse(values | {"steps": 50})
    worker = consumer()
    run = worker.store.create(config, visitor="ann")
    answering(worker).join(PATIENCE_SECONDS)
    assert worker.store.get(run.id).state == "done"
    child = worker.store.continuing.go_on(run.id, 2000, visitor="ann")
    thread = answering(worker)
    wait_until(lambda: worker.store.get(child).step > 50)
    [process] = own_children()
    os.kill(process, signal.SIGKILL)
    thread.join(PATIENCE_SECONDS)
    whole = repeated(config, [(50, {"further_steps": 2000})])
    assert_ended_as(whole, worker.store, child)
    assert worker.store.get(child).summary["epsilon"] == BUDGET

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
from tests.runs.system_processes import PATIENCE_SECONDS, trainer_of, wait_until

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


@pytest.mark.parametrize(
    ("at", "further"), [("checkpoint", 3), ("behind it", 1), ("none", 5)]
)
def test_a_stopped_run_goes_on_as_if_it_had_been_so_from_its_start(
    store, carried_out, at, further
):
    """Whether its newest checkpoint is of its last step, of one before, or is gone."""
    config = config_of(audit=0)
    whole = list(kinds.start(config).events())
    places = {event.data["step"]: i for i, event in enumerate(whole[:-1])}
    run = store.create(config, visitor="ann")
    claim = store.leases.claim(run.id)
    partly = kinds.start(config)
    taken, kept = [], 0
    for event in partly.events():
        taken.append(event)
        if at != "none" and partly.step == (3 if at == "checkpoint" else 2):
            kept = len(taken)
            state = partly.checkpoint()
        if len(taken) > places[3]:
            break
    store.leases.append(claim, taken[:kept])
    if kept:
        store.leases.save_checkpoint(claim, state)
    store.leases.append(claim, taken[kept:])
    store.leases.finish(claim, "cancelled")
    child = store.continuing.go_on(run.id, further, visitor="ann")
    assert (store.leases.checkpoint(child) is None) == (at == "none")
    carried_out()
    changes = [(3, {"further_steps": further})]
    assert_ended_as(repeated(config, changes), store, child)
    ended = store.get(child)
    assert (ended.step, ended.summary["epsilon"]) == (3 + further, BUDGET)
    chosen = [x for x in store.phases_of([child])[child] if "changes" in x]
    assert [(x["step"], x["chosen"]) for x in chosen] == [(3, "while looking")]


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
def test_a_process_killed_as_soon_as_it_continues_loses_nothing(consumer):
    config, further = config_of(steps=20), 400
    worker = consumer()
    run = worker.store.create(config, visitor="ann")
    answering(worker).join(PATIENCE_SECONDS)
    assert worker.store.get(run.id).state == "done"
    child = worker.store.continuing.go_on(run.id, further, visitor="ann")
    thread = answering(worker)
    wait_until(lambda: worker.store.get(child).step > 20)
    process = trainer_of(child)
    os.kill(process, signal.SIGKILL)
    thread.join(PATIENCE_SECONDS)
    whole = repeated(config, [(20, {"further_steps": further})])
    assert_ended_as(whole, worker.store, child)
    assert worker.store.get(child).summary["epsilon"] == BUDGET

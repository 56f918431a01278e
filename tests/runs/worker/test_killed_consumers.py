"""A consumer that is killed while a run is paused, stepped, changed or continued."""

import pytest

from dpsgd_explorer.experiments import kinds
from dpsgd_explorer.experiments.events import changes_of
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.runs.worker.child import carry_out
from tests.runs.real_runs import CHEAP, assert_ended_as, start_worker
from tests.runs.system_processes import (
    PATIENCE_SECONDS,
    children_of,
    is_alive,
    wait_until,
)

pytestmark = [
    pytest.mark.long("real runs"),
    pytest.mark.timeout(900),  # processes are started several times
]
BUDGET = 30.0
CHANGE = {"noise_multiplier": 1.5, "learning_rate": 0.5}
LONG = 400  # steps; its worker is killed within them, on a fast machine too


@pytest.fixture
def worker(settings, consumer):
    """A process of the command worker, which can be killed with all it started."""

    class Worker:
        store = consumer().store
        process = None

        def start(self):
            self.process = start_worker(settings)

        def kill(self):
            children = children_of(self.process.pid)
            self.process.kill()
            self.process.wait()
            wait_until(lambda: not any(map(is_alive, children)))
            self.store.leases.reap()  # as the next worker does

        def restart(self):
            self.kill()
            self.start()

    started = Worker()
    yield started
    if started.process.poll() is None:
        started.process.terminate()
        started.process.wait(PATIENCE_SECONDS)


def budgeted(steps):
    values = CHEAP["training"] | {"filter_epsilon": BUDGET, "steps": steps}
    return TrainingConfig.parse(values)


def test_killed_in_a_pause_or_before_a_step_it_takes_each_step_once(worker):
    config, store, pauses = budgeted(20), worker.store, worker.store.pauses
    run = store.create(config, visitor="ann").id
    pauses.pause(run, "ann")
    worker.start()
    until_paused(store, run, 0)
    worker.kill()
    assert store.get(run).state == "paused"

    pauses.take_step(run, "ann")
    assert store.get(run).state == "queued"
    worker.start()
    until_paused(store, run, 1)
    pauses.take_step(run, "ann")
    worker.restart()
    until_paused(store, run, 2)
    pauses.resume(run, "ann")
    assert_done(store, run, config, [])


def test_killed_before_and_after_a_change_it_makes_it_once(worker):
    config, store, pauses = budgeted(LONG), worker.store, worker.store.pauses
    run = store.create(config, visitor="ann").id
    pauses.take_step(run, "ann")
    worker.start()
    until_paused(store, run, 1)
    pauses.change(run, "ann", CHANGE)
    worker.restart()
    pauses.resume(run, "ann")
    wait_until(lambda: store.get(run).step > 30)
    worker.restart()
    assert_done(store, run, config, [(1, CHANGE)])


@pytest.mark.parametrize("moment", ["before", "after"])
def test_killed_before_and_after_a_continuation_it_makes_it_once(
    worker, settings, moment
):
    config, store = budgeted(20), worker.store
    run = store.create(config, visitor="ann").id
    assert carry_out(store, store.leases.claim(run), settings, lease_s=60) == 0
    child = store.continuing.go_on(run, LONG, visitor="ann")
    if moment == "before":  # it holds the run, and has stored nothing of its own
        store.pauses.pause(child, "ann")
    worker.start()
    if moment == "before":
        until_paused(store, child, 20)
    else:
        wait_until(lambda: store.get(child).step > 30)
    worker.restart()
    store.pauses.resume(child, "ann")
    assert_done(store, child, config, [(20, {"further_steps": LONG})])


def until_paused(store, run_id, step):
    wait_until(lambda: store.get(run_id).state == "paused")
    wait_until(lambda: store.get(run_id).step == step)
    assert store.get(run_id).state == "paused"


def assert_done(store, run_id, config, changes):
    """Assert that a run ended as one that nobody killed, ε of its budget included."""
    wait_until(lambda: store.get(run_id).has_ended)
    assert changes_of(store.phases_of([run_id])[run_id]) == changes
    experiment = kinds.start(config, changes=changes)
    whole = [event.timeless() for event in experiment.events()]
    assert_ended_as(whole, store, run_id)
    assert store.get(run_id).summary["epsilon"] == BUDGET

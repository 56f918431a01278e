"""Sites that are stopped for an upgrade, in order or by force, in mid-run."""

import json
import os
import signal
import subprocess
import sys

import pytest
from sqlalchemy import update

from dpsgd_explorer.runs.store.schema import checkpoints, runs
from dpsgd_explorer.runs.worker.program import program
from tests.runs.faults.short_runs import ENDLESS, FAULTY, RUN, undisturbed
from tests.runs.faults.sites import sites
from tests.runs.real_runs import assert_ended_as, told
from tests.runs.system_processes import is_stopped

pytestmark = pytest.mark.timeout(600)
STOP_SECONDS = 10


def has_nothing_to_repeat(store, run):
    """Return True if the checkpoint of a queued run was made after its last event."""
    repeated = store.events(run, store.leases.checkpoint(run).seq)
    return not [each for each in repeated if each.kind not in ("state", "progress")]


def begun(site, config):
    """Launch a run; return its id once it has taken some steps."""
    run = site.launch(config)
    site.until(lambda: site.store.get(run).step > 1, 60)
    return run


@sites()
@pytest.mark.parametrize("kind", FAULTY)
def test_a_worker_that_is_stopped_leaves_nothing_to_repeat(site, kind):
    worker = site.worker()
    run = begun(site, FAULTY[kind])
    worker.terminate()
    site.until(lambda: worker.poll() is not None, STOP_SECONDS)
    left = site.store.get(run)
    assert left.state == "queued"
    assert 1 < left.step < FAULTY[kind].steps
    assert has_nothing_to_repeat(site.store, run)
    site.worker()
    site.ended(run)
    assert_ended_as(undisturbed(FAULTY[kind]), site.store, run)


def drain(site, *options):
    """Run the command as an operator does; return its exit code and words."""
    done = subprocess.run(
        [sys.executable, "-m", "dpsgd_explorer", "drain", *options],
        env=os.environ | site.settings.to_environment(),
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout + done.stderr


@sites()
def test_a_drained_site_trains_nothing_until_it_is_resumed(site):
    site.worker()
    run = begun(site, ENDLESS)
    waiting = site.store.create(RUN, visitor="bob").id
    code, said = drain(site)
    assert (code, said.split(";")[0]) == (0, "no run trains, 2 are queued")
    assert site.store.leases.held() == 0
    assert site.store.get(run).state == "queued"
    assert has_nothing_to_repeat(site.store, run)
    site.doorbell.ring(run)
    assert drain(site)[1].startswith("no run trains, 2 are queued")
    assert drain(site, "--resume") == (0, "runs start again\n")
    step = site.store.get(run).step
    site.until(lambda: site.store.get(run).step > step, 60)
    site.store.cancel(run, "ann")
    site.ended(waiting, 60)
    assert_ended_as(undisturbed(RUN), site.store, waiting)


@sites("sqlite", "postgresql")
def test_a_run_that_the_next_program_cannot_repeat_begins_again(site):
    """As after an upgrade of a site that was killed: the log says something else."""
    worker = site.worker()
    run = begun(site, RUN)
    # From the checkpoint of its start the run would repeat its log in any case.
    site.until(lambda: site.store.leases.checkpoint(run).seq > 5, 10)
    os.kill(site.trainer_of(run), signal.SIGSTOP)
    worker.kill()
    worker.wait()
    with site.store.database.write() as connection:
        connection.execute(update(checkpoints).values(program="0.0.9", seq=2))
        connection.execute(update(runs).values(lease_until=0.0, holder=None))
    before = site.store.events(run)
    site.worker()
    ended = site.ended(run, 60)
    assert (ended.state, ended.error["code"]) == ("interrupted", "upgraded")
    assert site.store.events(run)[: len(before)] == before
    again = site.ended(ended.error["run"], 60)
    assert again.state == "done"
    assert told(site.store, again.id) == undisturbed(RUN)
    assert json.loads(site.store.events(again.id)[0].data) == {"state": "queued"}


@sites("sqlite", "postgresql")
def test_a_run_names_its_program_before_it_logs_anything(site):
    """Whenever it is killed, the next program knows whether the log is its own."""
    order = site.folder / "stop"
    order.write_text("1")  # checkpoint
    site.worker(STOP_ORDER=str(order))
    run = site.launch(RUN)
    site.until(lambda: not order.exists(), 30)
    trainer = site.trainer_of(run)
    site.until(lambda: is_stopped(trainer), STOP_SECONDS)
    assert site.store.leases.checkpoint(run).program == program()
    kinds = {event.kind for event in site.store.events(run)}
    assert kinds <= {"state", "progress"}

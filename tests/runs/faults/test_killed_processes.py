"""Processes that are killed: nothing is lost, nothing comes twice, silence is short."""

import os
import signal

import pytest
from sqlalchemy import update

from dpsgd_explorer.runs.store.schema import runs
from tests.ports import free_port
from tests.runs.faults.event_source import EventSource
from tests.runs.faults.short_runs import FAULTY, RUN, undisturbed
from tests.runs.faults.sites import LEASE_SECONDS, SILENCE_SECONDS, sites
from tests.runs.real_runs import assert_ended_as
from tests.runs.system_processes import children_of, is_alive
from tests.server.processes import descendants

pytestmark = pytest.mark.timeout(600)
ORPHAN_SECONDS = 2
# The processes here load torch after the kill; the product's fork server does before.
LOADING_SECONDS = {"training": 15, "regression": 0}


def kill(*pids):
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


def is_past_its_checkpoint(store, run):
    """Whether the run has told more since, which it must repeat after a kill."""
    checkpoint = store.leases.checkpoint(run)
    return checkpoint is not None and store.get(run).last_seq > checkpoint.seq + 2


@sites()
@pytest.mark.parametrize("kind", FAULTY)
def test_a_killed_child_is_resumed(site, kind):
    site.worker()
    run = site.launch(FAULTY[kind])
    with site.listening(run) as heard:
        site.until(lambda: is_past_its_checkpoint(site.store, run), 30)
        trainer, before = site.trainer_of(run), site.store.get(run)
        kill(trainer)
        site.until(
            lambda: site.store.get(run).last_seq > before.last_seq, LEASE_SECONDS + 3
        )
        site.ended(run)
    assert before.step < FAULTY[kind].steps
    assert heard.silence <= SILENCE_SECONDS + LOADING_SECONDS[kind]
    assert_ended_as(undisturbed(FAULTY[kind]), site.store, run)
    assert heard.seqs == [event.seq for event in site.store.events(run)]


@sites()
def test_a_killed_worker_leaves_no_orphan_and_another_goes_on(site):
    for _ in range(2):
        site.worker()
    run = site.launch(RUN)
    with site.listening(run) as heard:
        site.until(lambda: site.store.leases.checkpoint(run), 30)
        worker, before = site.holder_of(run), site.store.get(run)
        below = children_of(worker)
        if not site.store.database.is_embedded:  # the other's machine is not seen
            with site.store.database.write() as connection:
                connection.execute(update(runs).values(holder="another 1 1 1"))
        kill(worker)
        site.until(lambda: not any(map(is_alive, below)), ORPHAN_SECONDS)
        site.until(
            lambda: site.store.get(run).last_seq > before.last_seq, LEASE_SECONDS + 3
        )
        site.ended(run)
    assert before.step < RUN.steps
    assert heard.silence <= LEASE_SECONDS + 3
    assert_ended_as(undisturbed(RUN), site.store, run)
    assert heard.seqs == [event.seq for event in site.store.events(run)]


@sites()
def test_a_site_whose_processes_are_all_killed_goes_on_when_started_again(site, shelf):
    port = free_port()
    started = [site.web(port), site.worker()]
    run = site.launch(RUN)
    with EventSource(port, run) as source:
        site.until(lambda: site.store.leases.checkpoint(run), 30)
        before = site.store.get(run)
        below = [pid for each in started for pid in descendants(each.pid)]
        kill(*(each.pid for each in started))
        site.until(lambda: not any(map(is_alive, below)), ORPHAN_SECONDS)
        site.worker()
        site.web(port)
        site.ended(run)
        site.until(lambda: source.has_ended, SILENCE_SECONDS)
    assert before.step < RUN.steps
    assert_ended_as(undisturbed(RUN), site.store, run)
    assert source.seqs == [event.seq for event in site.store.events(run)]


@sites()
def test_a_listener_of_a_killed_web_server_goes_on_where_it_was(site, shelf, config):
    port = free_port()
    web = site.web(port)
    run = site.store.create(config, visitor="ann").id
    claim = site.store.leases.claim(run)
    with EventSource(port, run) as source:
        site.append_steps(claim, 1, 11)
        site.until(lambda: len(source.seqs) == 12, SILENCE_SECONDS)
        kill(*descendants(web.pid))
        site.append_steps(claim, 11, 21)
        site.until(lambda: len(source.seqs) == 22, SILENCE_SECONDS + 3)
        site.store.leases.finish(claim, "done")
        site.until(lambda: source.has_ended, SILENCE_SECONDS)
    assert source.connections > 1
    assert source.seqs == list(range(1, 24))

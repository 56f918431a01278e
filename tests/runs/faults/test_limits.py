"""Runs that are cancelled, or over their limits, end soon and say why."""

import pytest

from dpsgd_explorer.experiments.training_config import TrainingConfig
from tests.runs.faults.short_runs import ENDLESS, QUICK
from tests.runs.faults.sites import sites
from tests.runs.real_runs import assert_cancelled, long_config

pytestmark = pytest.mark.timeout(600)
CANCEL_SECONDS = 5


@sites()
def test_a_running_and_a_queued_run_are_cancelled_and_the_next_is_trained(site):
    site.worker()
    running = site.launch(ENDLESS)
    queued, after = (site.launch(QUICK, visitor=name) for name in ("b", "c"))
    step = site.until(lambda: site.store.get(running).step, 30)
    site.store.cancel(queued, "b")
    assert site.store.get(queued).state == "cancelled"
    site.store.cancel(running, "ann")
    site.ended(running, CANCEL_SECONDS)
    assert_cancelled(site.store, running, at_least=step)
    assert site.ended(after).state == "done"
    assert site.store.get(queued).started_at is None


def message_of_failure(worker, config, code):
    """Carry out a run that fails with this code; return the error's message."""
    run = worker.store.create(config, visitor="ann")
    worker.start_run().join()
    ended = worker.store.get(run.id)
    assert (ended.state, ended.error["code"]) == ("failed", code)
    return ended.error["message"]


@sites(sqlite=None)
def test_a_run_over_its_time_fails(site, consumer):
    worker = consumer(**site.changes, run_seconds=1)
    message = message_of_failure(worker, long_config(100_000), "time_limit")
    assert "after 1 seconds" in message


@sites(sqlite=None)
def test_a_run_that_wants_too_much_memory_fails(site, consumer):
    worker = consumer(**site.changes, run_memory_mib=600)
    sizes = {"expected_batch_size": 60_000, "steps": 5, "noise_multiplier": 1.0}
    config = TrainingConfig.parse({"model": "mlp"} | sizes)
    assert "(600 MiB)" in message_of_failure(worker, config, "memory_limit")

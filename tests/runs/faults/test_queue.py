"""A queue that doubles messages, loses them or is away: runs are in the database."""

import threading

import pytest

from dpsgd_explorer.runs.doorbell import Doorbell
from tests.runs.faults.short_runs import QUICK
from tests.runs.faults.sites import REDIS, sites

pytestmark = pytest.mark.timeout(600)
#: A worker finds a run whose message was lost within this time.
LOOK_SECONDS = 2
CONSUMERS, MESSAGES = 4, 10


@sites(sqlite=None)
def test_ten_messages_and_four_consumers_make_one_claim(site, config):
    run = site.store.create(config, visitor="ann").id
    claims, heard = [], threading.Barrier(CONSUMERS)
    for _ in range(MESSAGES):
        site.doorbell.ring(run)

    def answer(_run_id):
        claims.append(site.store.leases.claim())

    def consume():
        doorbell = Doorbell(site.settings, answer)
        heard.wait(60)
        while (task := doorbell.huey.dequeue()) is not None:
            doorbell.huey.execute(task)
        doorbell.huey.storage.close()

    threads = [threading.Thread(target=consume) for _ in range(CONSUMERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(claims) == MESSAGES
    assert [(claim.run_id, claim.fence) for claim in claims if claim] == [(run, 1)]


@sites()
def test_a_run_whose_message_was_lost_is_found(site):
    site.worker()
    site.until(lambda: site.workers_seen() == 1, 10)
    run = site.store.create(QUICK, visitor="ann").id  # and no message of it
    site.until(lambda: site.store.get(run).started_at, LOOK_SECONDS)
    assert site.ended(run).state == "done"


@sites(REDIS)
def test_a_queue_that_is_away_holds_up_no_run(site, redis_server):
    """The workers look themselves, and hear messages again afterwards."""
    site.worker()
    site.until(lambda: site.workers_seen() == 1, 10)
    redis_server.stop()
    try:
        during = site.launch(QUICK)
        assert site.ended(during).state == "done"
    finally:
        redis_server.start()
    after = site.launch(QUICK)
    assert site.ended(after).state == "done"


@sites()
def test_a_visitor_with_twenty_runs_delays_another_by_one(site):
    anns = [site.launch(QUICK) for _ in range(20)]
    site.worker()
    site.until(lambda: site.store.get(anns[0]).started_at, 10)
    bobs = site.launch(QUICK, visitor="bob")
    assert site.store.queue_place(bobs).position == 1
    site.until(lambda: site.store.get(bobs).started_at, 30)
    assert sum(site.store.get(run).started_at is not None for run in anns) == 1

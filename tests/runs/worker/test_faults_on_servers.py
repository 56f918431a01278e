"""Every pair of database and queue: a run is claimed once, whatever the queue does."""

import threading
from dataclasses import replace

import pytest

from dpsgd_explorer.runs.doorbell import Doorbell
from dpsgd_explorer.runs.store.store import RunStore
from tests.runs.real_runs import start_worker
from tests.runs.system_processes import (
    PATIENCE_SECONDS,
    wait_until,
)

pytestmark = [pytest.mark.long("servers"), pytest.mark.timeout(900)]
SITES = ("files", "postgresql", "postgresql and redis")


@pytest.fixture(params=SITES)
def site(request, settings):
    """The settings of a site; its servers are new to it."""
    if request.param == "files":
        return settings
    url = request.getfixturevalue("postgresql_url")
    queue = url
    if request.param == "postgresql and redis":
        queue = request.getfixturevalue("redis_server").url
    on_servers = replace(settings, database_url=url, queue_url=queue)
    doorbell = Doorbell(on_servers)
    doorbell.huey.flush()
    doorbell.huey.storage.close()
    return on_servers


@pytest.fixture
def store(site):
    opened = RunStore(site.database_url, outage_s=PATIENCE_SECONDS)
    yield opened
    opened.database.close()


@pytest.fixture
def worker(site, tmp_path):
    """Start workers, on servers as if each had a machine; all end with the test."""
    started = []

    def worker():
        folder = site.instance_dir
        if not site.database_url.startswith("sqlite"):
            folder = tmp_path / f"machine-{len(started)}"
        started.append(start_worker(replace(site, instance_dir=folder)))
        return started[-1]

    yield worker
    for process in started:
        if process.poll() is None:
            process.terminate()
    for process in started:
        process.wait(PATIENCE_SECONDS)


def ring(site, run_id):
    doorbell = Doorbell(site)
    doorbell.ring(run_id)
    doorbell.huey.storage.close()


def test_ten_doorbells_and_four_consumers_make_one_claim(site, store, config):
    run = store.create(config, visitor="ann").id
    claims, heard = [], threading.Barrier(4)
    for _ in range(10):
        ring(site, run)

    def answer(_run_id):
        claims.append(store.leases.claim())

    def consume():
        doorbell = Doorbell(site, answer)
        heard.wait(PATIENCE_SECONDS)
        while (task := doorbell.huey.dequeue()) is not None:
            doorbell.huey.execute(task)
        doorbell.huey.storage.close()

    threads = [threading.Thread(target=consume) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
    assert len(claims) == 10
    assert [(claim.run_id, claim.fence) for claim in claims if claim] == [(run, 1)]


@pytest.mark.parametrize("site", SITES[2:], indirect=True)
def test_the_queue_is_emptied_and_goes_away(site, store, worker, redis_server, config):
    """Workers look for runs themselves, and hear the doorbell again afterwards."""
    doorbell = Doorbell(site)
    worker()
    before = store.create(config, visitor="ann").id
    doorbell.ring(before)
    doorbell.huey.flush()
    wait_until(lambda: store.get(before).has_ended)
    redis_server.stop()
    during = store.create(config, visitor="ann").id
    doorbell.ring(during)  # nobody hears it, and it is no error
    wait_until(lambda: store.get(during).has_ended)
    redis_server.start()
    after = store.create(config, visitor="ann").id
    doorbell.ring(after)
    wait_until(lambda: store.get(after).has_ended)
    ended = [store.get(each).state for each in (before, during, after)]
    assert ended == ["done"] * 3
    doorbell.huey.storage.close()

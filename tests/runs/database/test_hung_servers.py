"""Servers that hang: their processes stand still, and no connection breaks."""

import contextlib
import json
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from dpsgd_explorer.experiments.events import Event
from dpsgd_explorer.runs.operation.fleet import Fleet
from dpsgd_explorer.runs.store.store import RunStore
from dpsgd_explorer.runs.worker.event_writer import EventWriter
from dpsgd_explorer.web import create_app
from tests.ports import free_port
from tests.runs.real_runs import long_config
from tests.runs.system_processes import (
    PATIENCE_SECONDS,
    children_of,
    wait_until,
)
from tests.stored_runs import ADULT

pytestmark = [pytest.mark.long("servers"), pytest.mark.timeout(900)]

# The promise, and what a machine with ten times as much to do may add.
ANSWERED_SECONDS = 5 + 4
READY_SECONDS = 3 + 4
REQUESTS_AT_ONCE = 26


@pytest.fixture
def app(settings, postgresql_url, redis_server):
    """The web server's application on PostgreSQL and Redis, each used before."""
    made = create_app(
        replace(settings, database_url=postgresql_url, queue_url=redis_server.url)
    )
    made.testing = True
    yield made
    made.extensions["run_store"].database.close()
    made.extensions["doorbell"].huey.storage.close()


@pytest.fixture
def run(app):
    answer = app.test_client().post("/api/v1/runs", json=ADULT)
    assert answer.status_code == 201, answer.text
    return answer.json["links"]["self"]


def timed(app, path, **body):
    """Return the answer to a request and the seconds that it took."""
    client = app.test_client()
    begin = time.monotonic()
    answer = client.post(path, **body) if body else client.get(path)
    return answer, time.monotonic() - begin


def test_a_hung_database_is_answered_for_within_seconds(app, run, postgresql):
    """Also where more ask than there are connections, used ones and new ones."""
    asked = [
        (run, {}),
        ("/runs/", {}),
        (f"/runs/{run.rpartition('/')[2]}/", {}),
        ("/api/v1/runs", {"json": ADULT}),
        (f"{run}/events", {}),
        ("/api/v1/classes", {"json": {"name": "Physics"}}),
    ]
    for path, body in asked:
        assert timed(app, path, **body)[0].status_code < 300, path
    many = [asked[i % len(asked)] for i in range(REQUESTS_AT_ONCE)]
    with postgresql.hung(), ThreadPoolExecutor(len(many)) as pool:
        for _ in range(2):
            answers = list(pool.map(lambda one: timed(app, one[0], **one[1]), many))
            assert [answer.status_code for answer, _ in answers] == [503] * len(many)
            assert all(int(each.headers["Retry-After"]) > 0 for each, _ in answers)
            assert max(seconds for _, seconds in answers) < ANSWERED_SECONDS
        assert app.test_client().get("/healthz").status_code == 200
    wait_until(lambda: timed(app, run)[0].status_code == 200)


def failing(answer):
    """Return the names of the checks that failed."""
    message = answer.json["error"]["message"]
    return re.findall(r"(?:^|; )(database|schema|queue|worker): ", message)


def test_readiness_is_answered_for_while_a_server_hangs(
    app, run, postgresql, redis_server
):
    ready, _ = timed(app, "/readyz")
    assert failing(ready) == ["worker"]
    for server, names in (
        (postgresql, ["database", "schema", "worker"]),
        (redis_server, ["queue", "worker"]),
    ):
        with server.hung():
            for _ in range(3):
                answer, seconds = timed(app, "/readyz")
                assert answer.status_code == 503
                assert failing(answer) == names
                assert seconds < READY_SECONDS
        wait_until(lambda: failing(timed(app, "/readyz")[0]) == ["worker"])


def test_a_launch_does_not_wait_for_a_hung_queue(app, redis_server):
    sweep = {
        "purpose": "sweep",
        "base": ADULT,
        "variations": [{"learning_rate": 1 + i} for i in range(8)],
    }
    with redis_server.hung():
        for path, body in (("/api/v1/runs", ADULT), ("/api/v1/groups", sweep)):
            answer, seconds = timed(app, path, json=body)
            assert answer.status_code == 201
            assert seconds < ANSWERED_SECONDS


def test_events_are_stored_after_a_server_that_hung_within_a_transaction(
    postgresql_url, postgresql, config
):
    store = RunStore(postgresql_url, patience_s=float("inf"), outage_s=float("inf"))
    run = store.create(config, visitor="ann")
    claim = store.leases.claim()
    steps = [Event("step", {"step": i, "epsilon": 0.5}) for i in range(1, 4)]
    with EventWriter(store.leases, claim, lease_s=15) as writer:
        writer.add(steps[0])
        writer.flush()
        with postgresql.hung():
            writer.add(steps[1])
            time.sleep(ANSWERED_SECONDS)  # three answers that do not come
        writer.add(steps[2])
    stored = [json.loads(each.data) for each in store.events(run.id, kind="step")]
    assert [each["step"] for each in stored] == [1, 2, 3]
    store.database.close()


@pytest.mark.parametrize("seconds", [35])
def test_a_worker_outlives_a_database_that_hangs(
    tmp_path, postgresql, postgresql_url, seconds
):
    """Longer than a lease, and than a worker that hangs may be silent."""
    environment = os.environ | {
        "DPSGD_INSTANCE_DIR": str(tmp_path),
        "DPSGD_DATABASE_URL": postgresql_url,
        "DPSGD_QUEUE_URL": postgresql_url,
        "DPSGD_WORKERS": "1",
        "PORT": str(free_port()),
    }
    store = RunStore(postgresql_url)
    run_id = store.create(long_config(600), visitor="ann").id
    with served(environment) as (product, said):
        wait_until(lambda: store.get(run_id).step > 0)
        workers = [pid for pid in children_of(product.pid) if is_worker(pid)]
        assert len(workers) == 1
        with postgresql.hung():
            time.sleep(seconds)
        wait_until(lambda: store.get(run_id).has_ended)
        assert [p for p in children_of(product.pid) if is_worker(p)] == workers
    assert store.get(run_id).state == "done"
    steps = [json.loads(each.data) for each in store.events(run_id, kind="step")]
    assert [each["step"] for each in steps] == sorted({each["step"] for each in steps})
    assert Fleet(store.database, store.clock).read().lease_losses == 0
    log = said.read_text()
    assert "ended; starting it again" not in log
    assert "ended with an error" not in log
    store.database.close()


def is_worker(pid):
    with contextlib.suppress(OSError):
        return b"worker" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    return False


@contextlib.contextmanager
def served(environment):
    """Run the product; give its process and the file that has its log."""
    said = Path(environment["DPSGD_INSTANCE_DIR"]) / "log"
    with said.open("wb") as log:
        product = subprocess.Popen(
            [sys.executable, "-m", "dpsgd_explorer", "serve"],
            env=environment,
            stdout=log,
            stderr=log,
        )
        try:
            yield product, said
        finally:
            product.terminate()
            product.wait(PATIENCE_SECONDS)

"""The whole product on PostgreSQL and Redis, as its command starts it."""

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

from tests.ports import free_port
from tests.runs.real_runs import CHEAP
from tests.runs.system_processes import PATIENCE_SECONDS, wait_until

pytestmark = [pytest.mark.long("servers"), pytest.mark.timeout(900)]


@pytest.fixture
def environment(tmp_path, postgresql_url, redis_server):
    return os.environ | {
        "DPSGD_INSTANCE_DIR": str(tmp_path),
        "DPSGD_DATABASE_URL": postgresql_url,
        "DPSGD_QUEUE_URL": redis_server.url,
        "DPSGD_WORKERS": "1",
        "PORT": str(free_port()),
    }


def serve(environment, command="serve"):
    return subprocess.Popen(
        [sys.executable, "-m", "dpsgd_explorer", command],
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture
def ask(environment):
    """Send a request to the product; give status, headers and body."""

    def ask(path, values=None):
        request = urllib.request.Request(
            f"http://127.0.0.1:{environment['PORT']}{path}",
            data=None if values is None else json.dumps(values).encode(),
            headers={"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as answer:
                return answer.status, answer.headers, json.load(answer)
        except urllib.error.HTTPError as refused:
            return refused.code, refused.headers, json.load(refused)
        except urllib.error.URLError:
            return 0, {}, {}  # it does not listen yet

    return ask


def test_it_trains_and_outlives_its_database(environment, ask, postgresql):
    product = subprocess.Popen(
        [sys.executable, "-m", "dpsgd_explorer", "serve"],
        env=environment,
        stdout=subprocess.DEVNULL,
    )
    try:
        wait_until(lambda: ask("/healthz")[0] == 200)
        launch = CHEAP["training"]
        status, _, run = ask("/api/v1/runs", launch)
        assert status == 201, run
        place = f"/api/v1/runs/{run['id']}"
        wait_until(lambda: ask(place)[2].get("state") == "done")
        postgresql.stop()
        for path, values in ((place, None), ("/api/v1/runs", launch)):
            status, headers, body = ask(path, values)
            assert (status, body["error"]["code"]) == (503, "storage_unreachable")
            assert int(headers["Retry-After"]) > 0
            assert "127.0.0.1" not in json.dumps(body)
        postgresql.start()
        assert ask(place)[2]["state"] == "done"
        status, _, run = ask("/api/v1/runs", launch)
        assert status == 201, run
        place = f"/api/v1/runs/{run['id']}"
        wait_until(lambda: ask(place)[2].get("state") == "done")
    finally:
        product.terminate()
        product.wait(PATIENCE_SECONDS)


@pytest.mark.parametrize(
    ("command", "name"),
    [("serve", "DPSGD_DATABASE_URL"), ("worker", "DPSGD_QUEUE_URL")],
)
def test_it_does_not_start_without_its_servers(environment, command, name):
    kind = environment[name].partition("://")[0]
    place = f"127.0.0.1:{free_port()}"
    environment[name] = f"{kind}://ann:secret@{place}/0"
    refused = serve(environment, command)
    said = refused.communicate(timeout=PATIENCE_SECONDS)[1]
    assert refused.returncode == 2
    assert f"{name}: the" in said
    assert place in said
    assert "secret" not in said

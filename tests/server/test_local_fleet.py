"""Two web servers, a worker, PostgreSQL, Redis and nginx: one site."""

import http.cookiejar
import json
import urllib.error
import urllib.request

import pytest

from tests.ports import free_port
from tests.runs.system_processes import wait_until
from tests.server.processes import START_SECONDS
from tools.local_fleet import local_fleet

LAUNCH = {"dataset": "adult", "model": "logistic", "steps": 2, "evaluations": 1}
#: Of one web server each, not of the site.
OWN = ("dpsgd_request", "dpsgd_listeners", "process_", "dpsgd_queue_oldest")


@pytest.fixture(scope="module")
def fleet():
    with local_fleet(workers=1, port=free_ports(3)) as site:
        yield site


def free_ports(number):
    """Return the first of several free ports in a row, which nobody else is given."""
    ports = [free_port() for _ in range(number)]
    while ports[-1] - ports[0] != number - 1:
        ports = [*ports[1:], free_port()]
    return ports[0]


def metrics_of(address, token):
    asked = urllib.request.Request(
        f"{address}/metrics", headers={"Authorization": f"Bearer {token}"}
    )
    with urllib.request.urlopen(asked, timeout=START_SECONDS) as answer:
        lines = answer.read().decode().splitlines()
    return {line for line in lines if not line.startswith(("#", *OWN))}


class Browser:
    """A visitor's browser, which keeps its cookie."""

    def __init__(self):
        jar = http.cookiejar.CookieJar()
        self.opener = urllib.request.build_opener(
            urllib.request.HTTPCookieProcessor(jar)
        )

    def ask(self, address, body=None):
        data = None if body is None else json.dumps(body).encode()
        asked = urllib.request.Request(
            address, data, {"Content-Type": "application/json"}
        )
        with self.opener.open(asked, timeout=START_SECONDS) as answer:
            return json.load(answer)


@pytest.mark.long("servers")
def test_a_site_of_many_processes_is_one_site(fleet):
    browser, runs = Browser(), "/api/v1/runs"
    run_id = browser.ask(f"{fleet.address}{runs}", LAUNCH)["id"]
    for address in fleet.webs:  # each knows the visitor, whoever gave the cookie
        [listed] = browser.ask(f"{address}{runs}")["runs"]
        assert listed["id"] == run_id
    wait_until(lambda: browser.ask(f"{fleet.address}{runs}/{run_id}")["ended_at"])
    asked = f"{fleet.address}{runs}/{run_id}/events"
    with urllib.request.urlopen(asked, timeout=START_SECONDS) as stream:
        log = stream.read().decode()
    assert log.count("event: step") == 2
    assert '"done"' in log

    one, two = (metrics_of(address, fleet.metrics_token) for address in fleet.webs)
    assert one == two
    assert 'dpsgd_runs_finished_total{kind="training",state="done"} 1.0' in one
    with pytest.raises(urllib.error.HTTPError, match="404") as closed:
        metrics_of(fleet.address, fleet.metrics_token)
    closed.value.close()

    first = fleet.web_processes[0]  # an upgrade ends one at a time
    first.terminate()
    assert first.wait(START_SECONDS) == 0
    for _ in range(4):
        assert browser.ask(f"{fleet.address}{runs}/{run_id}")["state"] == "done"

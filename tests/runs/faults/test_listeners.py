"""Listeners: two hundred at once, and those that ask from a wrong place."""

import json
import statistics
import threading
import urllib.request

import pytest

from tests.ports import free_port
from tests.runs.faults.crowd import NUMBER, Crowd
from tests.runs.faults.sites import SILENCE_SECONDS, calm_seconds, join, sites
from tests.runs.real_runs import CHEAP
from tests.web.conftest import application

pytestmark = pytest.mark.timeout(600)
LISTENERS, STEPS = 200, 100
#: Requests of others while they listen, and how long most of them may take.
REQUESTS, ANSWER_SECONDS = 60, 0.3

#: What a browser may say it heard last, and the event that is sent first.
POSITIONS = {"5": 6, "garbage": 1, "-3": 1, "99": 1, "9" * 5000: 1}


def answered(port, path, values=None):
    """Send a request; return the seconds until its whole answer, on a calm machine."""
    data = None if values is None else json.dumps(values).encode()
    address = f"http://127.0.0.1:{port}/api/v1/runs{path}"
    request = urllib.request.Request(
        address, data, {"Content-Type": "application/json"}
    )
    begin = calm_seconds()
    with urllib.request.urlopen(request, timeout=60) as answer:
        json.load(answer)
    return calm_seconds() - begin


@sites()
def test_two_hundred_listeners_hold_up_nobody_and_miss_nothing(site, shelf, config):
    port = free_port()
    site.web(
        port,
        DPSGD_WEB_THREADS=str(2 * LISTENERS + 40),  # without a cookie: half
        DPSGD_QUOTA_EXEMPT_NETWORKS="127.0.0.0/8",  # as a classroom's
    )
    run = site.store.create(config, visitor="ann").id
    claim = site.store.leases.claim(run)
    with Crowd(LISTENERS, port, run) as crowd:
        site.until(lambda: all(crowd.seqs), 10)
        writer = threading.Thread(target=site.append_steps, args=(claim, 1, STEPS + 1))
        writer.start()
        times = [answered(port, "", CHEAP["training"])]
        times += [answered(port, f"/{run}") for _ in range(REQUESTS)]
        writer.join()
        site.store.leases.finish(claim, "done")
        site.until(lambda: not crowd.open, SILENCE_SECONDS)
    expected = [event.seq for event in site.store.events(run)]
    assert len(expected) == STEPS + 3
    assert all(seqs == expected for seqs in crowd.seqs)
    assert statistics.quantiles(times, n=20)[-1] < ANSWER_SECONDS


@sites()
def test_a_listener_that_asks_from_a_wrong_place_hears_all(site, shelf, config):
    run = site.store.create(config, visitor="ann").id
    claim = site.store.leases.claim(run)
    site.append_steps(claim, 1, 11)
    site.store.leases.finish(claim, "done")
    with application(site.settings) as app:
        firsts = {}
        for position in POSITIONS:
            header = {"Last-Event-ID": position}
            address = f"/api/v1/runs/{run}/events"
            with app.test_client().get(address, headers=header) as answer:
                seqs = [int(number) for number in NUMBER.findall(answer.data)]
            assert seqs == list(range(seqs[0], 14))
            firsts[position] = seqs[0]
        join(app.extensions["hub"])
    assert firsts == POSITIONS

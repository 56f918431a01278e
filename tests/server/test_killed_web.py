"""A web server that is killed while a run is paused, stepped, changed or continued."""

import contextlib
import http.client
import http.cookiejar
import json
import os
import signal
import threading
import time
import urllib.error
import urllib.request

import pytest

from dpsgd_explorer.experiments import kinds
from dpsgd_explorer.experiments.events import Event
from dpsgd_explorer.server import supervisor
from tests.runs.real_runs import CHEAP, UNREPEATED
from tests.runs.system_processes import wait_until
from tests.server.processes import children, descendants, worker_of

pytestmark = [
    pytest.mark.long("real runs"),
    pytest.mark.timeout(900),  # processes are started several times
]
BODY = CHEAP["training"] | {"steps": 400, "filter_epsilon": 30.0}
CHANGE = {"noise_multiplier": 1.5, "learning_rate": 0.5}
DIED = (urllib.error.URLError, http.client.HTTPException, ConnectionError)


class Visitor:
    """A browser of few words, and the hand that kills the server behind it."""

    def __init__(self, process, address):
        self.process, self.address = process, address
        cookies = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
        self.opener = urllib.request.build_opener(cookies)

    def ask(self, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"{self.address}/api/v1/runs{path}",
            data,
            {"Content-Type": "application/json"},
        )
        with self.opener.open(request, timeout=300) as answer:
            return json.load(answer)

    def web(self):
        """Return the process of the web server; those of its requests are below it."""
        (consumer,) = wait_until(lambda: worker_of(self.process))
        (arbiter,) = wait_until(lambda: children(self.process.pid) - {consumer})
        return arbiter

    def settle(self):
        """Wait until the supervisor takes a web server that dies for one that began."""
        web, seen = self.web(), time.monotonic()
        wait_until(lambda: time.monotonic() > seen + supervisor.START_SECONDS)
        assert self.web() == web

    def kill_web(self):
        web = self.web()
        for pid in (web, *descendants(web)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        wait_until(lambda: web not in children(self.process.pid))

    def order(self, run_id, name, body=None):
        """Ask for something, and kill the server as soon as it has answered."""
        self.ask(f"/{run_id}/{name}", body or {})
        self.kill_web()

    def until(self, run_id, state, step=None):
        """Return the run in this state; the server has then run for a while."""

        def reached():
            run = self.ask(f"/{run_id}")
            return run["state"] == state and step in (None, run["step"]) and run

        run = wait_until(reached)
        self.settle()
        return run

    def log(self, run_id):
        """Return what a run told, without states and times."""
        events, after = [], 0
        while page := self.ask(f"/{run_id}/events.json?after={after}&limit=5000")[
            "events"
        ]:
            events += page
            after = page[-1]["seq"]
        kept = ("state", *UNREPEATED)
        assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
        return [
            Event(event["kind"], event["data"]).timeless()
            for event in events
            if event["kind"] not in kept
        ]


def test_killed_after_each_request_it_loses_none(product):
    visitor = Visitor(*product)
    visitor.settle()
    run_id = visitor.ask("", BODY)["id"]
    wait_until(lambda: visitor.ask(f"/{run_id}")["step"] > 5)
    visitor.order(run_id, "pause")
    step = visitor.until(run_id, "paused")["step"]
    visitor.order(run_id, "step")
    visitor.until(run_id, "paused", step + 1)
    visitor.order(run_id, "change", CHANGE)
    visitor.until(run_id, "paused", step + 1)
    visitor.order(run_id, "resume")
    visitor.until(run_id, "done")
    changes = [(step + 1, CHANGE)]
    assert visitor.log(run_id) == told(changes)


def test_killed_before_it_answers_it_continues_a_run_once_or_not_at_all(product):
    visitor = Visitor(*product)
    run_id = visitor.ask("", BODY | {"steps": 20})["id"]
    visitor.until(run_id, "done")
    further = {"further_steps": 30}
    dying = threading.Thread(target=ask_in_vain, args=(visitor, run_id, further))
    dying.start()
    visitor.kill_web()
    dying.join()
    made = [run["id"] for run in visitor.ask("")["runs"] if run["parent"] == run_id]
    if not made:  # it died before it could
        made = [visitor.ask(f"/{run_id}/continue", further)["id"]]
    [child] = made
    ended = visitor.until(child, "done")
    assert visitor.log(child) == told([(20, further)], steps=20)
    assert (ended["step"], ended["summary"]["epsilon"]) == (50, 30.0)
    assert len(visitor.ask("")["runs"]) == 2


def ask_in_vain(visitor, run_id, body):
    """Ask for a continuation of a server that may die before it answers."""
    with contextlib.suppress(*DIED):
        visitor.ask(f"/{run_id}/continue", body)


def told(changes, **settings):
    """Return the log of a run that nobody disturbed, as JSON brings it."""
    experiment = kinds.start(kinds.parse(BODY | settings), changes=changes)
    whole = [event.timeless() for event in experiment.events()]
    return [(kind, json.loads(json.dumps(data))) for kind, data in whole]

"""No address has more than a quarter of a public site's queue, by whatever road."""

import dataclasses
import itertools
import sqlite3

import pytest

from dpsgd_explorer.runs.store.leases import Leases
from tests.web.conftest import SMALL, error_of

RUNS, GROUPS, CLASSES = "/api/v1/runs", "/api/v1/groups", "/api/v1/classes"
PLACES = 40
SHARE, RESERVED = PLACES // 4, PLACES // 4
ALL = ("DPSGD_QUOTA_QUEUED_IN_ALL", str(PLACES))
ATTACKER, NEWCOMER = "192.0.2.7", "198.51.100.7"
SWEEP = {
    "purpose": "sweep",
    "base": SMALL,
    "variations": [{"learning_rate": 1 + i / 16} for i in range(3)],
}
# An attack goes on until it is refused this often in a row.
REFUSALS = 3


@pytest.fixture
def site(make_app, settings):
    """A public site behind a proxy on the same machine."""
    operation = dataclasses.replace(
        settings.operation, trusted_proxies=("127.0.0.0/8", "::1/128")
    )
    return make_app(
        profile="public", is_behind_proxy=True, operation=operation, own_quotas=(ALL,)
    )


@pytest.fixture
def queued(tmp_path):
    """Count the queued runs in the file, past all of our own code."""

    def queued():
        with sqlite3.connect(tmp_path / "runs.sqlite3") as file:
            query = "SELECT count(*) FROM runs WHERE state = 'queued'"
            return file.execute(query).fetchone()[0]

    return queued


class Browser:
    """A client with a cookie of its own, from an address that the proxy names."""

    def __init__(self, site, address):
        self._client = site.test_client()
        self._headers = {"X-Forwarded-For": address} if address else {}

    def post(self, path, body=None):
        return self._client.post(path, json=body or {}, headers=self._headers)

    def launch(self, **settings):
        return self.post(RUNS, SMALL | settings)

    def join(self, made):
        code = made["links"]["student"].rstrip("/").rsplit("/", 1)[1]
        assert self.post(f"{CLASSES}/join", {"code": code}).status_code == 200
        return self


def flood(answers):
    """Launch until nothing more is taken; return the last refusal."""
    refusals = 0
    for answer in itertools.islice(answers, 3 * PLACES):
        assert answer.status_code in (201, 429), answer.text
        refusals = refusals + 1 if answer.status_code == 429 else 0
        if refusals == REFUSALS:
            return error_of(answer, 429)
    raise AssertionError("nothing was refused")


def singly(browsers):
    """Launch runs in groups of 20 that grow one by one, each of another browser."""
    for browser in browsers:
        for _ in range(20):
            answer = browser.launch(group="mine")
            yield answer
            if answer.status_code == 429:
                break


def addresses(kind):
    """Give an address per browser: always the same, or of one subscriber in IPv6."""
    if kind == "2001:db8:7::/48":
        return (f"2001:db8:7:{i:x}::9" for i in itertools.count())
    return itertools.repeat(kind)


@pytest.mark.parametrize("address", [ATTACKER, "2001:db8:7::/48", "", "unknown"])
def test_without_a_cookie_or_with_many(site, queued, address):
    """Also by a proxy that names no address, and by one subscriber's many networks."""
    browsers = (Browser(site, each) for each in addresses(address))
    said = flood(singly(browsers))["message"]
    assert queued() == SHARE
    assert f"already has {SHARE} runs queued or paused, the maximum. " in said
    assert Browser(site, NEWCOMER).launch().status_code == 201


def test_a_loopback_network_that_is_exempt_hides_no_client(make_app, settings, queued):
    """A proxy that forgets the header speaks for everybody."""
    operation = dataclasses.replace(
        settings.operation, trusted_proxies=("127.0.0.0/8",)
    )
    site = make_app(
        profile="public",
        is_behind_proxy=True,
        operation=operation,
        own_quotas=(ALL, ("DPSGD_QUOTA_EXEMPT_NETWORKS", "127.0.0.0/8")),
    )
    flood(singly(Browser(site, "") for _ in itertools.count()))
    assert queued() == SHARE


def test_by_groups(site, queued):
    groups = (Browser(site, ATTACKER).post(GROUPS, SWEEP) for _ in itertools.count())
    flood(groups)
    flood(singly(Browser(site, ATTACKER) for _ in itertools.count()))
    assert queued() == SHARE


def made_class(site, address):
    answer = Browser(site, address).post(CLASSES, {"name": "Mine"})
    assert answer.status_code == 201, answer.text
    return answer.json


def of_class(site, made, addresses):
    """Launch for a class, each time as another member."""
    for address in addresses:
        member = Browser(site, address).join(made)
        for _ in range(20):
            answer = member.launch(group="mine", class_id=made["id"])
            yield answer
            if answer.status_code == 429:
                break


def test_by_classes_made_without_a_name(site, queued):
    """The one address makes them, joins them, and launches for itself besides."""
    for _ in range(3):
        made = made_class(site, ATTACKER)
        flood(of_class(site, made, itertools.repeat(ATTACKER)))
    flood(singly(Browser(site, ATTACKER) for _ in itertools.count()))
    assert queued() == SHARE
    assert Browser(site, NEWCOMER).launch().status_code == 201


def test_by_members_of_its_classes_anywhere(site, queued):
    """A class has the share of where it was made, wherever its members are."""
    elsewhere = (f"203.0.{i}.7" for i in itertools.count())
    for _ in range(3):
        flood(of_class(site, made_class(site, ATTACKER), elsewhere))
    assert queued() == SHARE
    error_of(Browser(site, ATTACKER).launch(), 429, says="Your network 192.0.2.0/24")


def test_as_a_member_of_classes_of_others(site, queued):
    for i in range(4):
        made = made_class(site, f"203.0.{i}.7")
        flood(of_class(site, made, itertools.repeat(ATTACKER)))
    assert queued() == SHARE


def test_by_pausing_runs_that_return_to_the_queue_together(site, queued):
    """A paused run waits for its place as a queued one does."""
    store, ids, browsers = site.extensions["run_store"], [], {}
    refused = 0
    while refused < REFUSALS:
        browser = Browser(site, ATTACKER)
        answer = browser.launch()
        refused = refused + 1 if answer.status_code == 429 else 0
        if answer.status_code == 201:
            run_id = answer.json["id"]
            browsers[run_id] = browser
            ids.append(run_id)
            pause_without_process(store.leases, browser, run_id)
    for run_id in ids:
        assert browsers[run_id].post(f"{RUNS}/{run_id}/resume").status_code == 200
    assert queued() == SHARE


def pause_without_process(leases: Leases, browser, run_id):
    claim = leases.claim(run_id)
    assert browser.post(f"{RUNS}/{run_id}/pause").status_code == 200
    assert leases.pause(claim, 0)
    assert leases.leave(claim, 0)


def test_four_addresses_leave_places_for_others(site, queued):
    for i in range(4):
        address = f"203.0.{i}.7"
        flood(singly(Browser(site, address) for _ in itertools.count()))
    taken = PLACES - RESERVED + 1  # the fourth had none queued at its first launch
    assert queued() == taken
    newcomers = [Browser(site, f"198.51.{i}.7") for i in range(PLACES - taken)]
    assert {each.launch().status_code for each in newcomers} == {201}
    assert queued() == PLACES
    full = error_of(Browser(site, NEWCOMER).launch(), 429)
    assert full["message"].startswith("The queue of this site already has 40 runs")


def test_the_reserve_takes_one_run_of_each(site, queued):
    for i in range(4):
        flood(singly(Browser(site, f"203.0.{i}.7") for _ in itertools.count()))
    taken, newcomer = queued(), Browser(site, NEWCOMER)
    assert newcomer.launch().status_code == 201
    said = error_of(newcomer.launch(), 429)["message"]
    assert said.startswith("You already have runs in the queue, and the last 10 of")
    neighbour = error_of(Browser(site, NEWCOMER).launch(), 429)["message"]
    assert neighbour.startswith("Your network 198.51.100.0/24 already has runs")
    assert queued() == taken + 1

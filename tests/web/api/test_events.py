"""The stream of a run's log: order, resuming, heartbeats and the cap."""

import json
import threading

import pytest

from dpsgd_explorer.experiments.events import Event
from dpsgd_explorer.runs.feed import Hub
from dpsgd_explorer.web.http.stream_limit import SPARE_THREADS, STREAMS_A_VISITOR
from tests.web.conftest import SMALL, ended, error_of, recorded_events

RUNS = "/api/v1/runs"
LAST_SEQ = 2 + len(recorded_events()) + 1  # queued, running, …, done


def frames(response):
    """Return the server-sent events of a whole stream as (id, kind, data)."""
    blocks = response.text.split("\n\n")
    assert blocks[0] == "retry: 2000"
    parsed = []
    for block in blocks[1:-1]:
        fields = dict(line.split(": ", 1) for line in block.split("\n"))
        assert list(fields) == ["id", "event", "data"]
        parsed.append((int(fields["id"]), fields["event"], json.loads(fields["data"])))
    return parsed


def test_a_finished_run_is_streamed_whole_and_the_stream_ends(client, finished):
    response = client.get(f"{RUNS}/{finished}/events")
    assert response.mimetype == "text/event-stream"
    assert response.headers["Cache-Control"] == "no-cache"
    assert response.headers["X-Accel-Buffering"] == "no"
    events = frames(response)
    assert [seq for seq, _, _ in events] == list(range(1, LAST_SEQ + 1))
    told = [(kind, data) for _, kind, data in events[2:-1]]
    assert told == [(event.kind, event.data) for event in recorded_events()]
    assert events[-1][1:] == ("state", {"state": "done"})


def test_both_ways_tell_the_same(client, finished):
    streamed = frames(client.get(f"{RUNS}/{finished}/events"))
    polled = client.get(f"{RUNS}/{finished}/events.json").json
    assert streamed == [(e["seq"], e["kind"], e["data"]) for e in polled["events"]]
    assert (polled["state"], polled["last_seq"]) == ("done", LAST_SEQ)


@pytest.mark.parametrize(
    ("query", "header", "first"),
    [
        ("", "4", 5),
        ("?after=4", None, 5),
        ("?after=2", "4", 5),  # the browser asks again with what it has by now
        ("", "garbage", 1),
        ("", "-3", 1),
        ("", "", 1),
        ("", "3.5", 1),
        ("", "٣", 1),
        ("", "9" * 5000, 1),
        ("", str(LAST_SEQ + 1), 1),  # a place this log never had
        (f"?after={LAST_SEQ + 1}", None, 1),
        ("", "0", 1),
    ],
)
def test_a_stream_goes_on_behind_what_was_seen(client, finished, query, header, first):
    headers = (
        {} if header is None else {"Last-Event-ID": header.encode().decode("latin1")}
    )
    response = client.get(f"{RUNS}/{finished}/events{query}", headers=headers)
    assert [seq for seq, _, _ in frames(response)] == list(range(first, LAST_SEQ + 1))


def test_nothing_more_to_come_tells_the_browser_to_stop_asking(client, finished):
    headers = {"Last-Event-ID": str(LAST_SEQ)}
    response = client.get(f"{RUNS}/{finished}/events", headers=headers)
    assert (response.status_code, response.data) == (204, b"")


@pytest.mark.parametrize("after", ["x", "-1", "1e3", "9" * 40])
@pytest.mark.parametrize("route", ["events", "events.json"])
def test_a_bad_position_in_the_address_is_refused(client, finished, route, after):
    error_of(client.get(f"{RUNS}/{finished}/{route}?after={after}"), 422, "after")


def test_polling_reads_page_by_page(client, finished):
    seen, url = [], f"{RUNS}/{finished}/events.json?limit=4&after="
    while events := client.get(f"{url}{len(seen)}").json["events"]:
        assert len(events) <= 4
        seen += [event["seq"] for event in events]
    assert seen == list(range(1, LAST_SEQ + 1))


def test_entries_of_one_kind_are_read_alone(client, finished):
    every = client.get(f"{RUNS}/{finished}/events.json").json["events"]
    for kind in {event["kind"] for event in every} | {"nosuch"}:
        asked = client.get(f"{RUNS}/{finished}/events.json?kind={kind}").json
        assert asked["events"] == [e for e in every if e["kind"] == kind]
        assert asked["last_seq"] == LAST_SEQ


def test_a_running_run_is_streamed_as_it_goes(client, store, run_id):
    response = client.get(f"{RUNS}/{run_id}/events", buffered=False)
    stream = iter(response.response)
    assert next(stream) == b"retry: 2000\n\n"
    assert b'"queued"' in next(stream)
    claim = store.leases.claim(run_id)
    assert b'"running"' in next(stream)
    store.leases.append(claim, [Event("phase", {"step": 0})])
    assert next(stream).startswith(b"id: 3\nevent: phase\n")
    store.leases.finish(claim, "done")
    assert b'"done"' in next(stream)
    assert next(stream, None) is None
    response.close()


def test_a_quiet_stream_sends_heartbeats(app, client, store, run_id):
    app.extensions["hub"] = Hub(store, heartbeat_s=0.05)
    response = client.get(f"{RUNS}/{run_id}/events?after=1", buffered=False)
    stream = iter(response.response)
    assert [next(stream) for _ in range(3)][1:] == [b": heartbeat\n\n"] * 2
    response.close()


def test_past_the_cap_a_page_is_told_to_poll(make_app):
    app = make_app(web_threads=SPARE_THREADS + 2)
    client = app.test_client()
    run_id = client.post(RUNS, json=SMALL).json["id"]
    url = f"{RUNS}/{run_id}/events"
    open_streams = [app.test_client().get(url, buffered=False) for _ in range(2)]
    refused = client.get(url)
    error = error_of(refused, 503)
    assert (error["code"], error["retry_after"]) == ("too_many_listeners", 5)
    assert "events.json?after=" in error["message"]
    assert refused.headers["Retry-After"] == "5"
    assert client.get(f"{url}.json?after=0").status_code == 200
    open_streams.pop().close()  # not one frame was taken from it
    again = client.get(url, buffered=False)
    assert again.status_code == 200
    again.close()
    open_streams.pop().close()


def test_a_visitor_has_four_streams_and_then_polls(make_app):
    app = make_app()
    client, other_visitor = app.test_client(), app.test_client()
    url = f"{RUNS}/{client.post(RUNS, json=SMALL).json['id']}/events"
    other_visitor.post(RUNS, json=SMALL)
    mine = [client.get(url, buffered=False) for _ in range(STREAMS_A_VISITOR)]
    error = error_of(client.get(url), 503)
    assert (error["code"], error["retry_after"]) == ("too_many_listeners", 5)
    assert "events.json?after=" in error["message"]
    others = [other_visitor.get(url, buffered=False) for _ in range(STREAMS_A_VISITOR)]
    mine.pop().close()
    mine.append(client.get(url, buffered=False))
    assert {stream.status_code for stream in (*mine, *others)} == {200}
    for stream in (*mine, *others):
        stream.close()


@pytest.mark.parametrize("profile", ["local", "public"])
def test_those_without_a_cookie_count_by_address(make_app, profile):
    app = make_app(profile=profile)
    url = f"{RUNS}/{app.test_client().post(RUNS, json=SMALL).json['id']}/events"

    def listen(address):
        answer = app.test_client().get(
            url, buffered=False, environ_base={"REMOTE_ADDR": address}
        )
        streams.append(answer)
        return answer.status_code

    streams = []
    for _ in range(STREAMS_A_VISITOR):
        assert listen("192.0.2.1") == 200
    assert listen("192.0.2.1") == 503
    assert listen("192.0.2.2") == 200
    for stream in streams:
        stream.close()


def test_those_whom_nothing_tells_apart_have_half_of_the_streams(make_app):
    exempt = (("DPSGD_QUOTA_EXEMPT_NETWORKS", "192.0.2.0/24"),)
    app = make_app(own_quotas=exempt, web_threads=SPARE_THREADS + 10)
    named = app.test_client()
    url = f"{RUNS}/{named.post(RUNS, json=SMALL).json['id']}/events"
    anonymous = {"REMOTE_ADDR": "192.0.2.1"}
    streams = [
        app.test_client().get(url, buffered=False, environ_base=anonymous)
        for _ in range(6)
    ]
    assert [stream.status_code for stream in streams] == [200] * 5 + [503]
    streams.append(named.get(url, buffered=False))
    assert streams[-1].status_code == 200
    for stream in streams:
        stream.close()


def test_with_few_threads_everyone_polls(make_app):
    client = make_app(web_threads=SPARE_THREADS).test_client()
    run_id = client.post(RUNS, json=SMALL).json["id"]
    error_of(client.get(f"{RUNS}/{run_id}/events"), 503)


def test_a_refused_stream_holds_no_place(make_app):
    app = make_app(web_threads=SPARE_THREADS + 1)
    client = app.test_client()
    for _ in range(3):
        error_of(client.get(f"{RUNS}/nope/events"), 404)
        error_of(client.get(f"{RUNS}/nope/events?after=x"), 422)
    run_id = client.post(RUNS, json=SMALL).json["id"]
    response = client.get(f"{RUNS}/{run_id}/events", buffered=False)
    assert response.status_code == 200
    response.close()


def test_many_listeners_hear_the_same(app, client, store, run_id):
    heard = []

    def listen(number):
        address = {"REMOTE_ADDR": f"192.0.2.{number}"}
        asked = app.test_client().get(f"{RUNS}/{run_id}/events", environ_base=address)
        heard.append(asked.text)

    threads = [threading.Thread(target=listen, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    ended(store, run_id, recorded_events())
    for thread in threads:
        thread.join(30)
    assert len(heard) == 8
    assert set(heard) == {client.get(f"{RUNS}/{run_id}/events").text}

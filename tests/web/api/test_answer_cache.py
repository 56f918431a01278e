"""Pages that follow from their address are rendered once, for everybody."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from flask import Response, template_rendered

from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.web.api.answer_cache import (
    QUEUES,
    AnswerCache,
    Queue,
    cached_answers,
)
from dpsgd_explorer.web.http.errors import HttpError
from dpsgd_explorer.web.hub.chapters.table import CHAPTERS
from tests.web.conftest import SMALL

PAGES = [
    "/",
    "/learn/",
    "/learn/short/",
    "/labs/",
    "/labs/accountants/",
    "/labs/planner/",
    "/train/",
    *(f"/learn/{slug}/" for slug in CHAPTERS),
]


@pytest.fixture
def rendered(app):
    """The names of the templates rendered so far."""
    names = []

    def note(sender, template, context, **more):
        names.append(template.name)

    with template_rendered.connected_to(note, app):
        yield names


@pytest.mark.parametrize("address", PAGES)
def test_a_page_is_rendered_once_however_often_it_is_read(app, rendered, address):
    packed = {"Accept-Encoding": "gzip"}
    first = app.test_client().get(address).text
    once = len(rendered)
    assert app.test_client().get(address).text == first
    answer = app.test_client().get(address, headers=packed)
    assert len(rendered) == once
    assert answer.headers["Content-Encoding"] == "gzip"
    assert answer.headers["Vary"] == "Accept-Encoding"
    assert answer.mimetype == "text/html"
    app.test_client().get(f"{address}?steps=7")
    assert len(rendered) > once


def test_an_address_that_is_wrong_is_answered_as_before(client):
    assert client.get("/learn/nothing/").status_code == 404
    for _ in range(2):
        assert "must be" in client.get("/train/?steps=-1").text


def test_a_visitors_runs_are_on_their_own_page_alone(client, other_visitor):
    plain = client.get("/train/").text
    run_id = client.post("/api/v1/runs", json=SMALL).json["id"]
    assert f"/runs/{run_id}/" in client.get("/train/").text
    assert other_visitor.get("/train/").text == plain
    assert f"/runs/{run_id}/" in client.get("/train/").text


def test_what_is_asked_by_many_at_once_is_computed_once():
    cache, computed, start = AnswerCache(), [], threading.Barrier(8)

    def compute():
        computed.append(threading.current_thread())
        return b"answer"

    def ask():
        start.wait(30)
        assert cache.answer("question", "quick", compute) == b"answer"

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(computed) == 1


def test_the_least_recently_used_answer_is_dropped_first():
    cache, computed = AnswerCache(size=2), []

    def ask(question):
        return cache.answer(
            question, "quick", lambda: computed.append(question) or b"answer"
        )

    for question in "abacabc":
        ask(question)
    assert computed == ["a", "b", "c", "b", "c"]


def test_a_failure_is_not_cached_and_frees_its_queue():
    cache = AnswerCache()

    def fail():
        raise ConfigError("q", "no answer")

    with pytest.raises(ConfigError, match="no answer"):
        cache.answer("question", "quick", fail)
    assert not QUEUES["quick"].is_busy
    assert cache.answer("question", "quick", lambda: b"answer") == b"answer"


def test_a_cached_view_computes_each_question_once_and_in_its_queue():
    calls = []

    def view(query):
        calls.append(query)
        assert [name for name, queue in QUEUES.items() if queue.is_busy] == ["slow"]
        return Response(f"{query}")

    answer = cached_answers(view, "slow")
    with ThreadPoolExecutor(8) as clients:
        numbers = [*range(4)] * 4
        answers = list(clients.map(lambda number: answer(query=number), numbers))
    assert [reply.get_data(as_text=True) for reply in answers] == [*"0123"] * 4
    assert {reply.mimetype for reply in answers} == {"application/json"}
    assert sorted(calls) == [0, 1, 2, 3]


def test_a_full_queue_turns_others_down_and_then_takes_them_again():
    queue, first, end = Queue(2), threading.Event(), threading.Event()

    def compute():
        with queue.turn():
            first.set()
            assert end.wait(30)

    with ThreadPoolExecutor(2) as clients:
        waiting = [clients.submit(compute) for _ in range(2)]
        assert first.wait(30)
        while queue.length < 2:
            time.sleep(0.01)
        with pytest.raises(HttpError) as caught, queue.turn():
            pass
        assert (caught.value.status, caught.value.code) == (503, "busy")
        assert caught.value.retry_after > 0
        end.set()
        for answer in waiting:
            answer.result(30)
    with queue.turn():
        assert queue.is_busy


def test_a_slow_plan_waits_in_the_queue_and_a_quick_one_does_not(client, monkeypatch):
    monkeypatch.setitem(QUEUES, "slow", Queue(1))
    slow = "/api/v1/privacy/plan?sampling=random_allocation&expected_batch_size=10000"
    with QUEUES["slow"].turn():
        refused = client.get(slow)
        assert client.get(f"{slow}&private=false").status_code == 200
        assert client.get("/api/v1/privacy/plan").status_code == 200
    assert refused.status_code == 503
    assert refused.json["error"]["code"] == "busy"
    assert int(refused.headers["Retry-After"]) > 0
    assert client.get(slow).status_code == 200


@pytest.mark.parametrize("has_runs", [False, True])
def test_the_trainer_waits_for_a_slow_plan_in_its_queue(client, has_runs, monkeypatch):
    if has_runs:
        client.post("/api/v1/runs", json=SMALL)
    monkeypatch.setitem(QUEUES, "slow", Queue(1))
    slow = "/train/?sampling=random_allocation&expected_batch_size=10000"
    with QUEUES["slow"].turn():
        refused = client.get(slow)
        assert client.get("/train/?expected_batch_size=10000").status_code == 200
    assert refused.status_code == 503
    assert "Try again later" in refused.text
    assert client.get(slow).status_code == 200

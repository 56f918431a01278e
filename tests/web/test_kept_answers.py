"""Answers that follow from the question alone are computed once, one at a time."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from flask import Flask, Response
from pydantic import BaseModel, ConfigDict

from dpsgd_explorer.web.api.answer_cache import ANSWERS, LANES
from dpsgd_explorer.web.api.operation import Endpoint, Operation


class Question(BaseModel):
    model_config = ConfigDict(frozen=True)

    number: int


class Counter:
    """A view that takes a while and counts how many are in it."""

    def __init__(self):
        self.calls, self.inside, self.most = [], 0, 0

    def __call__(self, query):
        self.inside += 1
        self.most = max(self.most, self.inside)
        self.calls.append(query.number)
        time.sleep(0.01)
        self.inside -= 1
        if query.number < 0:
            raise ValueError("number must be at least 0")
        return Response(f"{query.number}")


@pytest.fixture
def counter():
    return Counter()


@pytest.fixture
def ask(counter):
    app = Flask(__name__)
    about = Operation(
        method="GET", path="/", name="n", summary="", query=Question, lane="slow"
    )
    endpoint = Endpoint(counter, about)

    def ask(number):
        with app.test_request_context(f"/?number={number}"):
            return endpoint().get_data(as_text=True)

    return ask


def test_whoever_asks_the_same_meanwhile_gets_the_one_answer(ask, counter):
    with ThreadPoolExecutor(8) as clients:
        assert set(clients.map(ask, [7] * 16)) == {"7"}
    assert counter.calls == [7]


def test_different_questions_of_a_lane_are_answered_in_turn(ask, counter):
    with ThreadPoolExecutor(8) as clients:
        assert list(clients.map(ask, range(8))) == [str(n) for n in range(8)]
    assert counter.most == 1


def test_only_the_last_answers_are_kept(ask, counter):
    for number in range(ANSWERS + 1):
        ask(number)
    ask(ANSWERS)
    ask(0)
    assert counter.calls == [*range(ANSWERS + 1), 0]


def test_a_question_that_fails_is_not_kept_and_frees_its_lane(ask, counter):
    for _ in range(2):
        with pytest.raises(ValueError, match="at least 0"):
            ask(-1)
    assert counter.calls == [-1, -1]
    assert not any(lane.locked() for lane in LANES.values())

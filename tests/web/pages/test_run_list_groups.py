"""The runs of a group are one row of the list that unfolds."""

import re

import pytest

from tests.web.conftest import SMALL, ended, recorded_events
from tests.web.pages.test_runs import launch

RATES = [{"learning_rate": rate} for rate in (1, 2, 4)]


@pytest.fixture
def sweep(client):
    body = {"purpose": "sweep", "base": SMALL, "variations": RATES}
    return client.post("/api/v1/groups", json=body).json


def words(text):
    return " ".join(re.sub(r"<[^>]+>", " ", text).split())


def head_of(page):
    """Return the texts of the cells of the only group's row."""
    [row] = re.findall(r'<tr class="group-row">(.*?)</tr>', page, re.DOTALL)
    return [words(cell) for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.S)]


def members(page):
    return re.findall(r'<tr class="member" data-run="([^"]+)"', page)


def test_a_group_is_one_row_with_its_runs_below(client, sweep):
    alone = launch(client, seed=9)
    page = client.get("/runs/").text
    assert sorted(members(page)) == sorted(run["id"] for run in sweep["runs"])
    head = head_of(page)
    assert head[1] == "Sweep, 3 runs Adult income"
    assert head[3:7] == ["–", "–", "–", "0 of 3 ended"]
    assert f'href="{sweep["links"]["page"]}"' in page
    assert f'<tr data-run="{alone}"' in page
    assert "4 of 4 runs" in page  # the caption counts runs


def test_its_row_says_what_its_runs_came_to(client, store, sweep):
    ended(store, sweep["runs"][0]["id"], recorded_events())
    assert head_of(client.get("/runs/").text)[3:7] == [
        "–",  # the others have spent nothing that is known
        "84.0 %",
        "2.5",
        "1 of 3 ended",
    ]
    for run in sweep["runs"][1:]:
        ended(store, run["id"], recorded_events())
    head = head_of(client.get("/runs/").text)
    assert head[3:7] == ["1.00 each", "84.0 %", "7.5", "3 of 3 ended"]


def test_what_is_asked_for_of_a_group_is_folded_and_one_run_is_not(client, sweep):
    assert len(members(client.get("/runs/?q=adult&sort=name").text)) == 3
    page = client.get("/runs/?q=learning+rate+η+2").text
    assert (members(page), "group-row" in page) == ([], False)
    assert page.count("data-run=") == 1


def test_a_name_that_visitors_gave_several_runs_folds_nothing(client):
    for seed in (1, 2):
        launch(client, seed=seed, group="mine")
    page = client.get("/runs/").text
    assert ("group-row" in page, page.count("data-run=")) == (False, 2)


def test_a_deleted_run_leaves_its_group(client, sweep):
    for run in sweep["runs"][:2]:
        client.delete(run["links"]["self"])
    page = client.get("/runs/").text
    assert ("group-row" in page, page.count("data-run=")) == (False, 1)

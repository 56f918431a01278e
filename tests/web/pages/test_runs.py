"""The list of runs and the page of one, as the server sends them."""

import json
import re

import pytest

from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.web.pages.runs import EXPORTS
from dpsgd_explorer.web.questions.plan_preview import plan_of
from tests.web.conftest import SMALL


def rows_of(page):
    """Return the rows of the table, each as the text of its cells."""
    bodies = re.findall(r"<tbody>(.*?)</tbody>", page, re.DOTALL)
    rows = re.findall(r"<tr[^>]*>(.*?)</tr>", "".join(bodies), re.DOTALL)
    return [
        [
            " ".join(re.sub(r"<[^>]+>", " ", cell).split())
            for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL)
        ]
        for row in rows
    ]


def launch(client, **changes):
    return client.post("/api/v1/runs", json=SMALL | changes).json["id"]


def test_without_a_run_the_list_says_what_will_be_there(client):
    page = client.get("/runs/").text
    assert "None yet" in page
    assert not rows_of(page)


def test_the_list_shows_what_each_run_spent_and_reached(client, finished):
    [row] = rows_of(client.get("/runs/").text)
    assert row[0].startswith("Adult income, ε = 1")
    assert row[1:5] == ["first run", "1.00", "84.0 %", "Finished"]


def test_the_newest_stands_first_with_what_differs_from_the_one_before(client):
    launch(client)
    launch(client, max_grad_norm=0.5, seed=9)
    launch(client, max_grad_norm=0.5, seed=9)
    newest, middle, oldest = rows_of(client.get("/runs/").text)
    assert newest[1] == "same settings"
    assert middle[1] == "clipping bound C 0.1 → 0.5; seed 7 → 9"
    assert oldest[1] == "first run"


def test_many_differences_are_counted_beyond_the_third(client):
    launch(client)
    launch(client, seed=1, momentum=0.5, learning_rate=1, steps=5, evaluations=3)
    assert rows_of(client.get("/runs/").text)[0][1].endswith("; and 2 more")


def test_a_setting_that_was_not_set_before_is_said_so(client):
    launch(client)
    other = {name: SMALL[name] for name in SMALL if name != "target_epsilon"}
    client.post("/api/v1/runs", json=other | {"noise_multiplier": 2.0})
    changed = rows_of(client.get("/runs/").text)[0][1]
    assert changed == "target ε 1 → not set; noise multiplier σ not set → 2"


def test_another_visitor_sees_none_of_it_in_the_list(client, other_visitor, finished):
    assert finished not in other_visitor.get("/runs/").text


def test_the_trainer_gets_the_latest_rows_alone(client, finished):
    page = client.get("/runs/latest/").text
    assert "<html" not in page
    assert len(rows_of(page)) == 1


def test_a_run_can_be_deleted_from_the_list_after_a_second_word(client, finished):
    page = client.get("/runs/").text
    confirm = re.search(r'<details class="confirm">.*?</details>', page, re.DOTALL)[0]
    address = re.search(r'data-delete="([^"]+)"', confirm)[1]
    assert client.delete(address).status_code == 204
    assert not rows_of(client.get("/runs/").text)


def test_a_run_that_can_go_on_is_marked_for_the_script(client, finished):
    assert "data-active" not in client.get("/runs/").text
    launch(client)
    assert client.get("/runs/").text.count("data-active") == 1


@pytest.fixture
def page(client, finished):
    return client.get(f"/runs/{finished}/").text


def test_the_page_of_a_run_says_what_it_spent_with_its_terms(page):
    text = " ".join(re.sub(r"<[^>]+>", " ", page).split())
    assert "ε = 1.00" in text
    assert "at δ = 1e-5, add or remove one record, Poisson sampling" in text


def test_it_lists_every_setting_that_counts(page):
    terms = re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", page)
    shown = {re.sub(r"<[^>]+>", "", term).strip(): value for term, value in terms}
    assert shown["Expected batch size qN"] == "4096"
    assert shown["Train with privacy"] == "on"
    assert shown["Optimizer"] == "SGD"
    assert "Noise multiplier σ" not in shown


def test_its_settings_can_be_trained_again(client, page):
    address = re.search(r'href="(/train/\?[^"]+)"', page)[1].replace("&amp;", "&")
    again = client.get(address).text
    data = json.loads(re.search(r'id="page-data">(.*?)</script>', again, re.DOTALL)[1])
    assert data["config"] == TrainingConfig.parse(SMALL).model_dump(mode="json")


def test_its_script_gets_the_plan_and_where_the_log_is(client, page, finished):
    data = json.loads(re.search(r'id="page-data">(.*?)</script>', page, re.DOTALL)[1])
    assert data["plan"] == plan_of(TrainingConfig.parse(SMALL))
    log = client.get(data["run"]["links"]["log"])
    assert log.json["last_seq"] == data["run"]["last_seq"]


def test_each_export_it_offers_is_there(client, page):
    addresses = re.findall(r'href="([^"]+export\.\w+)"', page)
    assert len(addresses) == len(EXPORTS)
    for address in addresses:
        assert client.get(address).status_code == 200


def test_whoever_has_the_link_may_read_but_not_stop_or_delete(client, other_visitor):
    address = f"/runs/{launch(client)}/"
    mine, theirs = client.get(address).text, other_visitor.get(address).text
    assert "data-stop" in mine
    assert "data-delete" in mine
    assert "data-stop" not in theirs
    assert "data-delete" not in theirs


def test_a_name_cannot_become_markup(client):
    run_id = launch(client, name="<script>alert(1)</script>")
    for address in ("/runs/", f"/runs/{run_id}/"):
        assert "<script>alert" not in client.get(address).text


def test_an_unknown_run_is_a_page_not_found(client):
    answer = client.get("/runs/nothing/", headers={"Accept": "text/html"})
    assert answer.status_code == 404
    assert answer.mimetype == "text/html"


def test_a_run_without_noise_says_that_there_is_no_guarantee(client, store):
    run_id = launch(client, private=False)
    text = client.get(f"/runs/{run_id}/").text
    assert "without privacy" in text
    assert "not private" in text

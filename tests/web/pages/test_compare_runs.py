"""Runs side by side, and the front of all, as the server sends them."""

import html
import json
import re

import pytest

from dpsgd_explorer.accounting import Odometer
from dpsgd_explorer.accounting.rounding import round_up
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.web.http.assets import FRONT_DIR
from dpsgd_explorer.web.questions.looked_at import COVERED
from tests.stored_runs import ADULT, store_run
from tests.web.conftest import SMALL


@pytest.fixture
def stored(client, store):
    """Store a run of ``client``."""
    mine = client.post("/api/v1/runs", json=SMALL).json["id"]
    visitor = store.get(mine).visitor
    client.delete(f"/api/v1/runs/{mine}")
    return lambda **run: store_run(store, visitor, **run)


def words(page):
    """Return the text of a page, in one line."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())


def table_of(page):
    """Return the first table of a page: the texts of each row's cells."""
    table = re.search(r"<table.*?</table>", page, re.DOTALL)[0]
    return [
        [words(cell) for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.S)]
        for row in re.findall(r"<tr[^>]*>(.*?)</tr>", table, re.DOTALL)
    ]


def compare(client, *ids):
    return client.get(f"/runs/compare?ids={','.join(ids)}")


def test_the_table_holds_only_what_differs_then_what_came_out(
    client, other_visitor, stored
):
    ids = [stored(), stored(max_grad_norm=1.0, seed=9)]
    for visitor in (client, other_visitor):  # a link works for a stranger
        rows = table_of(compare(visitor, *ids).text)
        assert rows[0] == ["Setting", "A C 0.5 · seed 7", "B C 1 · seed 9"]
        assert rows[1:3] == [["Clipping bound C", "0.5", "1"], ["Seed", "7", "9"]]
        assert rows[3] == ["Results"]
        assert rows[4] == ["ε spent", "1.00", "1.00"]
        assert rows[5][0] == "Test accuracy"
        assert rows[6] == ["Seconds", "2.0", "2.0"]
    page = compare(client, *ids).text
    assert re.search(r"The other \d\d settings are equal", page)
    data = json.loads(re.search(r'id="page-data">(.*?)</script>', page, re.DOTALL)[1])
    assert [run["key"] for run in data["runs"]] == ["A", "B"]
    for run in data["runs"]:
        assert client.get(run["log"]).status_code == 200


def test_what_has_no_effect_on_a_run_is_no_difference(client, stored):
    rows = table_of(compare(client, stored(), stored(private=False)).text)
    settings = [row[0] for row in rows[1 : rows.index(["Results"])]]
    assert settings == ["Train with privacy"]


def test_both_ways_to_name_runs_are_one(client, stored):
    ids = [stored(), stored(seed=9)]
    once = compare(client, *ids).text
    assert client.get(f"/runs/compare?ids={ids[0]}&ids={ids[1]}").text == once
    assert compare(client, ids[0], *ids, "", ids[1]).text == once
    assert client.get(f"/runs/compare/?ids={ids[0]}").status_code == 200


def test_what_cannot_be_compared_is_named_and_the_rest_is_shown(client, stored):
    engines = client.post("/api/v1/runs", json={"kind": "engines"}).json["id"]
    mine, gone = stored(), stored()
    client.delete(f"/api/v1/runs/{gone}")
    page = compare(client, "<b>x", mine, engines, gone)
    assert page.status_code == 200
    assert "<b>x" not in page.text
    text = words(page.text)
    assert f"Run “{gone}” does not exist on this site" in text
    assert "is not a training" in text
    assert "A same settings" not in text
    assert compare(client, engines).status_code == 404
    assert "Choose up to 8 trainings" in words(client.get("/runs/compare").text)


def test_nine_runs_are_too_many(client):
    wants = {"Accept": "text/html"}
    answer = client.get("/runs/compare?ids=1,2,3,4,5,6,7,8,9", headers=wants)
    assert answer.status_code == 422
    assert "at most 8 runs, got 9" in words(answer.text)


def test_luck_is_what_seeds_alone_do(client, stored):
    seeds = [stored(seed=seed) for seed in (1, 2, 3)]
    bold = stored(learning_rate=1.0)
    text = words(compare(client, *seeds, bold).text)
    assert "A, B and C differ in the seed alone and end between 84" in text
    assert re.search(
        r"D is [\d.]+ points below their mean; that is more than luck", text
    )
    alone = words(compare(client, seeds[0], bold).text)
    assert "How much is chance" not in alone


MNIST = {"dataset": "mnist", "model": "logistic"}


def heading(page):
    return words(re.search(r"<h2[^>]*data-heading>(.*?)</h2>", page, re.DOTALL)[1])


def test_accuracies_of_two_data_sets_are_not_ranked(client, stored):
    digits = stored(**MNIST)
    people = [stored(), stored(learning_rate=1.0)]
    said = heading(compare(client, digits, people[0]).text)
    assert said == "2 data sets: not comparable"
    said = heading(compare(client, digits, *people).text)
    assert re.fullmatch(
        r"2 data sets: not comparable\. Adult income: B ends highest, at [\d.]+ %: "
        r"[\d.]+ points above C",
        said,
    )
    assert heading(compare(client, *people).text).startswith("A ends highest")


def test_accuracies_that_are_printed_alike_are_not_ranked(client, stored):
    runs = [stored(noise_multiplier=noise) for noise in (1.0, 1.0001)]
    assert re.fullmatch(r"All end at [\d.]+ %", heading(compare(client, *runs).text))


def test_luck_of_seeds_is_compared_within_a_data_set(client, stored):
    seeds = [stored(seed=seed) for seed in (1, 2, 3)]
    text = words(compare(client, *seeds, stored(**MNIST)).text)
    assert "A, B and C differ in the seed alone" in text
    assert "their mean" not in text


def test_a_run_that_was_stopped_or_changed_says_so_in_its_chip(client, stored):
    whole = [stored(), stored()]
    stopped = stored(until=12, state="cancelled")
    changed = stored(looking=[(20, {"learning_rate": 4.0})])
    text = words(compare(client, *whole, stopped, changed).text)
    assert "C stopped at 12" in text
    assert "D η 10 → 4" in text
    assert "C most common settings" not in text


def test_a_run_that_goes_on_has_its_place(client, stored):
    running = stored(until=12, state="running")
    ended = stored(seed=9)
    rows = table_of(compare(client, running, ended).text)
    out = {row[0]: row[1] for row in rows if len(row) == 3}
    assert (out["Test accuracy"], out["Steps taken"]) == ("–", "12")
    assert out["State"] == "Training"
    assert "2 runs side by side" in compare(client, running, ended).text


@pytest.fixture
def queue(client):
    """Queue a run of ``client``; no worker takes it up."""
    return lambda **of: client.post("/api/v1/runs", json={**SMALL, **of}).json["id"]


def test_of_runs_that_wait_nothing_was_released(client, queue):
    ids = [queue(seed=1), queue(seed=2), queue(private=False, target_epsilon=None)]
    for page in (compare(client, *ids), client.get("/runs/pareto")):
        text = words(page.text)
        assert "Nothing was released yet" in text
        assert "None of them has taken a step" in text
        assert "no noise" not in text
        assert "were looked at" not in text


def test_the_script_has_the_ends_of_plans_until_a_run_ends(client, stored, queue):
    ids = [
        queue(**ADULT),
        queue(**{**ADULT, "target_epsilon": None, "noise_multiplier": 2.0}),
        queue(private=False, target_epsilon=None),
        stored(),
    ]
    page = compare(client, *ids).text
    data = json.loads(re.search(r'id="page-data">(.*?)</script>', page, re.DOTALL)[1])
    noise = {**ADULT, "target_epsilon": None, "noise_multiplier": 2.0}
    planned = TrainingConfig.parse(noise).plan.epsilon()
    assert [run["budget"] for run in data["runs"]] == [1.0, planned, None, None]
    assert [run["begun"] for run in data["runs"]] == [False, False, False, True]
    assert data["runs"][0]["planned"] == 40


def test_a_run_that_waits_beside_one_without_noise_is_named(client, stored, queue):
    ids = [stored(private=False), queue(**ADULT), queue(**ADULT)]
    text = words(compare(client, *ids).text)
    assert "1 run adds no noise: no ε covers what it reveals about Adult income" in text
    assert "2 runs have not taken a step, so they have released nothing yet" in text
    assert "None of them adds noise" not in text


def test_one_run_was_not_picked_from_several(client, stored):
    stored()
    text = words(client.get("/runs/pareto").text)
    assert "One run on Adult income It spent ε = 1.00 on Adult income." in text
    for several in ("All 1", "all of them", "Together", "composition of"):
        assert several not in text


def test_a_run_that_was_changed_while_it_trained_is_marked(client, stored):
    changed, plain = stored(looking=8), stored(seed=9)
    mark = "changed in mid-run, chosen while looking"
    for path in (f"/runs/compare?ids={changed},{plain}", "/runs/pareto", "/runs/"):
        text = words(client.get(path).text)
        assert text.count(mark) == 1, path
        assert COVERED in text, path
    for path in ("/runs/compare", "/runs/pareto"):
        text = words(client.get(f"{path}?ids={changed},{plain}").text)
        assert "The settings of 1 run were changed in mid-run" in text
        assert "differ in the seed alone" not in text
    client.delete(f"/api/v1/runs/{changed}")
    for path in (f"/runs/compare?ids={plain}", "/runs/pareto", "/runs/"):
        text = words(client.get(path).text)
        assert "while looking" not in text, path


def test_the_table_holds_what_was_changed_in_mid_run(client, stored):
    changed, again, plain = stored(looking=8), stored(looking=8, seed=8), stored(seed=9)
    rows = {row[0]: row[1:] for row in table_of(compare(client, changed, plain).text)}
    assert rows["Chosen while looking"] == ["from step 9: η 10 → 20", "nothing"]
    text = words(compare(client, changed, again).text)
    before, _, after = text.partition("settings are equal")
    assert "Chosen while looking" not in before
    assert "Chosen while looking from step 9: η 10 → 20" in after
    assert "Chosen while looking" not in words(compare(client, plain).text)


def test_a_run_that_was_only_continued_was_not_changed(client, stored):
    rate, further = (8, {"learning_rate": 20.0}), (30, {"further_steps": 5})
    plain = stored()
    for looking, mark in (
        ([further], "Finished continued, chosen while looking"),
        ([rate, further], "changed in mid-run and continued, chosen while looking"),
    ):
        run_id = stored(looking=looking, filter_epsilon=3.0, steps=30)
        for path in ("compare", "pareto"):
            text = words(client.get(f"/runs/{path}?ids={run_id},{plain}").text)
            assert "1 run was continued by choice." in text
            assert ("settings of 1 run were changed" in text) == (rate in looking)
            assert mark.removeprefix("Finished " * (path == "pareto")) in text
    assert words(client.get("/runs/").text).count("continued, chosen while") == 2
    text = words(client.get(f"/runs/pareto?ids={run_id}").text)
    assert "Its settings were changed in mid-run. It was continued by choice." in text


def test_scripts_and_templates_say_in_one_way_what_a_choice_costs():
    assert f'"{COVERED}"' in (
        FRONT_DIR / "static/js/runs/actions/mid_run.js"
    ).read_text("utf-8")


def test_the_front_composes_all_that_was_looked_at(client, other_visitor, stored):
    noises = (1.0, 2.0, 4.0)
    ids = [stored(noise_multiplier=noise) for noise in noises]
    ids.append(stored(noise_multiplier=1.0, until=15, state="cancelled"))
    ids.append(stored(noise_multiplier=1.0, until=3, state="failed"))
    ids.append(stored(private=False))
    odometer = Odometer()
    rate = ADULT["expected_batch_size"] / TrainingConfig.parse(ADULT).sample_size
    for noise, steps in zip((*noises, 1.0, 1.0), (40, 40, 40, 15, 3), strict=True):
        odometer.add_dp_sgd(rate, noise, steps)
    spent = round_up(odometer.epsilon(1e-5), 2)
    address = f"/runs/pareto?ids={','.join(ids)}"
    for page in (client.get("/runs/pareto"), other_visitor.get(address)):
        text = words(page.text)
        assert "All 6 were looked at" in text
        assert f"Together they spent ε = {spent} on Adult income" in text
        assert "at δ = 1e-5, add or remove one record" in text
        assert "Not covered: 1 run without noise" in text
        assert "3 of 5 runs are on the front" in text
        assert "1 without noise, so without an ε" in text


def test_a_dot_leads_to_its_run_and_one_that_was_stopped_is_on_no_front(client, stored):
    best = stored(noise_multiplier=1.0)
    stopped = stored(noise_multiplier=0.5, until=39, state="cancelled")
    beaten = stored(noise_multiplier=0.9, learning_rate=1.0)
    page = client.get("/runs/pareto").text
    wide = re.search(r"data-dots>(.*?)</svg>", page, re.DOTALL)[1]
    found = {
        re.search(r"/runs/([^/]+)/#replay", link)[1]: re.search(
            r'class="run-dot ([^"]+)"', link
        )[1]
        for link in re.findall(r"<a .*?</a>", wide)
    }
    assert found == {best: "on-front", stopped: "ended", beaten: "beaten"}


def test_the_front_takes_what_the_list_takes(client, stored):
    stored(noise_multiplier=1.0)
    stored(noise_multiplier=2.0, seed=9)
    assert "Both were looked at" in client.get("/runs/pareto").text
    page = words(client.get("/runs/pareto?q=seed+9").text)
    assert "1 of 1 runs is on the front" in page
    assert "You have no training" in client.get("/runs/pareto?q=nothing").text


def test_a_visitor_without_runs_is_led_on(reading):
    assert "You have no training" in reading.get("/runs/pareto").text
    assert reading.get("/runs/pareto?ids=nothing").status_code == 404


def test_a_name_cannot_become_markup_in_comparison_or_front(client, stored):
    run_id = stored(name="<script>alert(1)</script>")
    other = stored(seed=9)
    for page in (compare(client, run_id, other), client.get("/runs/pareto")):
        assert "<script>alert" not in page.text

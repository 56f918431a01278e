"""The lab of attacks on membership and its runs: launched, shown, taken away."""

import csv
import html
import io
import re

import pytest

from dpsgd_explorer.experiments.attack_config import POOL, AttackConfig
from dpsgd_explorer.experiments.kinds import parse, start
from dpsgd_explorer.web.labs.attack.page import recorded_attack, recorded_results
from dpsgd_explorer.web.labs.attack.record_figure import (
    pairs_told_apart,
    record_picture,
)
from dpsgd_explorer.web.labs.attack.roc_figure import ATTACKS, ceiling_at, roc_picture
from dpsgd_explorer.web.labs.attack.view import AttackView
from tests.web.api.test_exports import download, run_python
from tests.web.conftest import ended, error_of
from tests.web.pages.test_runs import rows_of
from tests.web.reading import page_data

RUNS = "/api/v1/runs"
LAB = "/labs/attack/"
ASKED = {"kind": "attack", "dataset": "adult", "shadows": 4, "steps": 6}


@pytest.fixture(scope="module")
def attacked():
    """The events of an attack that was really carried out, on short trainings."""
    return list(start(parse(ASKED)).events())


@pytest.fixture
def attack_run(client, store, attacked):
    """An attack of ``client`` that has ended."""
    run_id = client.post(RUNS, json=ASKED).json["id"]
    return ended(store, run_id, attacked)


def recorded_data(kind):
    _, events = recorded_attack()
    return [event["data"] for event in events if event["kind"] == kind]


def shown(text):
    """Return each chart's heading by the chart's id."""
    found = re.findall(
        r'<figure class="chart [^"]*" id="(\w+)">.*?<h3>(.*?)</h3>', text, re.DOTALL
    )
    return {name: html.unescape(heading) for name, heading in found}


def test_the_lab_shows_a_recorded_attack_of_its_defaults_at_once(reading):
    config, _ = recorded_attack()
    assert config == AttackConfig()
    text = reading.get(LAB).text
    charts = shown(text)
    assert charts.keys() == {"roc", "record"}
    assert "this run allows any attack 10 %, ε alone (ε = 4.00) 55 %" in charts["roc"]
    assert ">recorded<" in text
    assert text.count('class="badge not-private"') >= 3
    assert text.count('<table class="data">') == 2
    [picture] = re.findall(r'<svg class="grey-picture".*?</svg>', text)
    assert 'aria-label="Record 0 (a 5, planted as 0)"' in picture
    assert "Record 0 (a 5, planted as 0) was in: its score" in text
    scored = text[text.index("scored-record") :]
    row = re.search(r"LiRA\)</th>(.*?)</tr>", scored)[1]
    assert re.findall(r">([^<]+)</td>", row) == ["17.12", "0 %", "-0.04", "61 %"]


def test_the_recorded_attack_works_without_privacy_and_stays_below_the_ceiling():
    [phase] = recorded_data("phase")
    found = {(one["target"], one["attack"]): one for one in recorded_data("evaluation")}
    ordinary = found["ordinary", "likelihood_ratio"]
    lowest = min(
        point["low"]
        for point in ordinary["points"]
        if point["false_positive_rate"] >= 0.01
    )
    assert lowest > ceiling_at(phase, 0.01)
    assert ordinary["area"] > 0.75
    for attack in ATTACKS:
        assert found["private", attack]["beyond"] == 0
    [end] = recorded_data("end")
    sides = end["record"]["ordinary"]
    every = len(sides["joined"]) * len(sides["left_out"])
    assert pairs_told_apart(sides) == f"{every} of {every}"


def test_pairs_are_counted_not_given_as_a_share_of_few():
    few = {"joined": [1.0, 3.0], "left_out": [2.0, 1.0]}
    assert pairs_told_apart(few) == "2.5 of 4"


def test_only_the_recorded_attack_is_called_recorded(client):
    def read(kind):
        return recorded_data(kind)

    page = client.get("/labs/attack/?dataset=adult&target_epsilon=1").text
    shown = re.search(r"data-recorded>(.*?)</span>\s*<a", page, re.DOTALL)[1]
    assert "Attack, MNIST" in shown
    assert "ε = 4, 16 shadow models" in shown
    own = AttackView().standing(AttackConfig(), read)["results"]
    assert [own.roc.kind, own.record.kind] == ["measured", "measured"]
    assert recorded_results().roc.kind == "recorded"


def test_points_above_the_ceiling_are_said_to_be_chance_or_not():
    [phase] = recorded_data("phase")
    evaluations = recorded_data("evaluation")

    def note(above, beyond):
        changed = [
            one | {"above": above, "beyond": beyond}
            if one["attack"] == "loss" and one["target"] == "private"
            else one | {"above": None if one["above"] is None else 0}
            for one in evaluations
        ]
        return roc_picture(phase, changed, 4.0, 1e-4).note

    assert note(0, 0).startswith("No measured point of the private model")
    assert "1 measured point of the private model is above" in note(1, 0)
    assert "every 95 % interval reaches down to it" in note(7, 0)
    assert "2 with the whole 95 % interval" in note(7, 2)


def test_the_attacker_is_told_right_from_wrong_about_the_record():
    [phase], [end] = recorded_data("phase"), recorded_data("end")
    found = recorded_data("evaluation")
    joined = phase["record"]["joined"]
    notes = [
        record_picture(
            phase | {"record": phase["record"] | {"joined": truth}}, found, end
        ).note
        for truth in (joined, not joined)
    ]
    guess = "the ordinary model, the attacker guesses that the record was in"
    assert f"{guess}: right" in notes[0]
    assert f"{guess}: wrong" in notes[1]


def test_a_ceiling_between_two_rates_is_that_of_the_larger():
    rates = [0.001, 0.01, 0.1, 1.0]
    phase = {
        "ceiling": {
            "false_positive_rates": rates,
            "true_positive_rates": [0.1, 0.2, 0.5, 1.0],
        }
    }
    at = [ceiling_at(phase, rate) for rate in (0.0, 0.01, 0.011, 0.1, 1.0)]
    assert at == [0.1, 0.2, 0.5, 0.5, 1.0]


def test_settings_of_the_address_are_in_their_boxes_also_wrong_ones(reading):
    page = reading.get(f"{LAB}?dataset=adult&canary_label=7").text
    assert '<option value="adult" selected>' in page
    assert re.search(r'name="canary_label"[^>]* value="7"', page)
    assert "reads 2 labels and no other, got 7" in html.unescape(page)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"canary_label": 2}, "canary_label"),
        ({"canary": POOL}, "canary"),
        ({"shadows": 5}, "shadows"),
        ({"target_epsilon": 0}, "target_epsilon"),
    ],
    ids=str,
)
def test_what_cannot_be_attacked_is_refused_at_its_field(client, change, field):
    error = error_of(client.post(RUNS, json=ASKED | change), 422)
    assert error["fields"].keys() == {field}


def test_ten_attacks_at_once_are_too_many_and_those_that_wait_are_untouched(make_app):
    app = make_app(profile="public")
    client = app.test_client()
    answers = [client.post(RUNS, json=ASKED) for _ in range(10)]
    let_in = [answer.json["id"] for answer in answers if answer.status_code == 201]
    assert 0 < len(let_in) < 10
    for answer in answers[len(let_in) :]:
        assert error_of(answer, 429)["message"]
    states = {client.get(f"{RUNS}/{run_id}").json["state"] for run_id in let_in}
    assert states == {"queued"}


def test_its_page_shows_the_figures_once_it_has_ended(client, attack_run):
    page = client.get(f"/runs/{attack_run}/").text
    assert shown(page).keys() == {"roc", "record"}
    assert "data-complete" in page
    assert "all scores are not private" in page
    [link] = re.findall(rf'href="({LAB}\?[^"]*)"', page)
    lab = client.get(html.unescape(link)).text
    assert '<option value="adult" selected>' in lab
    assert page_data(page)["plan"]["steps"] == 10


def test_its_page_waits_while_it_goes_on(client):
    run_id = client.post(RUNS, json=ASKED).json["id"]
    page = client.get(f"/runs/{run_id}/").text
    assert shown(page) == {}
    assert "data-complete" not in page
    assert "after the last model has been trained" in page


def test_it_is_listed_with_the_epsilon_of_the_private_model(client, attack_run):
    run = client.get(f"{RUNS}/{attack_run}").json
    assert run["privacy"]["epsilon_text"] == "4.00"
    assert run["privacy"]["status"] == "exact"
    newest = rows_of(client.get("/runs/").text)[0]
    assert newest[0].startswith("Attack, Adult income, ε = 4")
    assert newest[3] == f"area {run['summary']['area']:.2f}"


def test_csv_and_report_have_every_attack(client, attack_run):
    rows = list(csv.DictReader(io.StringIO(download(client, attack_run, "csv"))))
    found = [(r["target"], r["attack"]) for r in rows if r["kind"] == "evaluation"]
    assert found == [(t, a) for t in ("ordinary", "private") for a in ATTACKS]
    report = download(client, attack_run, "html")
    assert "True against false positives" in report
    assert '<svg class="plot' in report


@pytest.mark.long("real runs")
def test_the_script_repeats_the_numbers(client, store, tmp_path):
    run_id = client.post(RUNS, json=ASKED).json["id"]
    ended(store, run_id, list(start(parse(ASKED)).events()))
    script = tmp_path / "repeat.py"
    script.write_text(download(client, run_id, "py"))
    assert "area" in run_python([str(script)], "")


def test_a_failed_attack_says_why_and_leaves_the_others(client, store, attack_run):
    run_id = client.post(RUNS, json=ASKED).json["id"]
    claim = store.leases.claim(run_id)
    gone = "the file adult/adult.data.xz is missing"
    store.leases.finish(claim, "failed", error={"code": "data", "message": gone})
    assert client.get(f"{RUNS}/{run_id}").json["error"]["message"] == gone
    assert client.get(f"/runs/{run_id}/").status_code == 200
    assert client.get(f"{RUNS}/{attack_run}").json["state"] == "done"


def test_a_run_is_attacked_with_its_settings(client):
    run_id = client.post(RUNS, json={"target_epsilon": 2.0, "steps": 100}).json["id"]
    assert f'href="{LAB}?run={run_id}"' in client.get(f"/runs/{run_id}/").text
    page = client.get(f"{LAB}?run={run_id}").text
    assert f'href="/runs/{run_id}/"' in page
    assert "a copy of the run, trained on 600 records" in page
    assert '<option value="scattering_linear" selected>' in page
    assert re.search(r'name="steps"[^>]* value="100"', page)
    assert re.search(r'name="expected_batch_size"[^>]* value="41"', page)
    assert page_data(page)["errors"] == {}


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"private": False}, "has no privacy"),
        ({"optimizer": "adam"}, "its optimizer is"),
        (ASKED, "it is not a training"),
    ],
)
def test_a_run_that_cannot_be_attacked_leaves_the_lab_as_it_is(client, asked, says):
    run_id = client.post(RUNS, json=asked).json["id"]
    page = client.get(f"{LAB}?run={run_id}")
    assert page.status_code == 200
    [said] = re.findall(r'role="alert" data-source>(.*?)</p>', page.text)
    assert says in html.unescape(said)
    assert '<option value="hidden" selected>' in page.text
    assert f"{LAB}?run=" not in client.get(f"/runs/{run_id}/").text


@pytest.mark.parametrize("run", ["nope", "0" * 32, "'\"<", "%00"])
def test_a_run_that_is_gone_is_said_to_be(reading, run):
    page = reading.get(LAB, query_string={"run": run})
    assert page.status_code == 200
    assert "This run does not exist, or it was deleted" in page.text


def test_a_run_that_was_deleted_is_gone(client):
    run_id = client.post(RUNS, json={}).json["id"]
    assert client.delete(f"{RUNS}/{run_id}").status_code == 204
    assert "or it was deleted" in client.get(f"{LAB}?run={run_id}").text

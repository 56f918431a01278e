"""The engines' lab and its runs: launched, listed, shown and taken away."""

import csv
import dataclasses
import html
import io
import re

import pytest

from dpsgd_explorer.experiments.engines_config import CONTENDERS, EnginesConfig
from dpsgd_explorer.experiments.events import Event
from dpsgd_explorer.experiments.kinds import parse, start
from dpsgd_explorer.experiments.vocabulary import ENGINES
from dpsgd_explorer.training import engine_comparison as engines_loop
from dpsgd_explorer.training import timing as measuring
from dpsgd_explorer.web.content.choice_notes import WORDS, choice_notes
from dpsgd_explorer.web.labs.engines.page import MECHANISMS
from dpsgd_explorer.web.labs.engines.view import recorded_comparison
from dpsgd_explorer.web.run_views.listing import changes
from tests.web.api.test_exports import download, run_python
from tests.web.conftest import SMALL, ended, error_of
from tests.web.pages.test_runs import rows_of
from tests.web.reading import page_data

RUNS = "/api/v1/runs"
LAB = "/labs/engines/"
CELL = r"<t[hd][^>]*>([^<]*)</t[hd]>"
FIGURES = ("milliseconds", "ratio", "ratio_low", "ratio_high", "peak_bytes")
ASKED = {"kind": "engines", "model": "mlp", "width": 4, "batch_size": 2}


@pytest.fixture(scope="module")
def compared():
    """The events of a comparison that was really made."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engines_loop, "TIMING_SECONDS", 0.0)
        patch.setattr(measuring, "VISIT_SECONDS", 0.0)
        return list(start(parse(ASKED)).events())


@pytest.fixture
def compared_run(client, store, compared):
    """A comparison of ``client`` that has ended."""
    run_id = client.post(RUNS, json=ASKED).json["id"]
    return ended(store, run_id, compared)


def test_the_lab_shows_a_recorded_comparison_of_its_defaults_at_once(reading):
    config, events = recorded_comparison()
    assert config == EnginesConfig()
    found = [e["data"] for e in events if e["kind"] == "evaluation"]
    assert tuple(one["engine"] for one in found) == CONTENDERS
    assert all(not one["refused"] for one in found)
    assert max(one["difference"] or 0 for one in found) < 1e-12
    page = reading.get(LAB).text
    assert ">recorded<" in page
    assert table_of(page) == [
        [one["engine"], f"{one['milliseconds']:.3g}", f"{one['ratio']:.2f}"]
        for one in found
    ]
    assert page.count('<svg class="plot') == 2  # one chart, wide and narrow


def table_of(page):
    """Return engine, time and ratio of each row of the table of engines."""
    table = re.search(r"<table.*?</table>", page, re.DOTALL)[0]
    rows = table.split("<tr>")[2:]
    return [re.findall(CELL, row)[:3] for row in rows]


def test_every_engine_is_explained():
    assert MECHANISMS.keys() == ENGINES.keys()


def test_settings_of_the_address_are_in_their_boxes_also_wrong_ones(reading):
    page = reading.get(f"{LAB}?model=cnn&width=7").text
    assert '<option value="cnn" selected>' in page
    assert re.search(r'name="width"[^>]* value="7"', page)
    assert "Width must be a multiple of 4" in html.unescape(page)


@pytest.mark.parametrize(
    ("change", "field"),
    [({"width": 2000}, "width"), ({"model": "cnn", "width": 1024}, "batch_size")],
    ids=str,
)
def test_what_is_too_large_is_refused_at_its_field(client, change, field):
    error = error_of(client.post(RUNS, json=ASKED | change), 422)
    assert error["fields"].keys() == {field}


def test_it_says_how_far_the_engines_are_apart_and_spends_nothing(client, compared_run):
    run = client.get(f"{RUNS}/{compared_run}").json
    assert run["privacy"] is None
    assert run["summary"]["difference"] < 1e-12
    newest = rows_of(client.get("/runs/").text)[0]
    assert newest[0].startswith("Engines, mlp, d = 4, B = 2")
    assert newest[2] == "–"
    assert newest[3] == f"{run['summary']['difference']:.0e} apart"
    error_of(client.get(f"{RUNS}/{compared_run}/epsilon"), 422, "accountant")


def test_its_page_says_where_its_inputs_come_from_and_leads_back(client, compared_run):
    page = client.get(f"/runs/{compared_run}/").text
    assert "no data set was used" in page
    [link] = re.findall(rf'href="({LAB}\?[^"]*)"', page)
    lab = client.get(html.unescape(link)).text
    assert re.search(r'name="width"[^>]* value="4"', lab)
    assert [row[0] for row in table_of(page)] == list(CONTENDERS)


def test_a_comparison_that_goes_on_shows_what_was_measured(client, store, compared):
    run_id = client.post(RUNS, json=ASKED).json["id"]
    waits = client.get(f"/runs/{run_id}/").text
    assert "appear here when it has been measured" in waits
    store.leases.append(store.leases.claim(run_id), compared[:3])
    page = client.get(f"/runs/{run_id}/").text
    assert [row[0] for row in table_of(page)] == ["ordinary"]
    assert "data-stop" in page


def test_a_comparison_that_failed_says_why(client, store):
    run_id = client.post(RUNS, json=ASKED).json["id"]
    error = {"code": "failed", "message": "the disk is full"}
    store.leases.finish(store.leases.claim(run_id), "failed", error=error)
    page = client.get(f"/runs/{run_id}/").text
    assert re.search(r'class="error[^>]*>the disk is full<', page)


def test_an_engine_that_rejects_the_model_says_why(client, store, compared):
    reason = {"refused": "lstm cannot be mapped", "difference": None}
    log = [
        Event(e.kind, e.data | dict.fromkeys(FIGURES) | reason)
        if e.data.get("engine") == "vmap"
        else e
        for e in compared
    ]
    run_id = ended(store, client.post(RUNS, json=ASKED).json["id"], log)
    page = client.get(f"/runs/{run_id}/").text
    assert "vmap rejects the model: lstm cannot be mapped" in page
    assert ["vmap", "rejected", "–"] in table_of(page)


def test_csv_has_a_row_for_each_engine(client, compared_run):
    rows = list(csv.DictReader(io.StringIO(download(client, compared_run, "csv"))))
    found = [row for row in rows if row["kind"] == "evaluation"]
    assert [row["engine"] for row in found] == list(CONTENDERS)
    assert all(float(row["ratio"]) > 0 for row in found)


def test_the_report_has_bars_and_no_epsilon(client, compared_run):
    text = download(client, compared_run, "html")
    assert "so it spent no ε" in text
    assert "Time of a step" in text
    assert "<rect" in text or "<path" in text
    assert '<th class="number">ε</th>' not in text


@pytest.mark.long("real runs")
def test_the_script_repeats_the_numbers(client, compared_run, tmp_path):
    script = tmp_path / "repeat.py"
    script.write_text(download(client, compared_run, "py"))
    told = run_python([str(script)], "")
    assert "'difference'" in told


def test_a_run_older_than_a_setting_is_compared_with_its_default(client, store):
    first = store.get(client.post(RUNS, json=SMALL).json["id"])
    second = store.get(client.post(RUNS, json=SMALL | {"engine": "vmap"}).json["id"])
    older = {name: v for name, v in first.config.items() if name != "engine"}
    [change] = changes(second, dataclasses.replace(first, config=older))
    assert (change.field.name, change.after) == ("engine", ENGINES["vmap"])
    assert change.before == ENGINES["hooks"]


@pytest.mark.parametrize("field", WORDS)
def test_the_trainer_says_of_each_choice_what_it_did(reading, field):
    notes = choice_notes()[field]
    [choices] = [
        ask["choices"]
        for ask in page_data(reading.get("/train/").text)["fields"]
        if ask["name"] == field
    ]
    assert notes.keys() == choices.keys()
    for note in notes.values():
        assert re.search(r"Recorded: \d+\.\d+ (%|×)", note)
    choice = list(notes)[-1]
    page = reading.get(f"/train/?{field}={choice}&expected_batch_size=64").text
    assert notes[choice] in html.unescape(page)

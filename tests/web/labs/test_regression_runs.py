"""A descent as a run: launched, listed, shown and taken away like any other."""

import csv
import dataclasses
import html
import io
import json
import re
from urllib.parse import urlsplit

import pytest

from dpsgd_explorer.accounting import Odometer
from dpsgd_explorer.experiments.kinds import parse, start
from dpsgd_explorer.experiments.regression_config import RegressionConfig
from dpsgd_explorer.web.figures.exports.report_chart import PRINTED
from dpsgd_explorer.web.http.assets import FRONT_DIR
from dpsgd_explorer.web.labs.regression.error_axes import ErrorAxes
from dpsgd_explorer.web.run_views.registry import VIEWS
from tests.web.api.test_exports import TWICE, code_of, download, run_python
from tests.web.conftest import SMALL, ended, error_of
from tests.web.pages.test_runs import rows_of
from tests.web.reading import page_data

RUNS = "/api/v1/runs"
LAB = "/labs/linear-regression/"
DESCENT = {
    "kind": "regression",
    "noise_multiplier": 50.0,
    "steps": 40,
    "repetitions": 5,
    "evaluations": 4,
}


@pytest.fixture
def descended(client, store):
    """A descent of ``client`` that was really made."""
    run_id = client.post(RUNS, json=DESCENT).json["id"]
    return ended(store, run_id, list(start(parse(DESCENT)).events()))


def test_a_launch_is_stored_with_every_setting(client):
    answer = client.post(RUNS, json=DESCENT | {"name": "mine", "group": "g"})
    assert answer.status_code == 201
    assert (answer.json["kind"], answer.json["name"]) == ("regression", "mine")
    assert answer.json["steps"] == 40
    assert answer.json["config"] == parse(DESCENT).model_dump(mode="json")


@pytest.mark.parametrize(
    ("change", "fields"),
    [
        ({"delta": 2, "steps": 0}, ["delta", "steps"]),
        ({"epochs": 1}, ["epochs"]),
        ({"kind": "sweep"}, ["kind"]),
        ({"kind": None}, ["kind"]),
        ({"target_epsilon": 1.0}, ["steps"]),
    ],
    ids=str,
)
def test_what_is_wrong_is_told_at_its_field(client, change, fields):
    error = error_of(client.post(RUNS, json=DESCENT | change), 422)
    assert sorted(error["fields"]) == fields


def test_a_run_that_costs_too_much_is_refused(make_app):
    client = make_app(run_cost=1e6).test_client()
    error_of(client.post(RUNS, json=DESCENT), 422, "steps", "fewer repetitions")


def test_it_says_what_it_spent_and_with_which_terms(client, descended):
    run = client.get(f"{RUNS}/{descended}").json
    privacy = run["privacy"]
    assert run["summary"]["epsilon"] <= privacy["epsilon"]
    assert (privacy["status"], privacy["sampling"]) == ("exact", "none")
    assert privacy["neighboring_relation"] == "add_or_remove_one"
    assert 0.6 < run["summary"]["mse_median"] < 6


def test_another_accountant_counts_a_descent_too(client, descended):
    answer = client.get(f"{RUNS}/{descended}/epsilon").json
    spent = client.get(f"{RUNS}/{descended}").json["privacy"]
    assert (answer["accountant"], answer["status"]) == ("exact", "exact")
    assert answer["epsilon"] == pytest.approx(spent["epsilon"], abs=1.01e-4)
    assert (answer["sampling"], answer["curve"]["steps"][-1]) == ("none", 40)
    for name in ("rdp", "zcdp"):
        other = client.get(f"{RUNS}/{descended}/epsilon?accountant={name}").json
        assert other["epsilon"] > answer["epsilon"]


def test_every_count_of_a_run_includes_the_rate_that_it_released(client, store):
    given = DESCENT | {"learning_rate": "released"}
    run_id = client.post(RUNS, json=given).json["id"]
    config = parse(given)
    ended(store, run_id, list(start(config).events()))
    summary = client.get(f"{RUNS}/{run_id}").json["summary"]
    assert summary["epsilon"] == pytest.approx(config.epsilon)
    answer = client.get(f"{RUNS}/{run_id}/epsilon").json
    assert answer["epsilon"] == pytest.approx(config.epsilon, abs=1.01e-4)
    curve = dict(zip(answer["curve"]["steps"], answer["curve"]["epsilon"], strict=True))
    assert curve.keys() >= {0, 40}
    for step, epsilon in curve.items():
        assert epsilon == pytest.approx(config.spent(step), abs=1.01e-4)
    odometer = Odometer.from_json(
        json.dumps(json.loads(download(client, run_id, "json"))["odometer"])
    )
    assert odometer.epsilon(config.delta) == pytest.approx(config.epsilon, rel=1e-4)
    page = client.get(f"/runs/{run_id}/").text
    assert "λ_max" in page
    assert "badge exact" in page


@pytest.mark.parametrize(
    "given",
    [
        {"noise_multiplier": 50.0, "steps": 40},
        {"target_epsilon": 0.5, "steps": 40},
        {"target_epsilon": 0.5, "noise_multiplier": 50.0},
    ],
    ids=str,
)
def test_the_lab_solves_for_what_the_run_left_open(client, given):
    settings = {"kind": "regression", "repetitions": 5, **given}
    run_id = client.post(RUNS, json=settings).json["id"]
    page = client.get(f"/runs/{run_id}/").text
    [link] = re.findall(rf'href="({LAB}\?[^"]*)"', page)
    offered = page_data(client.get(html.unescape(link)).text)["run"]
    names = ("noise_multiplier", "steps", "target_epsilon")
    assert {n: offered[n] for n in names if n in offered} == given
    assert parse(offered).schedule == parse(settings).schedule


@pytest.mark.parametrize("rate", ["public", "released", "notebook", 1e-5])
def test_the_lab_takes_over_the_descent_of_a_run(client, rate):
    run_id = client.post(RUNS, json=DESCENT | {"learning_rate": rate}).json["id"]
    page = client.get(f"/runs/{run_id}/").text
    [link] = re.findall(rf'href="({LAB}\?[^"]*)"', page)
    settings = page_data(client.get(html.unescape(link)).text)["run"]
    assert settings["learning_rate"] == rate
    assert (settings["steps"], settings["noise_multiplier"]) == (40, 50.0)


def test_a_learning_rate_from_the_data_voids_the_guarantee_everywhere(client, store):
    run_id = client.post(RUNS, json=DESCENT | {"learning_rate": "notebook"}).json["id"]
    config = parse(store.get(run_id).config)
    ended(store, run_id, list(start(config).events()))
    assert client.get(f"{RUNS}/{run_id}").json["privacy"]["status"] == "not private"
    page = client.get(f"/runs/{run_id}/").text
    assert "this guarantee does not hold" in page
    assert "badge exact" not in page
    assert "gaussian (not private)" in download(client, run_id, "html")
    assert json.loads(download(client, run_id, "json"))["odometer"] is None


def test_the_list_compares_it_with_the_last_of_its_kind(client, descended):
    client.post(RUNS, json=SMALL)
    client.post(RUNS, json=DESCENT | {"seed": 5})
    newest, training, first = rows_of(client.get("/runs/").text)
    assert newest[1] == "seed 0 → 5"
    assert training[1] == first[1] == "first run"
    assert first[0].startswith("Noisy descent, 40 steps, σ = 50")
    summary = client.get(f"{RUNS}/{descended}").json["summary"]
    assert first[3] == f"MSE {summary['mse_median']:.4f}"


def test_its_page_names_its_terms_and_settings(client, descended):
    page = client.get(f"/runs/{descended}/").text
    text = " ".join(re.sub(r"<[^>]+>", " ", page).split())
    terms = "one record added or removed, every record in every step"
    assert f"at δ = 1e-6, {terms}" in text
    assert "Repetitions R 5" in text
    assert "labs/regression/page.js" in page
    assert re.findall(r'data-chart="(\w+)"', page) == ["descent"]


def test_its_script_gets_the_plan_before_the_first_point(client):
    run_id = client.post(RUNS, json=DESCENT).json["id"]
    plan = page_data(client.get(f"/runs/{run_id}/").text)["plan"]
    config = parse(DESCENT)
    assert (plan["steps"], plan["epsilon"]) == (40, config.epsilon)
    assert plan["nonprivate_mse"] < plan["trivial_mse"]


def test_the_lab_opens_with_its_settings(client, descended):
    page = client.get(f"/runs/{descended}/").text
    address = re.search(rf'href="({LAB}[^"]+)"', page)[1].replace("&amp;", "&")
    assert "noise_multiplier=50" in urlsplit(address).query
    offered = page_data(client.get(address).text)["run"]
    wanted = parse(DESCENT).model_dump(mode="json")
    free = {"repetitions", "evaluations", "target_epsilon"}
    assert {k: v for k, v in offered.items() if k not in free} == {
        k: v for k, v in wanted.items() if k not in free
    }


def test_the_lab_offers_a_run_that_can_be_launched(client):
    page = client.get(f"{LAB}?noise_multiplier=500&rate=notebook&rate_factor=10").text
    offered = page_data(page)["run"]
    assert (offered["noise_multiplier"], offered["target_epsilon"]) == (500, 2)
    assert (parse(offered).planned_steps, offered["learning_rate"]) == (
        50_251,
        "notebook",
    )
    assert client.post(RUNS, json=offered).status_code == 201


def test_csv_has_the_errors_and_the_terms(client, descended):
    rows = list(csv.DictReader(io.StringIO(download(client, descended, "csv"))))
    assert [row["kind"] for row in rows] == ["step", "evaluation"] * 4
    assert float(rows[-1]["mse_low"]) <= float(rows[-1]["mse_median"])
    assert float(rows[-2]["not_private_noise_std"]) > 0
    assert {row["status"] for row in rows} == {"exact"}


def test_the_report_has_its_own_chart_and_terms(client, descended):
    text = download(client, descended, "html")
    assert "every record in every step, by accountant gaussian (exact)" in text
    assert "Error as the budget is spent" in text
    assert "accuracy" not in text[text.index("</head>") :]


def test_json_holds_settings_that_repeat_it(client, descended):
    whole = json.loads(download(client, descended, "json"))
    assert RegressionConfig.parse(whole["config"]) == parse(DESCENT)
    assert whole["events"][-2]["kind"] == "end"


def test_the_script_repeats_the_run_and_notices_if_not(client, descended, tmp_path):
    script = tmp_path / "repeat.py"
    script.write_text(download(client, descended, "py"))
    code = TWICE.replace("test_accuracy", "mse_median")
    told = run_python(["-c", code, str(script)], "").splitlines()
    assert [line for line in told if line in ("0", "1")] == ["0", "1"]


def test_the_notebook_repeats_the_run_too(client, descended):
    code = code_of(download(client, descended, "ipynb"))
    printed = run_python(["-c", code + "\nprint(REPEATED == RECORDED)"], "")
    assert printed.splitlines()[-1] == "True"


def test_lab_page_and_report_draw_one_description(client, descended):
    """The same baselines, words and axis of errors, whoever draws."""
    config = parse(DESCENT)
    axes = ErrorAxes.of(config.prepared_housing, config.epsilon)
    page = client.get(f"/runs/{descended}/").text
    assert page_data(page)["plan"]["axes"]["baselines"] == [
        dataclasses.asdict(line) for line in axes.baselines
    ]
    assert page_data(page)["plan"]["axes"]["error"] == list(axes.error)
    [section] = VIEWS["regression"].sections(config, [], [])
    drawn = section.figure["layout"]
    assert drawn["yaxis"]["range"] == axes.error
    lab = client.get(LAB).text
    for line, shape in zip(axes.baselines, drawn["shapes"], strict=True):
        assert (shape["y0"], shape["label"]["text"]) == (line.error, line.words)
        assert f">{line.words}</text>" in lab


def test_a_report_has_the_colours_of_the_light_theme():
    tokens = (FRONT_DIR / "static" / "css" / "tokens.css").read_text("utf-8")
    for name, colour in PRINTED.items():
        assert re.search(rf"--series-{name}: (#\w+);", tokens)[1] == colour

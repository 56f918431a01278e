"""A table with a number to predict: from the upload to the run of a regression."""

import csv
import html
import io
import json
import re
import shlex

import pytest

from dpsgd_explorer.audit import verify_receipt
from dpsgd_explorer.cli.main import main
from dpsgd_explorer.experiments.experiment import PerformanceSettings
from dpsgd_explorer.experiments.kinds import parse, start
from tests.regression.tables import HOUSES, houses
from tests.web.conftest import ended, error_of
from tests.web.pages.test_data import brought

STATED = {
    "kind-0": "number", "text-0": "0 to 10",
    "kind-1": "category", "text-1": "old, new",
    "kind-2": "target", "text-2": "0 to 20",
}  # fmt: skip
SETTINGS = {"methods": "all", "target_epsilon": "3", "delta": "1e-5"}
SETTINGS |= {"steps": "20"}


def table_of(client):
    """Make a table of the visitor; return its name."""
    address, _ = brought(client, houses())
    answer = client.post(address, data=STATED)
    assert answer.status_code == 303, answer.text
    return re.search(r"added=(own-[0-9a-f]{24})", answer.headers["Location"])[1]


@pytest.fixture
def table(client):
    return table_of(client)


@pytest.fixture
def run_id(client, table):
    answer = client.post(f"/data/{table}/regression", data=SETTINGS)
    assert answer.status_code == 303, answer.text
    return re.search(r"/runs/([^/]+)/", answer.headers["Location"])[1]


@pytest.fixture
def finished(client, store, run_id):
    config = parse(store.get(run_id).config)
    resources = PerformanceSettings(read_table=lambda _name: houses())
    return ended(store, run_id, list(start(config, performance=resources).events()))


def rows_of(page):
    """The cells of each table row, without their markup."""
    return [
        [
            " ".join(html.unescape(re.sub("<[^>]+>", "", cell)).split())
            for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL)
        ]
        for row in re.findall(r"<tr>(.*?)</tr>", page, re.DOTALL)
    ]


def test_a_table_with_a_number_leads_to_the_form_and_not_to_the_trainer(client, table):
    page = client.get("/data/").text
    assert f'href="/data/{table}/regression">Private regression</a>' in page
    assert "Train on it" not in page
    assert table not in client.get("/train/").text
    refused = client.post(
        "/api/v1/runs", json={"dataset": table, "model": "logistic", "delta": 1e-5}
    )
    assert "must have classes to predict" in error_of(refused, 422)["message"]
    form = client.get(f"/data/{table}/regression").text
    assert "Predicts <strong>price</strong> from rooms, age." in form
    assert 'name="delta"' in form
    for place in ("statistics", "ridge", "descent"):
        address = f"/learn/private-linear-regression/#{place}"
        assert f'href="{address}"' in form
        assert f'id="{place}"' in client.get(address).text
    assert "Methods to release." in form


def test_the_page_of_the_run_has_every_method_and_what_is_not_private(client, finished):
    page = client.get(f"/runs/{finished}/").text
    rows = {row[0]: row[1:] for row in rows_of(page) if len(row) == 3}
    assert list(rows)[1:] == [
        "AdaSSP",
        "SSP",
        "NoisyGD",
        "Least squares not private",
        "Always the mean not private",
    ]
    errors = {name: float(cells[1]) for name, cells in list(rows.items())[1:]}
    best = errors["Least squares not private"]
    assert 0.4 < best < 0.6  # the noise of the prices
    assert best < errors["AdaSSP"] < errors["Always the mean not private"]
    coefficients = {row[0]: row[1:] for row in rows_of(page) if len(row) == 5}
    rooms, new = (float(coefficients[n][-1]) for n in ("rooms", "age = new"))
    assert (rooms, new) == pytest.approx((1.5, 3), abs=0.1)
    assert "<var>ε</var> = 3.00" in page  # of all three together, rounded up
    alone = [float(rows[name][0]) for name in ("AdaSSP", "SSP", "NoisyGD")]
    assert max(alone) < 3 < sum(alone)


def test_its_receipt_fits_and_its_exports_have_the_coefficients(client, finished):
    receipt = client.get(f"/api/v1/runs/{finished}/receipt.json").json
    assert verify_receipt(receipt).wrong == []
    less = json.loads(json.dumps(receipt))
    less["releases"][2]["mechanisms"][1]["noise_multiplier"] *= 0.9
    paths = [figure.path for figure in verify_receipt(less).wrong]
    assert paths == ["releases[2].epsilon_alone", "epsilon"]
    assert (
        f"/api/v1/runs/{finished}/receipt.json" in client.get(f"/runs/{finished}/").text
    )
    text = client.get(f"/api/v1/runs/{finished}/export.csv").text
    found = [row for row in csv.DictReader(io.StringIO(text)) if row["method"]]
    assert float(found[0]["not_private_rmse"]) > 0
    assert "rmse" not in found[0]
    assert [row["method"] for row in found] == ["adassp", "ssp", "noisy_gd"]
    assert json.loads(found[0]["coefficients"])["slopes"].keys() == {
        "rooms",
        "age = new",
    }
    assert "Private regression, Own table, price" in client.get("/runs/").text
    for extension in ("json", "py", "ipynb", "html"):
        answer = client.get(f"/api/v1/runs/{finished}/export.{extension}")
        assert answer.status_code == 200
        assert "9.999,old" not in answer.text


def test_the_report_has_the_tables_of_the_page_and_no_address(client, finished):
    page = client.get(f"/runs/{finished}/").text
    report = client.get(f"/api/v1/runs/{finished}/export.html").text
    for size in (3, 5):  # cells of a row: errors, then coefficients
        rows = [row for row in rows_of(page) if len(row) == size]
        assert len(rows) > 3
        assert [row for row in rows_of(report) if row in rows] == rows
    assert "Shown at" not in report
    assert f"/runs/{finished}/" not in report
    assert "nobody else can open its page" in report
    columns = [["rooms", "number", "0 to 10"], ["age", "category", "old, new"]]
    columns.append(["price", "number to predict", "0 to 20"])
    assert [row for row in rows_of(report) if row in columns] == columns
    assert "sha256" not in report
    assert report.count('<rect class="f-private"') == 2 * 3  # wide and narrow chart
    assert '<rect class="f-twin"' not in report


def test_lists_name_no_error_and_logs_mark_each(client, finished):
    listed = client.get("/runs/").text
    assert '<td class="n reached">3 methods released</td>' in listed
    log = client.get(f"/api/v1/runs/{finished}/export.json").json["events"]
    names = {name for event in log for name in event["data"] if "rmse" in name}
    assert names == {"not_private_rmse", "not_private_mean_rmse"}


def test_the_page_and_its_link_say_who_can_read_the_run(client, table, run_id):
    said = "the links of these runs work in this browser only"
    assert said in client.get("/data/").text
    page = client.get(f"/runs/{run_id}/").text
    assert "Copy link</button> (the link works in this browser only)" in page
    assert "except a run on your own table" in page


def test_the_programs_name_the_file_that_they_need(client, table, run_id):
    for extension in ("py", "ipynb"):
        program = client.get(f"/api/v1/runs/{run_id}/export.{extension}").text
        assert "must hold the table" in program
        assert f"{table}.csv" in program


def test_a_receipt_without_a_release_says_so(client, finished):
    receipt = client.get(f"/api/v1/runs/{finished}/receipt.json").json
    wrong = verify_receipt(receipt | {"releases": []}).wrong
    assert [(figure.path, figure.recomputed) for figure in wrong] == [
        ("releases", "at least one release"),
        ("epsilon", "cannot be computed: no release states a mechanism with noise."),
    ]


def test_two_runs_have_other_noise(client, table, store):
    seeds = set()
    for _ in range(2):
        answer = client.post(f"/data/{table}/regression", data=SETTINGS)
        run_id = re.search(r"/runs/([^/]+)/", answer.headers["Location"])[1]
        seeds.add(store.get(run_id).config["seed"])
    assert len(seeds) == 2


def test_nobody_else_sees_the_run_or_the_form(client, other_visitor, table, run_id):
    assert other_visitor.get(f"/runs/{run_id}/").status_code == 404
    assert other_visitor.get(f"/data/{table}/regression").status_code == 404
    asked = {"kind": "regression_methods", "dataset": table}
    refused = other_visitor.post("/api/v1/runs", json=asked)
    assert "must be one of your own tables" in error_of(refused, 422)["message"]
    stated = client.get(f"/api/v1/runs/{run_id}").json["config"]["table"]
    refused = other_visitor.post("/api/v1/runs", json=asked | {"table": stated})
    assert "must be one of your own tables" in error_of(refused, 422)["message"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"target_epsilon": "0"}, "at least 0.01"),
        ({"target_epsilon": "many"}, "a number"),
        ({"delta": "0.1"}, "must be below 1/N"),
        ({"methods": "best"}, "must be one of"),
        ({"steps": "0"}, "at least 1"),
    ],
)
def test_a_setting_that_is_wrong_says_so_and_the_others_stay(
    client, table, change, says
):
    answer = client.post(f"/data/{table}/regression", data=SETTINGS | change)
    assert answer.status_code == 422
    assert says in html.unescape(answer.text)
    assert f'value="{(SETTINGS | change)["delta"]}"' in answer.text


def test_a_full_queue_is_told_above_the_form_and_nothing_is_lost(make_app):
    client = make_app(own_quotas=(("DPSGD_QUOTA_QUEUED", "1"),)).test_client()
    name = table_of(client)
    answer = client.post(f"/data/{name}/regression", data=SETTINGS)
    assert answer.status_code == 303
    answer = client.post(f"/data/{name}/regression", data=SETTINGS | {"steps": "21"})
    assert answer.status_code == 429
    assert 'role="alert">You already have 1 launch' in answer.text
    assert 'value="21"' in answer.text


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"text-2": "many"}, "two numbers"),
        ({"text-2": "5 to 1"}, "the lower first"),
        ({"kind-0": "target"}, "got 2 of them"),
        ({"kind-0": "ignored", "kind-1": "ignored"}, "at least one other column"),
    ],
)
def test_columns_that_make_no_regression_are_told_and_the_form_stays(
    client, change, says
):
    address, _ = brought(client, houses())
    answer = client.post(address, data=STATED | change)
    assert answer.status_code == 422
    assert says in html.unescape(answer.text)
    assert 'value="old, new"' in answer.text


def test_a_price_that_is_no_number_is_named(client):
    address, _ = brought(client, houses() + b"\n3,old,dear")
    answer = client.post(address, data=STATED)
    assert answer.status_code == 422
    assert f"row {HOUSES + 2}, column 'price' must be a number" in html.unescape(
        answer.text
    )


def test_the_command_to_publish_runs_as_printed(client, table, tmp_path, monkeypatch):
    page = html.unescape(client.get(f"/data/{table}/regression").text)
    [command] = re.findall(r"<code>python -m dpsgd_explorer (.*?)</code>", page)
    assert "Remove the other columns from the file first: age." in page
    for said in ("AdaSSP only", "no intercept and no categories", "rooms by 10"):
        assert said in page
    assert "moves values beyond ±20 to that bound" in page
    kept = houses().decode().replace(",old,", ",").replace(",new,", ",")
    (tmp_path / "people.csv").write_text(kept.replace("rooms,age", "rooms"))
    monkeypatch.chdir(tmp_path)
    assert main(shlex.split(command)) == 0

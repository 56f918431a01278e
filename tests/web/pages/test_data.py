"""A visitor's own table: brought, stated, trained on, seen by nobody else, deleted."""

import io
import json
import re

import pytest
from sqlalchemy import select

from dpsgd_explorer.runs.store.site.tables import own_tables
from tests.experiments.test_own_table import HEAD, csv_of
from tests.web.conftest import SMALL, error_of

STATED = {
    "kind-0": "number", "text-0": "0 to 100",
    "kind-1": "category", "text-1": "red, green",
    "kind-2": "ignored", "text-2": "",
    "kind-3": "label", "text-3": "no, yes",
}  # fmt: skip
RUN = {"model": "logistic", "expected_batch_size": 16, "steps": 3, "delta": 1e-4}


def brought(client, content=None):
    """Upload a file; return the address of its columns."""
    file = csv_of() if content is None else content
    head = 'Content-Disposition: form-data; name="file"; filename="people.csv"'
    body = b"--x\r\n" + head.encode() + b"\r\n\r\n" + file + b"\r\n--x--\r\n"
    form = "multipart/form-data; boundary=x"
    answer = client.post("/data/", data=body, content_type=form)
    return answer.headers.get("Location"), answer


def made(client):
    """Make a table; return its name."""
    address, _ = brought(client)
    answer = client.post(address, data=STATED)
    assert answer.status_code == 303, answer.text
    return re.search(r"added=(own-[0-9a-f]{24})", answer.headers["Location"])[1]


@pytest.fixture
def table(client):
    return made(client)


def test_a_table_is_stated_and_offered_to_train_on(client):
    address, answer = brought(client)
    assert answer.status_code == 303
    page = client.get(address).text
    assert all(f"<legend>{name}</legend>" in page for name in HEAD.split(","))
    answer = client.post(address, data=STATED, follow_redirects=True)
    assert "19 values beyond the stated bounds are moved to them" in answer.text
    [query] = re.findall(r'href="/train/\?([^"]+)"', answer.text)
    trainer = client.get("/train/?" + query.replace("&amp;", "&")).text
    assert "Own table, rich" in trainer
    assert 'class="run-error" role="alert" data-run-error hidden' in trainer


def test_a_run_names_the_file_and_what_was_stated_and_nothing_else(client, table):
    run = client.post("/api/v1/runs", json=RUN | {"dataset": table})
    assert run.status_code == 201, run.text
    config = run.json["config"]
    assert config["table"]["columns"][0]["high"] == 100
    run_id = run.json["id"]
    assert client.get(f"/runs/{run_id}/").status_code == 200
    assert "Own table" in client.get("/runs/").text
    script = client.get(f"/api/v1/runs/{run_id}/export.py").text
    assert config["table"]["sha256"] in script
    for extension in ("json", "py", "ipynb", "csv", "html"):
        text = client.get(f"/api/v1/runs/{run_id}/export.{extension}").text
        assert "n17" not in text  # a cell of the column that is left out


def test_only_its_visitor_sees_a_table_and_its_runs(client, other_visitor, table):
    run_id = client.post("/api/v1/runs", json=RUN | {"dataset": table}).json["id"]
    links = ["", "/events", "/epsilon", "/export.json", "/export.py", "/twin"]
    for link in links:
        answer = other_visitor.get(f"/api/v1/runs/{run_id}{link}")
        assert answer.status_code == 404, link
    assert other_visitor.get(f"/runs/{run_id}/").status_code == 404
    compared = client.get(f"/runs/compare?ids={run_id}").text
    assert compared.count("badge not-private") == 3
    assert "It has not taken a step" in client.get("/runs/pareto").text
    for page in ("compare", "pareto"):
        assert other_visitor.get(f"/runs/{page}?ids={run_id}").status_code == 404
    refused = other_visitor.post("/api/v1/runs", json=RUN | {"dataset": table})
    assert "must be one of your own tables" in error_of(refused, 422)["message"]
    missing = other_visitor.post("/api/v1/runs", json=SMALL | {"parent": "x" * 22})
    hidden = other_visitor.post("/api/v1/runs", json=SMALL | {"parent": run_id})
    assert error_of(hidden, 422)["message"] == error_of(missing, 422)[
        "message"
    ].replace("x" * 22, run_id)
    assert table not in other_visitor.get("/train/").text
    assert other_visitor.post(f"/data/{table}/delete").status_code == 404
    plan = other_visitor.get("/api/v1/privacy/plan", query_string={"dataset": table})
    assert plan.status_code == 422


def test_a_group_on_an_own_table_is_for_its_visitor_alone(client, other_visitor, table):
    rates = [{"learning_rate": 1}, {"learning_rate": 2}]
    body = {"purpose": "sweep", "base": RUN | {"dataset": table}, "variations": rates}
    group = client.post("/api/v1/groups", json=body).json
    for link in ("self", "log", "page"):
        assert client.get(group["links"][link]).status_code == 200
        assert other_visitor.get(group["links"][link]).status_code == 404
    other_visitor.post("/api/v1/runs", json={"dataset": "adult", "model": "logistic"})
    stated = {"table": group["runs"][0]["config"]["table"], "dataset": table}
    foreign = body | {"base": RUN | stated}
    refused = other_visitor.post("/api/v1/groups", json=foreign)
    assert error_of(refused, 422)["field"] == "dataset"
    assert "must be one of your own tables" in refused.text


def test_a_schema_that_is_sent_along_opens_no_table(client, other_visitor, table):
    config = client.post("/api/v1/runs", json=RUN | {"dataset": table}).json["config"]
    stated = {"table": config["table"], "dataset": table}
    other_visitor.post("/api/v1/runs", json={"dataset": "adult", "model": "logistic"})
    refused = other_visitor.post("/api/v1/runs", json=RUN | stated)
    assert error_of(refused, 422)["field"] == "dataset"
    changed = json.loads(json.dumps(stated))
    changed["table"]["train_size"] += 1
    refused = client.post("/api/v1/runs", json=RUN | changed)
    assert refused.status_code == 422


def files(store):
    """The names and files of all tables and drafts that are stored."""
    with store.database.read() as connection:
        columns = own_tables.c.name, own_tables.c.content
        return dict(connection.execute(select(*columns)).all())


def test_deleting_a_table_deletes_its_file(client, table, store):
    assert files(store) == {table: csv_of()}
    run_id = client.post("/api/v1/runs", json=RUN | {"dataset": table}).json["id"]
    assert client.post(f"/data/{table}/delete").status_code == 303
    assert not files(store)
    assert client.get(f"/runs/{run_id}/").status_code == 200
    assert client.post("/api/v1/runs", json=RUN | {"dataset": table}).status_code == 422


def test_deleting_all_data_deletes_the_tables(client, table, store):
    client.delete("/api/v1/runs")
    assert not files(store)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"a,a\n1,2\n", "is there 2 times"),
        ("a,b\né,1\n".encode("latin-1"), "not UTF-8"),
        (
            b"a,b\n" + b"1,2\n" * 2**19 + b"1,2\n",
            "larger than 2 MiB, the maximum",
        ),
        (b"a,b\n" + b"1,2\n" * (7 * 2**18), "larger than 2 MiB, the maximum"),
    ],
    ids=["empty", "twice", "encoding", "just too large", "much too large"],
)
def test_a_file_that_cannot_be_used_says_so_beside_it(client, content, message):
    _, answer = brought(client, content)
    assert answer.status_code == 422
    [shown] = re.findall(r'<p class="error" id="file-error">(.*?)</p>', answer.text)
    assert message in shown


def test_no_file_is_asked_for(client):
    answer = client.post("/data/", data={})
    assert answer.status_code == 422
    assert "Choose a file first." in answer.text


def test_a_far_larger_file_is_not_read_at_all(client):
    assert brought(client, b"x" * (9 * 2**20))[1].status_code == 413


@pytest.mark.parametrize(
    ("changes", "place", "message"),
    [
        ({"text-0": "0-100"}, 0, "such as 0 to 100"),
        ({"text-0": "9 to 1"}, 0, "the lower first"),
        ({"text-0": ""}, 0, "two numbers"),
        ({"text-0": "0 to 1e300"}, 0, "High must be at most 1e+12, got 1e+300."),
        ({"text-1": ""}, 1, "must list its values, 2 to 50, separated by commas."),
        ({"text-3": ""}, 3, "must list its values, 2 to 20, separated by commas."),
        ({"text-1": "red"}, 1, "2 to 50 different values"),
        ({"text-1": "red, blue"}, 1, "must be one of red, blue, got &#39;green&#39;"),
        ({"kind-2": "number", "text-2": "0 to 1"}, 2, "row 2, column"),
        ({"kind-2": "magic"}, 2, "Choose one of"),
        ({"text-3": "no, maybe"}, 3, "got &#39;yes&#39;"),
    ],
    ids=str,
)
def test_a_column_that_is_wrong_says_so_at_its_place(client, changes, place, message):
    address, _ = brought(client)
    answer = client.post(address, data=STATED | changes)
    assert answer.status_code == 422
    [shown] = re.findall(rf'<p class="error" id="error-{place}">(.*?)</p>', answer.text)
    assert message in shown
    assert "input_value" not in shown
    [wrong] = re.findall(r'name="([a-z]+)-\d+"[^>]*aria-invalid', answer.text)
    assert wrong == ("kind" if changes.get("kind-2") == "magic" else "text")
    for name in changes:
        if name.startswith("text") and changes[name]:
            assert f'value="{changes[name]}"' in answer.text


def test_two_labels_are_refused_above_the_columns(client):
    address, _ = brought(client)
    changes = {"kind-1": "label"}
    answer = client.post(address, data=STATED | changes)
    [shown] = re.findall(r'role="alert">(.*?)</p>', answer.text)
    assert "one column must be the label or the number to predict, got 2" in shown


def test_no_more_than_some_tables_are_kept_and_the_form_that_was_open_says_so(client):
    addresses = [brought(client, csv_of(rows=rows))[0] for rows in range(120, 125)]
    for address in addresses[:4]:
        assert client.post(address, data=STATED).status_code == 303
    open_form, _ = brought(client, csv_of(rows=200))  # in another tab
    assert client.post(addresses[4], data=STATED).status_code == 303
    _, answer = brought(client, csv_of(rows=201))
    assert answer.status_code == 422
    assert "the maximum is 5" in answer.text
    answer = client.post(open_form, data=STATED)
    assert answer.status_code == 422
    [shown] = re.findall(r'role="alert">(.*?)</p>', answer.text)
    assert "You already have 5 tables on this site, the maximum is 5" in shown
    assert 'value="0 to 100"' in answer.text  # nothing that was typed is lost
    own = re.findall(r'action="/data/(own-\w+)/delete"', client.get("/data/").text)
    assert client.post(f"/data/{own[0]}/delete").status_code == 303
    assert client.post(open_form, data=STATED).status_code == 303


def test_uploads_whose_columns_were_never_stated_take_no_tables_place(client):
    forms = [brought(client, csv_of(rows=rows))[0] for rows in range(120, 129)]
    assert None not in forms
    kept = [form for form in forms if client.get(form).status_code == 200]
    assert (len(kept), kept[-1]) == (5, forms[-1])  # the oldest make room
    assert client.get("/data/").text.count("Describe its columns") == 5
    for address in kept:
        assert client.post(address, data=STATED).status_code == 303


@pytest.mark.parametrize("name", ["own-" + "0" * 24, "..", "own-../../x", "0" * 64])
def test_other_names_lead_nowhere(client, table, name):
    assert client.get(f"/data/{name}/").status_code == 404
    assert client.post(f"/data/{name}/delete").status_code in (404, 405)


def test_a_site_that_takes_no_tables_has_no_page(make_app):
    client = make_app(takes_own_data=False).test_client()
    assert client.get("/data/").status_code == 404
    assert client.post("/data/", data={}).status_code == 404
    assert "/data/" not in client.get("/train/").text


def test_another_site_can_bring_no_file(client):
    file = {"file": (io.BytesIO(csv_of()), "a.csv")}
    answer = client.post("/data/", data=file, headers={"Sec-Fetch-Site": "cross-site"})
    assert answer.status_code == 403


def test_a_table_has_the_name_of_its_file(client, table):
    assert '<th scope="row">people.csv</th>' in client.get("/data/").text
    address, _ = brought(client, csv_of(rows=40))
    assert "<strong>people.csv</strong>" in client.get(address).text

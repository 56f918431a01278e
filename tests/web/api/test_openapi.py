"""The specification against the routes, and against its own rules."""

import json
import re
from pathlib import Path

import pytest

from dpsgd_explorer.experiments.kinds import KINDS, LAUNCHED
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.web.api.openapi import specification
from dpsgd_explorer.web.api.operation import Endpoint
from tests.stored_runs import ADULT, log_of
from tests.web.conftest import SMALL, ended
from tools.write_http_api_page import query_arguments

BUDGET = ADULT | {"filter_epsilon": 2.0}
OPERATIONS = {"get", "post", "patch", "delete"}
SCHEMA_TYPES = {"string", "number", "integer", "boolean", "object", "array", "null"}


@pytest.fixture
def document(client):
    return client.get("/openapi.json").json


def operations(document):
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield path, method, operation


def walk(node):
    yield node
    if isinstance(node, dict | list):
        for child in node.values() if isinstance(node, dict) else node:
            yield from walk(child)


def test_every_api_route_is_specified(app, document):
    described = {(path, method) for path, method, _ in operations(document)}
    for rule in app.url_map.iter_rules():
        if not rule.rule.startswith("/api/"):
            continue
        assert isinstance(app.view_functions[rule.endpoint], Endpoint), rule
        path = re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", rule.rule)
        for method in rule.methods - {"HEAD", "OPTIONS"}:
            assert (path, method.lower()) in described, rule
    assert {("/healthz", "get"), ("/openapi.json", "get")} <= described


def test_the_document_is_well_formed(document):
    assert document["openapi"] == "3.1.0"
    assert {"title", "version"} <= set(document["info"])
    names = []
    for path, method, operation in operations(document):
        assert method in OPERATIONS
        assert operation["summary"].endswith("."), path
        assert set(operation) <= {
            "operationId",
            "summary",
            "description",
            "tags",
            "parameters",
            "requestBody",
            "responses",
        }
        names.append(operation["operationId"])
        for status, response in operation["responses"].items():
            assert re.fullmatch(r"[2-5]\d\d", status)
            assert response["description"]
    assert len(set(names)) == len(names)


def test_every_reference_leads_to_a_schema(document):
    references = {
        node["$ref"]
        for node in walk(document)
        if isinstance(node, dict) and isinstance(node.get("$ref"), str)
    }
    schemas = document["components"]["schemas"]
    assert {ref.removeprefix("#/components/schemas/") for ref in references} <= set(
        schemas
    )
    for node in walk(schemas):
        if isinstance(node, dict) and isinstance(node.get("type"), str):
            assert node["type"] in SCHEMA_TYPES


def test_path_parameters_are_those_of_the_path(document):
    for path, _, operation in operations(document):
        declared = [p["name"] for p in operation["parameters"] if p["in"] == "path"]
        assert declared == re.findall(r"{(\w+)}", path)
        assert all(p["required"] for p in operation["parameters"] if p["in"] == "path")


@pytest.mark.parametrize("kind", LAUNCHED)
def test_a_launch_takes_every_setting_of_its_kind_and_no_other(document, kind):
    schemas = document["components"]["schemas"]
    any_request = schemas["RunRequest"]
    assert any_request["discriminator"]["propertyName"] == "kind"
    reference = any_request["discriminator"]["mapping"][kind]
    assert {"$ref": reference} in any_request["oneOf"]
    request = schemas[reference.rpartition("/")[2]]
    settings = set(KINDS[kind].config.model_fields)
    assert set(request["properties"]) == settings | {
        "name",
        "group",
        "parent",
        "class_id",
    }
    assert request["properties"]["kind"]["const"] == kind
    assert request["additionalProperties"] is False
    assert "required" not in request


def test_a_plan_is_asked_for_with_the_settings_of_a_training(document):
    settings = set(TrainingConfig.model_fields)
    plan = document["paths"]["/api/v1/privacy/plan"]["get"]["parameters"]
    assert {parameter["name"] for parameter in plan} == settings | {
        "points",
        "preliminary",
    }


def test_answers_have_the_fields_that_are_specified(client, document):
    answer = client.post("/api/v1/runs", json=SMALL).json
    schema = document["components"]["schemas"]["RunAnswer"]
    assert set(answer) == set(schema["properties"]) == set(schema["required"])


def test_every_error_has_the_one_shape(document):
    shape = {"$ref": "#/components/schemas/ErrorAnswer"}
    for path, _, operation in operations(document):
        for status, response in operation["responses"].items():
            if int(status) >= 400:
                assert response["content"]["application/json"]["schema"] == shape, path


def test_a_route_says_what_it_may_refuse(document):
    launch = document["paths"]["/api/v1/runs"]["post"]["responses"]
    refused = {"400", "403", "404", "410", "411", "413", "415", "422", "429", "500"}
    refused |= {"503", "507"}
    assert set(launch) == {"201"} | refused
    stream = document["paths"]["/api/v1/runs/{run_id}/events"]["get"]["responses"]
    assert set(stream) >= {"200", "404", "422", "503"}
    assert set(stream["200"]["content"]) == {"text/event-stream"}


def test_it_is_made_from_the_application(app):
    with app.app_context():
        assert specification(app)["paths"].keys() >= {"/api/v1/runs/{run_id}"}


VERB = re.compile(r"[A-Z][a-z]+s\b")  # "Returns …", not "What …" or "Return …"
DOCS = Path(__file__).parents[3] / "docs" / "reference" / "http-api.md"


def test_every_operation_and_parameter_is_described(document):
    for path, method, operation in operations(document):
        summary, place = operation["summary"], f"{method} {path}"
        assert VERB.match(summary), place
        assert len(summary) <= 88, place
        assert not re.search(r"\n|``", summary + operation["description"]), place
        sentences = re.findall(r"[.?!](?: |$)", operation["description"])
        assert 1 <= len(sentences) <= 3, place
        for parameter in operation["parameters"]:
            assert parameter["description"].endswith("."), (place, parameter["name"])


def test_every_operation_has_one_of_the_tags(document):
    used = {tag for *_, operation in operations(document) for tag in operation["tags"]}
    assert all(len(operation["tags"]) == 1 for *_, operation in operations(document))
    assert used == {tag["name"] for tag in document["tags"]}
    assert all(tag["description"] for tag in document["tags"])


def example_query(operation):
    """Return the examples of the required arguments of a query."""
    return {
        parameter["name"]: parameter["schema"]["examples"][0]
        for parameter in operation["parameters"]
        if parameter["in"] == "query" and parameter["required"]
    }


def test_every_example_query_is_answered(client, document):
    asked = [
        (path, example_query(operation))
        for path, method, operation in operations(document)
        if method == "get"
        and operation["tags"][0] in ("privacy", "regression")
        and "410" not in operation["responses"]
    ]
    assert any(query for _, query in asked)
    for path, query in asked:
        answer = client.get(path, query_string=query)
        assert answer.status_code == 200, (path, query, answer.text)


def example_body(document, path, method="post"):
    """Return the example of a body, else the examples of its required fields."""
    body = document["paths"][path][method]["requestBody"]["content"]["application/json"]
    name = body["schema"]["$ref"].rpartition("/")[2]
    model = document["components"]["schemas"][name]
    if "examples" in model:
        return model["examples"][0]
    return {
        name: model["properties"][name]["examples"][0] for name in model["required"]
    }


def test_every_example_body_is_accepted(client, store, document):
    """Only a code for joining a class has no example: it is secret."""
    paths = {
        (path, method)
        for path, method, operation in operations(document)
        if "requestBody" in operation
    } - {("/api/v1/classes/join", "post")}
    launched = client.post(
        "/api/v1/runs", json=example_body(document, "/api/v1/runs")
    ).json["id"]
    changed = client.post("/api/v1/runs", json=BUDGET).json["id"]
    ended(store, changed, log_of(TrainingConfig.parse(BUDGET)))
    run_ids = {"/api/v1/runs/{run_id}/continue": changed}
    store.leases.claim(launched)
    for path, method in sorted(paths):
        address = path.replace("{run_id}", run_ids.get(path, launched))
        body = example_body(document, path, method)
        answer = client.open(address, method=method, json=body)
        assert 200 <= answer.status_code < 300, (path, body, answer.text)


def test_the_page_launches_the_example_of_the_document(document):
    page = DOCS.read_text(encoding="utf-8")
    launches = [json.loads(body) for body in re.findall(r"-d '(.*?)'", page)]
    assert example_body(document, "/api/v1/runs") in launches


RUN_ID = "0" * 32


def test_a_route_takes_the_arguments_of_its_page_and_no_other(client):
    """The page that lists them is written from the same models."""
    for path, *_ in query_arguments():
        address = re.sub(r"{\w+}", RUN_ID, path)
        answer = client.get(address, query_string={"no_argument": 1})
        assert answer.status_code == 422, path
        assert "no_argument" in answer.json["error"]["fields"], path


def test_the_arguments_that_the_page_calls_required_are(client):
    for path, required, _ in query_arguments():
        address = re.sub(r"{\w+}", RUN_ID, path)
        answer = client.get(address, query_string={"no_argument": 1})
        at_fault = set(answer.json["error"]["fields"]) - {"no_argument"}
        assert at_fault == set(re.findall(r"`(\w+)`", required)), path

"""The OpenAPI document of the site, generated from the routes and their models."""

from __future__ import annotations

import http
import re
from typing import Any

from flask import Flask
from pydantic import BaseModel, Field
from pydantic.json_schema import models_json_schema

from dpsgd_explorer import __version__
from dpsgd_explorer.web.api.operation import JSON, Endpoint, Operation

PATH_PARAMETER = re.compile(r"<(?:\w+:)?(\w+)>")
COMPONENT = "#/components/schemas/{model}"
UNSAFE = ("POST", "PATCH", "DELETE")
API = re.compile(r"/api/v1/(\w+)")
SITE = "site"  # tag of the routes outside the API's prefix
TAGS = {
    "runs": "Launch, follow, change and export runs.",
    "groups": "Launch, follow and stop several training runs together.",
    "classes": "Create a class, let students join it, and follow their runs.",
    "privacy": "Compute ε, δ, noise, steps and batch sizes.",
    "regression": "Compare methods of private linear regression.",
    SITE: "Check that the site works, and read this specification.",
}
PATH_PARAMETERS = {
    "class_id": "Id of a class.",
    "extension": "Format of the file.",
    "group_id": "Id of a group of runs.",
    "number": "Number of a student in the class.",
    "run_id": "Id of a run.",
}


class ErrorDetail(BaseModel):
    """One error."""

    code: str = Field(description="Kind of error, for programs.")
    message: str = Field(description="Description of the error, for people.")
    field: str | None = Field(None, description="Name of the first wrong field.")
    fields: dict[str, str] | None = Field(
        None, description="A message for each wrong field."
    )
    retry_after: int | None = Field(
        None, description="Seconds until the request may be repeated."
    )


class ErrorAnswer(BaseModel):
    """The body of every response with an error status."""

    error: ErrorDetail


def specification(app: Flask) -> dict[str, Any]:
    """Returns the OpenAPI 3.1 document of an application's API routes."""
    routes = described_routes(app)
    refs, schemas = _schemas([operation for _, operation in routes])
    paths: dict[str, dict[str, Any]] = {}
    for rule, operation in routes:
        path = PATH_PARAMETER.sub(r"{\1}", rule)
        paths.setdefault(path, {})[operation.method.lower()] = _described(
            rule, operation, refs, schemas
        )
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "DP-SGD Explorer",
            "version": __version__,
            "description": "Launches and checks differentially private training.",
            "license": {"name": "Apache License 2.0", "identifier": "Apache-2.0"},
        },
        "tags": [{"name": name, "description": TAGS[name]} for name in TAGS],
        "paths": paths,
        "components": {"schemas": schemas},
    }


def described_routes(app: Flask) -> list[tuple[str, Operation]]:
    """Returns each API route's full path and description, in order of the paths."""
    found = []
    for rule in app.url_map.iter_rules():
        view: Any = app.view_functions[rule.endpoint]
        if isinstance(view, Endpoint):
            found.append((rule.rule, view.operation))
    return sorted(found, key=lambda route: (route[0], route[1].method))


def statuses(rule: str, operation: Operation) -> list[int]:
    """Returns the error statuses that a route may answer with."""
    found = {*operation.errors, 400, 500}
    if PATH_PARAMETER.search(rule):
        found.add(404)
    if operation.query is not None:
        found |= {414, 422}
    if operation.body is not None:
        found |= {411, 413, 415, 422}
    if operation.method in UNSAFE:
        found |= {403, 503}
    return sorted(found)


def tag_of(rule: str) -> str:
    """Returns the tag of a route: the resource in its path, or the site."""
    resource = API.match(rule)
    return resource[1] if resource else SITE


def _described(
    rule: str, operation: Operation, refs: dict[Any, Any], schemas: dict[str, Any]
) -> dict[str, Any]:
    success: dict[str, Any] = {"description": http.HTTPStatus(operation.status).phrase}
    if operation.status != http.HTTPStatus.NO_CONTENT:
        schema = refs[operation.answer, "serialization"] if operation.answer else {}
        success["content"] = {
            kind: {"schema": schema} for kind in operation.media_types
        }
    error = {"schema": refs[ErrorAnswer, "serialization"]}
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "description": operation.description,
        "tags": [tag_of(rule)],
        "parameters": [
            *_path_parameters(rule, operation),
            *_query_parameters(operation, schemas),
        ],
        "responses": {
            str(operation.status): success,
            **{
                str(status): {
                    "description": http.HTTPStatus(status).phrase,
                    "content": {JSON: error},
                }
                for status in statuses(rule, operation)
            },
        },
    }
    if operation.body is not None:
        content = {JSON: {"schema": refs[operation.body, "validation"]}}
        described["requestBody"] = {"required": True, "content": content}
    return described


def _path_parameters(rule: str, operation: Operation) -> list[dict[str, Any]]:
    parameters = []
    for name in PATH_PARAMETER.findall(rule):
        schema: dict[str, Any] = {"type": "string"}
        if name in operation.choices:
            schema["enum"] = operation.choices[name]
        parameters.append(
            {
                "name": name,
                "in": "path",
                "required": True,
                "description": PATH_PARAMETERS[name],
                "schema": schema,
            }
        )
    return parameters


def _query_parameters(
    operation: Operation, schemas: dict[str, Any]
) -> list[dict[str, Any]]:
    if operation.query is None:
        return []
    model = schemas[operation.query.__name__]
    return [
        {
            "name": name,
            "in": "query",
            "required": name in model.get("required", ()),
            "description": schema.get("description", ""),
            "schema": schema,
        }
        for name, schema in model["properties"].items()
    ]


def _schemas(
    operations: list[Operation],
) -> tuple[dict[Any, Any], dict[str, Any]]:
    """Returns a reference to each model, and the components they refer to."""
    models: dict[Any, None] = {(ErrorAnswer, "serialization"): None}
    for operation in operations:
        models |= {
            (model, mode): None
            for model, mode in (
                (operation.query, "validation"),
                (operation.body, "validation"),
                (operation.answer, "serialization"),
            )
            if model is not None
        }
    refs, document = models_json_schema(list(models), ref_template=COMPONENT)
    return refs, document["$defs"]

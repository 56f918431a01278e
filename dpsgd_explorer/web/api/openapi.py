"""The specification of the API, generated from the routes and their models."""

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


class ErrorDetail(BaseModel):
    """``code`` is for programs, ``message`` for people, ``field`` is at fault."""

    code: str
    message: str
    field: str | None = None
    fields: dict[str, str] | None = Field(None, description="A message for each field.")
    retry_after: int | None = Field(None, description="Seconds.")


class ErrorAnswer(BaseModel):
    """The one shape of every error."""

    error: ErrorDetail


def specification(app: Flask) -> dict[str, Any]:
    """Return the OpenAPI 3.1 document of an application's API routes."""
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
            "description": "Launch, follow and check differentially private training.",
            "license": {"name": "Apache License 2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {"schemas": schemas},
    }


def described_routes(app: Flask) -> list[tuple[str, Operation]]:
    """Return each API route's full path and description, in order of the paths."""
    found = []
    for rule in app.url_map.iter_rules():
        view: Any = app.view_functions[rule.endpoint]
        if isinstance(view, Endpoint):
            found.append((rule.rule, view.operation))
    return sorted(found, key=lambda route: (route[0], route[1].method))


def statuses(rule: str, operation: Operation) -> list[int]:
    """Return the errors that a route may answer with."""
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
            {"name": name, "in": "path", "required": True, "schema": schema}
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
    """Return a reference to each model, and the components they refer to."""
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

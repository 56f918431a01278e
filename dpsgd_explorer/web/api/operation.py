"""How an API route is declared: once, for Flask, for validation and for OpenAPI."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar, get_type_hints

from flask import Blueprint, Response, current_app, request
from pydantic import BaseModel

from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.web.api.answer_cache import cached_answers
from dpsgd_explorer.web.forms.form import parse, parse_texts
from dpsgd_explorer.web.http.request_guard import json_body

JSON = "application/json"
View = TypeVar("View", bound=Callable[..., Response | BaseModel])
Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True, kw_only=True)
class Operation:
    """What the specification says about a route.

    Attributes:
        query: Model of the query string; the view gets it as ``query``.
        body: Model of the JSON body; the view gets it as ``body``.
        answer: Model of a successful answer, None where it is not JSON of ours.
        choices: Allowed values of path parameters.
        errors: Statuses beyond those that follow from the rest.
    """

    method: str
    path: str
    name: str
    summary: str
    query: type[BaseModel] | None = None
    body: type[BaseModel] | None = None
    answer: type[BaseModel] | None = None
    status: int = 200
    media_types: tuple[str, ...] = (JSON,)
    choices: dict[str, list[str]] = field(default_factory=dict)
    errors: tuple[int, ...] = ()


class Endpoint:
    """Parses what a request says, then calls the view."""

    def __init__(self, view: Callable[..., Response], operation: Operation) -> None:
        self.view = view
        self.operation = operation

    def __call__(self, **values: Any) -> Response:
        """Answer the request; ConfigError names the query or body field at fault."""
        if self.operation.query is not None:
            values["query"] = parse_query(self.operation.query)
        if self.operation.body is not None:
            values["body"] = parse(self.operation.body, json_body())
        return self.view(**values)


def operation(
    blueprint: Blueprint, method: str, path: str, *, queue: str = "", **described: Any
) -> Callable[[View], View]:
    """Register a view as an API route.

    The models of query, body and answer are those of the view's annotations.

    Args:
        blueprint: Gets the route.
        method: Of HTTP.
        path: Below the blueprint's.
        queue: One of ``answer_cache.QUEUES``, for an answer that follows from the
            query alone: it is computed in its turn and cached.
        described: Attributes of ``Operation`` that the view does not say.
    """

    def register(view: View) -> View:
        hints = get_type_hints(view)
        models: dict[str, Any] = {name: hints.get(name) for name in ("query", "body")}
        if issubclass(hints["return"], BaseModel):
            models["answer"] = hints["return"]
        route = Operation(
            method=method,
            path=path,
            name=view.__name__,
            summary=(inspect.getdoc(view) or "").partition("\n")[0],
            **models | described,
        )

        def respond(**values: Any) -> Response:
            answer = view(**values)
            return answer if isinstance(answer, Response) else reply(answer)

        answered = cached_answers(respond, queue) if queue else respond
        endpoint = Endpoint(answered, route)
        blueprint.add_url_rule(path, view.__name__, endpoint, methods=[method])
        return view

    return register


def parse_query(model: type[Model]) -> Model:
    """Return the query string as a model; "" means not given.

    Raises:
        ConfigError: names a field at fault, or one that is given twice: which of its
            values is meant is not guessed.
    """
    for name, texts in request.args.lists():
        if len(texts) > 1:
            raise ConfigError(
                name, f"{name} must be given once, got {len(texts)} values: {texts}."
            )
    return parse_texts(model, request.args)


def reply(
    answer: BaseModel, status: int = 200, headers: dict[str, str] | None = None
) -> Response:
    """Answer with a model as JSON."""
    text = current_app.json.dumps(answer.model_dump(mode="json"))
    return Response(text, status, headers, mimetype=JSON)

"""Declaration of API routes, for Flask, validation and OpenAPI at the same time."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar, get_type_hints

from flask import Blueprint, Response, current_app, request
from pydantic import BaseModel

from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.web.api.answer_cache import QUEUES, cached_answers
from dpsgd_explorer.web.forms.form import parse, parse_texts
from dpsgd_explorer.web.http.request_guard import json_body

JSON = "application/json"
View = TypeVar("View", bound=Callable[..., Response | BaseModel])
Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True, kw_only=True)
class Operation:
    """The declaration of a route: its models, texts and statuses.

    Attributes:
        summary: First line of the view's docstring.
        description: Other lines of the view's docstring, as CommonMark.
        query: Model of the query string; the view gets it as ``query``.
        body: Model of the JSON body; the view gets it as ``body``.
        answer: Model of a successful answer, None for other content than our JSON.
        choices: Allowed values of path parameters.
        errors: Error statuses that do not follow from the other attributes.
    """

    method: str
    path: str
    name: str
    summary: str
    description: str
    query: type[BaseModel] | None = None
    body: type[BaseModel] | None = None
    answer: type[BaseModel] | None = None
    status: int = 200
    media_types: tuple[str, ...] = (JSON,)
    choices: dict[str, list[str]] = field(default_factory=dict)
    errors: tuple[int, ...] = ()


class Endpoint:
    """Parses and checks a request, then calls the view."""

    def __init__(self, view: Callable[..., Response], operation: Operation) -> None:
        self.view = view
        self.operation = operation

    def __call__(self, **values: Any) -> Response:
        """Answers the request.

        Raises:
            ConfigError: Names the wrong field of the query or the body.
        """
        if self.operation.query is not None:
            values["query"] = parse_query(self.operation.query)
        if self.operation.body is not None:
            values["body"] = parse(self.operation.body, json_body())
        return self.view(**values)


def operation(
    blueprint: Blueprint, method: str, path: str, *, queue: str = "", **described: Any
) -> Callable[[View], View]:
    """Returns a decorator that registers a view as an API route.

    The view's annotations give the models of query, body and answer. Its docstring
    gives summary and description, so it is written for users of the API.

    Args:
        blueprint: Blueprint that the route is added to.
        method: HTTP method.
        path: Path below the prefix of the blueprint.
        queue: One of ``answer_cache.QUEUES``, for an answer that depends on the query
            only. Answers of one queue are computed one at a time and are cached.
        described: Further attributes of ``Operation``.
    """

    def register(view: View) -> View:
        hints = get_type_hints(view)
        models: dict[str, Any] = {name: hints.get(name) for name in ("query", "body")}
        if queue and QUEUES[queue].longest is not None:
            models["errors"] = (503,)
        if issubclass(hints["return"], BaseModel):
            models["answer"] = hints["return"]
        summary, _, description = (inspect.getdoc(view) or "").partition("\n\n")
        route = Operation(
            method=method,
            path=path,
            name=view.__name__,
            summary=_as_markdown(summary),
            description=_as_markdown(description),
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


def _as_markdown(text: str) -> str:
    """Returns a text of a docstring on one line, with the quotes of Markdown."""
    return " ".join(text.split()).replace("``", "`")


def parse_query(model: type[Model]) -> Model:
    """Returns the query string as a model; an empty value counts as not given.

    Raises:
        ConfigError: A field is wrong, or is given more than once.
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
    """Returns a response with a model as JSON."""
    text = current_app.json.dumps(answer.model_dump(mode="json"))
    return Response(text, status, headers, mimetype=JSON)

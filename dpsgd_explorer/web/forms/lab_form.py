"""A lab's settings as a form: made from its question's own metadata."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar

from pydantic import BaseModel

from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.experiments.config import RunConfig
from dpsgd_explorer.web.api.operation import parse
from dpsgd_explorer.web.forms.form import Form, FormField, empty_boxes, text_of

Model = TypeVar("Model", bound=BaseModel)


@cache
def lab_fields(model: type[BaseModel]) -> dict[str, FormField]:
    """Return every setting of a question that its page asks for.

    A setting is asked for if it was declared by ``training.run_config.setting``.
    """
    schema = model.model_json_schema()["properties"]
    return {
        name: _form_field(name, about)
        for name, about in schema.items()
        if "label" in about
    }


def read_lab(
    model: type[Model], query: Mapping[str, str], *, follows: str = ""
) -> tuple[Form, Model | None]:
    """Read an address; whatever is wrong with it, everything typed is kept.

    What is no setting of the lab is passed over.

    Args:
        model: The lab's question.
        query: The address, as texts.
        follows: The setting that is the answer: its box may be empty.
    """
    fields = lab_fields(model)
    given = {name: text.strip() for name, text in query.items()}
    known = {name: text for name, text in given.items() if name in fields}
    texts = {name: ask.default for name, ask in fields.items()} | known
    errors = empty_boxes(fields, {n: t for n, t in known.items() if n != follows})
    filled = {name: text for name, text in known.items() if text}
    answer: Model | None = None
    try:
        if issubclass(model, RunConfig):
            answer = model.from_query(filled)
        else:
            answer = parse(model, filled)
    except ConfigError as error:
        errors |= {
            name: _in_words(fields.get(name), name, message)
            for name, message in error.fields.items()
        }
    return Form(texts, errors), None if errors else answer


def _in_words(ask: FormField | None, name: str, message: str) -> str:
    """Return a message with the setting's label for its name in the first place."""
    named = ask is not None and message.startswith(name)
    return ask.label + message.removeprefix(name) if ask and named else message


def _form_field(name: str, about: dict[str, Any]) -> FormField:
    kinds = {about.get("type")} | {one.get("type") for one in about.get("anyOf", [])}
    plain = next(k for k in ("boolean", "integer", "number", "string") if k in kinds)
    return FormField(
        name=name,
        label=about["label"],
        help=about["help"],
        group=about["group"],
        symbol=about["symbol"],
        kind="choice" if "choices" in about else plain,
        choices=about.get("choices", {}),
        marks=about["marks"],
        ends=about["ends"],
        step=about["step"],
        default=text_of(about.get("default")),
        switch="",
        folded=False,
        optional="null" in kinds,
        private_only=False,
    )

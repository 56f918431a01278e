"""A submitted form: the texts of its boxes, its errors, and the settings."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from pydantic import BaseModel, ValidationError

from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.experiments.config import RunConfig
from dpsgd_explorer.experiments.fields.messages import config_error
from dpsgd_explorer.web.forms.fields import (
    FormField,
    Switch,
    form_fields,
    layout_of,
    text_of,
)

Model = TypeVar("Model", bound=BaseModel)
#: In an error message: the value of a choice, or the name of a setting.
IDENTIFIER = re.compile(r"'([\w-]+)'|\b([a-z]+_[a-z_]+)\b")
LIST = "must be one of "  # begins a list of values


@dataclass(frozen=True)
class Form(Generic[Model]):
    """The texts of a form, its errors, and the settings of a valid form.

    Attributes:
        texts: Texts of the boxes, by setting.
        errors: Message for each invalid setting.
        unknown: Names in the query that are not settings of the form.
        switches: Switches of the form.
        settings: The validated model; None if a setting is invalid.
    """

    texts: dict[str, str]
    errors: dict[str, str] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)
    switches: tuple[Switch, ...] = ()
    settings: Model | None = None

    @property
    def chosen(self) -> dict[str, str]:
        """Selected member of each switch: the filled or invalid field."""
        used = {name for name, text in self.texts.items() if text} | self.errors.keys()
        return {
            switch.name: next(
                (name for name in switch.members if name in used),
                next(iter(switch.members)),
            )
            for switch in self.switches
        }

    def faulty(self, fields: Sequence[FormField]) -> bool:
        """Returns whether one of the fields is invalid."""
        return any(field.name in self.errors for field in fields)

    def unusual(self, fields: Sequence[FormField]) -> list[FormField]:
        """Returns the fields that are invalid or differ from their defaults."""
        return [
            field
            for field in fields
            if field.name in self.errors or self.texts[field.name] != field.default
        ]

    def effective(self, fields: Sequence[FormField]) -> list[FormField]:
        """Returns the fields without the unselected members of switches."""
        return [
            field
            for field in fields
            if self.chosen.get(field.switch, field.name) == field.name
        ]


def read_form(
    model: type[Model],
    query: Mapping[str, str],
    *,
    solved: str = "",
    fixed: Mapping[str, str] | None = None,
) -> Form[Model]:
    """Reads a query; every text is kept for display, even if it is invalid.

    Args:
        model: Class of the settings.
        query: Names and texts of the query.
        solved: Setting that the page computes, whose box may be empty.
        fixed: Settings without a box, such as the table that a page is about.
    """
    fields, switches = form_fields(model), layout_of(model).switches
    texts = {name: text.strip() for name, text in query.items()}
    radios = {switch.name: texts.pop(switch.name, "") for switch in switches}
    setting_texts = {name: texts.pop(name) for name in list(texts) if name in fields}
    _drop_unchosen(setting_texts, switches, radios)
    form = Form[Model](
        texts=_texts(fields, setting_texts, switches),
        errors=_empty_boxes(fields, setting_texts, solved),
        unknown=[name for name, text in texts.items() if text],
        switches=switches,
    )
    given = {**setting_texts, **(fixed or {})}
    try:
        settings = parse_texts(model, given)
        if isinstance(settings, RunConfig):
            settings.check_reachable()
    except ConfigError as error:
        faults = {n: labelled(fields, text) for n, text in error.fields.items()}
        return replace(form, errors=form.errors | faults)
    if form.errors:
        return form
    texts = form.texts | _implied(fields, settings, given)
    return replace(form, texts=texts, settings=settings)


def parse(model: type[Model], values: object) -> Model:
    """Returns values as an instance of a model.

    Raises:
        ConfigError: Names each invalid field.
    """
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise config_error(error, model) from None


def parse_texts(model: type[Model], texts: Mapping[str, str]) -> Model:
    """Returns the texts of a query as an instance of a model; "" means not given.

    Raises:
        ConfigError: Names each invalid field.
    """
    filled = {name: text for name, text in texts.items() if text}
    if issubclass(model, RunConfig):
        return model.from_query(filled)
    return parse(model, filled)


def to_query(settings: BaseModel) -> dict[str, str]:
    """Returns the query of a form with these settings, without unset ones."""
    values = settings.model_dump(mode="json")
    return {
        name: text_of(values[name])
        for name in form_fields(type(settings))
        if values[name] is not None
    }


def _empty_boxes(
    fields: Mapping[str, FormField], texts: Mapping[str, str], solved: str
) -> dict[str, str]:
    return {
        name: f"{fields[name].label} must be given."
        for name, text in texts.items()
        if not text and not fields[name].optional and name != solved
    }


def labelled(fields: Mapping[str, FormField], message: str) -> str:
    """Returns an error message with the form's labels in place of API values.

    "sampling must be 'poisson'" becomes "Sampling must be “Poisson”".  A list of values
    stays: it answers an address that the form cannot write.
    """
    name, space, rest = message.partition(" ")
    start = fields[name].label if name in fields else name
    if rest.startswith(LIST):
        return start + space + rest
    return start + space + IDENTIFIER.sub(lambda found: _label(fields, found), rest)


def _label(fields: Mapping[str, FormField], found: re.Match[str]) -> str:
    """Returns the label of a choice or setting; the text itself without one label."""
    value, name = found.groups()
    if name:
        return f"“{fields[name].label}”" if name in fields else name
    labels = {f.choices[value] for f in fields.values() if value in f.choices}
    return f"“{labels.pop()}”" if len(labels) == 1 else found[0]


def _drop_unchosen(
    setting_texts: dict[str, str], switches: Sequence[Switch], radios: Mapping[str, str]
) -> None:
    """Removes all but one member of each switch if the query has several.

    A form without script sends all: the radio button selects one, else the filled one.
    """
    for switch in switches:
        members = {
            name: setting_texts.pop(name)
            for name in switch.members
            if name in setting_texts
        }
        filled = {name: text for name, text in members.items() if text}
        if (choice := radios[switch.name]) in switch.members:
            filled = {choice: members[choice]} if choice in members else {}
        setting_texts |= filled or dict(list(members.items())[:1])


def _implied(
    fields: Mapping[str, FormField], settings: BaseModel, given: Mapping[str, str]
) -> dict[str, str]:
    """Returns the texts of boxes whose default depends on the given settings."""
    return {
        name: text_of(value)
        for name, value in settings
        if name in settings.model_fields_set - given.keys()
        and name in fields
        and not fields[name].switch
    }


def _texts(
    fields: Mapping[str, FormField],
    setting_texts: Mapping[str, str],
    switches: Sequence[Switch],
) -> dict[str, str]:
    """Returns the text of every box: the typed text, else the default."""
    texts = {name: field.default for name, field in fields.items()}
    for switch in switches:
        if switch.members.keys() & setting_texts.keys():
            texts |= dict.fromkeys(switch.members, "")
    return texts | dict(setting_texts)

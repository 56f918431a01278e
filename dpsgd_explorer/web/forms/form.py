"""A form that was sent: the texts of its boxes, its faults, and the settings."""

from __future__ import annotations

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


@dataclass(frozen=True)
class Form(Generic[Model]):
    """The texts of a form, its faults, and the settings where it has none.

    Attributes:
        texts: What the boxes show, by setting.
        errors: A message for each setting at fault.
        unknown: Names in the address that are no settings of the form.
        switches: Switches of the form.
        settings: The validated model; None while a setting is at fault.
    """

    texts: dict[str, str]
    errors: dict[str, str] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)
    switches: tuple[Switch, ...] = ()
    settings: Model | None = None

    @property
    def chosen(self) -> dict[str, str]:
        """Member of each switch that counts: the one filled in or at fault."""
        given = {name for name, text in self.texts.items() if text} | self.errors.keys()
        return {
            switch.name: next(
                (name for name in switch.members if name in given),
                next(iter(switch.members)),
            )
            for switch in self.switches
        }

    def opens(self, fields: Sequence[FormField]) -> bool:
        """Whether one of the fields is at fault or differs from its default."""
        return any(
            field.name in self.errors or self.texts[field.name] != field.default
            for field in fields
        )

    def faulty(self, fields: Sequence[FormField]) -> bool:
        """Whether one of the fields is at fault."""
        return any(field.name in self.errors for field in fields)

    def in_short(self, fields: Sequence[FormField]) -> str:
        """Return in a line what those of the fields are set to that count and show.

        static/js/forms/settings_form.js says the same as the settings change.
        """
        is_open = self.texts.get("private") == "false"
        words = ["without privacy"] if is_open and fields[0].name == "private" else []
        words += [
            field.in_short(self.texts[field.name])
            for field in fields
            if not field.folded
            and field.kind != "boolean"
            and not (is_open and field.private_only)
            and self.texts[field.name]
            and self.chosen.get(field.switch, field.name) == field.name
        ]
        return ", ".join(words)


def read_form(
    model: type[Model], query: Mapping[str, str], *, solved: str = ""
) -> Form[Model]:
    """Read an address; every text is shown again, whatever is wrong with it.

    Args:
        model: The settings that the form asks for.
        query: The address, as texts.
        solved: The setting that is the answer: its box may be empty.
    """
    fields, switches = form_fields(model), layout_of(model).switches
    given = {name: text.strip() for name, text in query.items()}
    radios = {switch.name: given.pop(switch.name, "") for switch in switches}
    known = {name: given.pop(name) for name in list(given) if name in fields}
    _drop_unchosen(known, switches, radios)
    form = Form[Model](
        texts=_texts(fields, known, switches),
        errors=_empty_boxes(fields, known, solved),
        unknown=[name for name, text in given.items() if text],
        switches=switches,
    )
    try:
        settings = parse_texts(model, known)
        if isinstance(settings, RunConfig):
            settings.check_reachable()
    except ConfigError as error:
        faults = {n: _labelled(fields, n, text) for n, text in error.fields.items()}
        return replace(form, errors=form.errors | faults)
    return form if form.errors else replace(form, settings=settings)


def parse(model: type[Model], values: object) -> Model:
    """Return values as a model.

    Raises:
        ConfigError: names each field at fault.
    """
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise config_error(error, model) from None


def parse_texts(model: type[Model], texts: Mapping[str, str]) -> Model:
    """Return the texts of an address as a model; "" means not given.

    Raises:
        ConfigError: names each field at fault.
    """
    filled = {name: text for name, text in texts.items() if text}
    if issubclass(model, RunConfig):
        return model.from_query(filled)
    return parse(model, filled)


def to_query(settings: BaseModel) -> dict[str, str]:
    """Return the address of a form with these settings: every one that is set."""
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


def _labelled(fields: Mapping[str, FormField], name: str, message: str) -> str:
    """Return a message with the setting's label for its name in the first place."""
    if name not in fields or not message.startswith(name):
        return message
    return fields[name].label + message.removeprefix(name)


def _drop_unchosen(
    known: dict[str, str], switches: Sequence[Switch], radios: Mapping[str, str]
) -> None:
    """Keep one member of each switch where the address has both.

    A form without script sends both: the radio selects one, else the one filled in.
    """
    for switch in switches:
        given = {name: known.pop(name) for name in switch.members if name in known}
        filled = {name: text for name, text in given.items() if text}
        if (choice := radios[switch.name]) in switch.members:
            filled = {choice: given[choice]} if choice in given else {}
        known |= filled or dict(list(given.items())[:1])


def _texts(
    fields: Mapping[str, FormField],
    known: Mapping[str, str],
    switches: Sequence[Switch],
) -> dict[str, str]:
    """Return the text of every box: what was typed, else the default."""
    texts = {name: field.default for name, field in fields.items()}
    for switch in switches:
        if switch.members.keys() & known.keys():
            texts |= dict.fromkeys(switch.members, "")
    return texts | dict(known)

"""Turns pydantic's errors into our own sentences: name, rule, what came."""

from __future__ import annotations

import re
import reprlib
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from dpsgd_explorer.errors import ConfigError

RULES = {
    "greater_than": "greater than {gt:g}",
    "greater_than_equal": "at least {ge:g}",
    "less_than": "less than {lt:g}",
    "less_than_equal": "at most {le:g}",
    "finite_number": "a finite number",
    "float_type": "a number",
    "float_parsing": "a number",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_parsing_size": "a whole number of fewer digits",
    "int_from_float": "a whole number",
    "bool_type": "true or false",
    "string_type": "a text",
    "model_type": "an object of settings",
    "model_attributes_type": "an object of settings",
    "dict_type": "an object of settings",
}
BOUNDS = {"greater_than", "greater_than_equal", "less_than", "less_than_equal"}
GROUPED = re.compile(r"[-+]?\d{1,3}(,\d{3})+(\.\d+)?")
DECIMAL_COMMA = re.compile(r"[-+]?\d*,\d+(e[-+]?\d+)?", re.IGNORECASE)
SHOWN = reprlib.Repr()
SHOWN.maxstring = SHOWN.maxother = SHOWN.maxlong = 60


def config_error(
    error: ValidationError,
    model: type[BaseModel],
    typed: Mapping[str, str] | None = None,
) -> ConfigError:
    """Return one ConfigError for the first fault, with all of them in ``fields``.

    Args:
        error: The error of pydantic.
        model: The model that was to be built.
        typed: Texts from which the model's values were read, by field.
    """
    faults: dict[str, str] = {}
    for detail in error.errors(include_url=False):
        fault: dict[str, Any] = dict(detail)
        if typed and fault["loc"]:
            fault["input"] = typed.get(str(fault["loc"][0]), fault["input"])
        for field, message in _sentences(fault, model).items():
            faults.setdefault(field, message)
    field, message = next(iter(faults.items()))
    return ConfigError(field, message, fields=faults)


def _sentences(fault: dict[str, Any], model: type[BaseModel]) -> dict[str, str]:
    """Return a message for each field that one of pydantic's errors is about."""
    inner = fault.get("ctx", {}).get("error")
    if isinstance(inner, ConfigError):
        return inner.fields
    if isinstance(inner, ValidationError):  # of a model that a validator has built
        return config_error(inner, model).fields
    field, message = _sentence(fault, model)
    return {field: message}


def _sentence(fault: dict[str, Any], model: type[BaseModel]) -> tuple[str, str]:
    field = str(fault["loc"][0]) if fault["loc"] else ""
    if fault["type"] == "extra_forbidden":
        known = ", ".join(model.model_fields)
        return field, f"unknown setting {SHOWN.repr(field)}; settings: {known}."
    if fault["type"] == "missing":
        return field, f"{field} must be given."
    came, kind = fault["input"], fault["type"]
    # A text that was read as a number before a bound refused it is shown as typed.
    shown = came if kind in BOUNDS and isinstance(came, str) else SHOWN.repr(came)
    rule = RULES.get(kind)
    if rule is None:
        return field, f"{field}: {fault['msg']}, got {shown}."
    rule = rule.format(**fault.get("ctx", {}))
    return field, f"{field or 'the body'} must be {rule}, got {shown}.{_hint(came)}"


def _hint(came: object) -> str:
    """Return how to write a number that was typed with a comma; else nothing."""
    if not isinstance(came, str):
        return ""
    if GROUPED.fullmatch(came):
        return f" Write {came.replace(',', '')}, without a comma."
    if DECIMAL_COMMA.fullmatch(came):
        return f" Use a dot: {came.replace(',', '.')}."
    return ""

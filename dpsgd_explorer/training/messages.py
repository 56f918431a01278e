"""Turns pydantic's errors into our own sentences: name, rule, what came."""

from __future__ import annotations

import reprlib
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
SHOWN = reprlib.Repr()
SHOWN.maxstring = SHOWN.maxother = SHOWN.maxlong = 60


def config_error(error: ValidationError, model: type[BaseModel]) -> ConfigError:
    """Return one ConfigError for the first fault, with all of them in ``fields``."""
    faults: dict[str, str] = {}
    for fault in error.errors(include_url=False):
        for field, message in _sentences(dict(fault), model).items():
            faults.setdefault(field, message)
    field, message = next(iter(faults.items()))
    return ConfigError(field, message, fields=faults)


def _sentences(fault: dict[str, Any], model: type[BaseModel]) -> dict[str, str]:
    """Return a message for each field that one of pydantic's errors is about."""
    inner = fault.get("ctx", {}).get("error")
    if isinstance(inner, ConfigError):
        return inner.fields
    field, message = _sentence(fault, model)
    return {field: message}


def _sentence(fault: dict[str, Any], model: type[BaseModel]) -> tuple[str, str]:
    field = str(fault["loc"][0]) if fault["loc"] else ""
    if fault["type"] == "extra_forbidden":
        known = ", ".join(model.model_fields)
        return field, f"unknown setting {SHOWN.repr(field)}; settings: {known}."
    if fault["type"] == "missing":
        return field, f"{field} is missing."
    came = SHOWN.repr(fault["input"])
    rule = RULES.get(fault["type"])
    if rule is None:
        return field, f"{field}: {fault['msg']}, got {came}."
    rule = rule.format(**fault.get("ctx", {}))
    return field, f"{field or 'the body'} must be {rule}, got {came}."

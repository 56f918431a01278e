"""Messages about invalid settings, from pydantic's errors: name, rule, value."""

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
    """Return one ConfigError with the first problem; ``fields`` has all of them.

    Args:
        error: The error of pydantic.
        model: The model that could not be built.
        typed: Texts from which the values were read, by field.
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
    """Return a message for each field that one of pydantic's errors concerns."""
    inner = fault.get("ctx", {}).get("error")
    if isinstance(inner, ConfigError):
        return inner.fields
    if isinstance(inner, ValidationError):  # raised in a validator of the model
        return config_error(inner, model).fields
    field, message = _sentence(fault, model)
    return {field: message}


def _sentence(fault: dict[str, Any], model: type[BaseModel]) -> tuple[str, str]:
    field = str(fault["loc"][0]) if fault["loc"] else ""
    if fault["type"] == "extra_forbidden":
        names = ", ".join(model.model_fields)
        return field, f"unknown setting {SHOWN.repr(field)}; settings: {names}."
    if fault["type"] == "missing":
        return field, f"{field} must be given."
    value, kind = fault["input"], fault["type"]
    # A text that was parsed before a bound rejected its number is shown as typed.
    value_text = (
        value if kind in BOUNDS and isinstance(value, str) else SHOWN.repr(value)
    )
    rule = RULES.get(kind)
    if rule is None:
        return field, f"{field}: {fault['msg']}, got {value_text}."
    rule = rule.format(**fault.get("ctx", {}))
    return (
        field,
        f"{field or 'the body'} must be {rule}, got {value_text}.{_hint(value)}",
    )


def _hint(value: object) -> str:
    """Return a hint on a number that was typed with a comma; "" for other values."""
    if not isinstance(value, str):
        return ""
    if GROUPED.fullmatch(value):
        return f" Write {value.replace(',', '')}, without a comma."
    if DECIMAL_COMMA.fullmatch(value):
        return f" Use a dot: {value.replace(',', '.')}."
    return ""

"""The set-up of a class: the trainer's settings that its students start from."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from flask import request
from werkzeug.datastructures import MultiDict

from dpsgd_explorer.errors import ClassNotFoundError, ConfigError
from dpsgd_explorer.experiments.own_table import is_own
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.runs.classes.records import Class
from dpsgd_explorer.web.forms.limits import HIDE, LOCK, read_limits
from dpsgd_explorer.web.forms.trainer import trainer_controls
from dpsgd_explorer.web.http.services import classes
from dpsgd_explorer.web.http.visitor import current_visitor

SETUP = "setup"
CLASS = "class_id"


def class_asked() -> Class | None:
    """Returns the open class in the address; None if the visitor is not a member."""
    try:
        class_ = classes().get(request.args.get(CLASS, ""), current_visitor())
    except ClassNotFoundError:
        return None
    return None if class_.is_over else class_


def setup_query(address: str) -> str:
    """Returns settings and limits of an address of the trainer; "" for the defaults.

    Raises:
        ConfigError: The address has no settings, or a setting is invalid.
    """
    text = address.strip()
    if not text:
        return ""
    values = dict(parse_qsl(urlsplit(text).query if "?" in text else text))
    values.pop(CLASS, None)
    if not values:
        raise ConfigError(
            SETUP,
            "setup must be an address copied from the trainer or created under Teach, "
            f"got {text[:80]!r}.",
        )
    settings = _without_limits(values)
    try:
        limits = read_limits(MultiDict(values), trainer_controls(), "the trainer")
        TrainingConfig.from_query(settings)
    except ConfigError as error:
        raise ConfigError(SETUP, f"setup: {error}") from None
    if is_own(settings.get("dataset")):
        raise ConfigError(
            SETUP,
            "setup must use a data set that all students have, got a table of your "
            "own.",
        )
    return urlencode({**settings, **limits.query}, safe=",")


def start_of(setup: str) -> dict[str, Any] | None:
    """Returns the configuration that a stored set-up describes.

    None means that the class has no set-up, or that the set-up is no longer valid.
    """
    try:
        config = TrainingConfig.from_query(_without_limits(dict(parse_qsl(setup))))
    except ConfigError:
        return None
    return config.model_dump(mode="json") if setup else None


def _without_limits(query: dict[str, str]) -> dict[str, str]:
    return {name: query[name] for name in query if name not in (HIDE, LOCK)}

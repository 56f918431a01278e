"""What students of a class begin from: the address of a set-up, checked."""

from __future__ import annotations

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
    """Return the class that the address launches for; None: this one is in none."""
    try:
        found = classes().get(request.args.get(CLASS, ""), current_visitor())
    except ClassNotFoundError:
        return None
    return None if found.is_over else found


def setup_query(address: str) -> str:
    """Return settings and limits of an address of the trainer; "" for the usual ones.

    Raises:
        ConfigError: the address has none, or one is wrong.
    """
    text = address.strip()
    if not text:
        return ""
    given = dict(parse_qsl(urlsplit(text).query if "?" in text else text))
    given.pop(CLASS, None)
    if not given:
        raise ConfigError(
            SETUP,
            "setup must be an address copied from the trainer or created under Teach, "
            f"got {text[:80]!r}.",
        )
    settings = {name: given[name] for name in given if name not in (HIDE, LOCK)}
    try:
        limits = read_limits(MultiDict(given), trainer_controls(), "the trainer")
        TrainingConfig.from_query({name: x for name, x in settings.items() if x})
    except ConfigError as error:
        raise ConfigError(SETUP, f"setup: {error}") from None
    if is_own(settings.get("dataset")):
        raise ConfigError(
            SETUP,
            "setup must use a data set that all students have, got a table of your "
            "own.",
        )
    return urlencode({**settings, **limits.query}, safe=",")

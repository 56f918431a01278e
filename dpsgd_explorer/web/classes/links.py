"""The two secret links of a class, for its students and for its teacher.

A code is the id of the class and a keyed hash of it, with the key of the site's
cookies.  No code is stored, so nobody can compute one from the database.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from dataclasses import dataclass

from flask import current_app, request, url_for
from itsdangerous import Signer

from dpsgd_explorer.errors import ClassNotFoundError
from dpsgd_explorer.runs.classes.records import Class
from dpsgd_explorer.web.http.services import classes

STUDENT, TEACHER = "student", "teacher"
SALT = "dpsgd_class"
HASH_LENGTH = 16  # characters: 96 bits
CODE = re.compile(rf"([A-Za-z0-9_-]{{12}})([A-Za-z0-9_-]{{{HASH_LENGTH}}})")


@dataclass(frozen=True)
class Entrance:
    """Target of a link: a class, and the role in it."""

    class_: Class
    role: str


def link_of(class_: Class, role: str) -> str:
    """Returns the whole address of a link of a class."""
    path = url_for("classes.entrance", code=class_.id + _keyed_hash(class_, role))
    return request.host_url.rstrip("/") + path


def entrance_of(code: str) -> Entrance:
    """Returns the target of a code.

    Raises:
        ClassNotFoundError: The code is incomplete, or belongs to no class.
    """
    parts = CODE.fullmatch(code)
    if parts is None:
        raise _wrong_link()
    try:
        class_ = classes().find(parts[1])
    except ClassNotFoundError:
        raise _wrong_link() from None
    for role in (STUDENT, TEACHER):
        if hmac.compare_digest(_keyed_hash(class_, role), parts[2]):
            return Entrance(class_, role)
    raise _wrong_link()


def _wrong_link() -> ClassNotFoundError:
    return ClassNotFoundError(
        "this link leads to no class: it is incomplete, or the class was deleted. "
        "Request the link from your teacher."
    )


def _keyed_hash(class_: Class, role: str) -> str:
    site: Signer = current_app.extensions["visitor_signer"]
    signer = Signer(
        site.secret_keys, salt=f"{SALT}_{role}", digest_method=hashlib.sha256
    )
    return signer.get_signature(f"{class_.id}.{class_.links}").decode()[:HASH_LENGTH]

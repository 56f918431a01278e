"""The secret links of a class: its students' and its teacher's.

A code is the id of the class and a keyed hash of it: the key is that of the site's
cookies, and nothing of a code is stored.  Who reads the database cannot make one.
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
    """Where a link leads: a class, and as what."""

    found: Class
    role: str


def code_of(found: Class, role: str) -> str:
    """Return the code of a class for its students or its teacher."""
    return found.id + _keyed_hash(found, role)


def link_of(found: Class, role: str) -> str:
    """Return the whole address that a teacher hands out, or keeps."""
    path = url_for("classes.entrance", code=code_of(found, role))
    return request.host_url.rstrip("/") + path


def entrance_of(code: str) -> Entrance:
    """Return where a code leads.

    Raises:
        ClassNotFoundError: it is none, is not whole, or was renewed.
    """
    parts = CODE.fullmatch(code)
    if parts is None:
        raise wrong_link()
    try:
        found = classes().find(parts[1])
    except ClassNotFoundError:
        raise wrong_link() from None
    for role in (STUDENT, TEACHER):
        if hmac.compare_digest(_keyed_hash(found, role), parts[2]):
            return Entrance(found, role)
    raise wrong_link()


def wrong_link() -> ClassNotFoundError:
    """Return the error about a link that leads to no class."""
    return ClassNotFoundError(
        "this link leads to no class: it is incomplete, or the class was deleted, or "
        "its teacher renewed the link. Request the link from your teacher."
    )


def _keyed_hash(found: Class, role: str) -> str:
    site: Signer = current_app.extensions["visitor_signer"]
    signer = Signer(
        site.secret_keys, salt=f"{SALT}_{role}", digest_method=hashlib.sha256
    )
    return signer.get_signature(f"{found.id}.{found.links}").decode()[:HASH_LENGTH]

"""Visitors: a random name in a signed cookie, set at the first launch.

If a trusted proxy names a logged-in user (``proxies``), the visitor is a keyed hash of
that name, in any browser; the name itself is not stored.

Reading needs no name, so visitors who only read get no cookie.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import tempfile
from pathlib import Path

from flask import Response, after_this_request, current_app, g, request
from itsdangerous import BadSignature, Signer

from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.web.http.proxies import user_of

COOKIE = "dpsgd_visitor"
USER_SALT = "dpsgd_user"
COOKIE_SECONDS = 365 * 24 * 3600
KEY_FILE = "cookie.key"
KEY_BYTES = 32


def current_visitor() -> str:
    """Return the visitor of this request, "" if the cookie is missing or forged."""
    if "visitor" in g:
        return str(g.visitor)
    if user := user_of(request.environ):
        return _visitor_of(user)
    try:
        return _signer().unsign(request.cookies.get(COOKIE, "")).decode()
    except (BadSignature, UnicodeDecodeError):
        return ""


def known_visitor() -> str:
    """Return the visitor of this request; set a cookie for a new visitor."""
    visitor = current_visitor()
    if visitor:
        return visitor
    visitor = g.visitor = secrets.token_urlsafe(16)
    signed = _signer().sign(visitor).decode()

    @after_this_request
    def hand_out(response: Response) -> Response:
        response.set_cookie(
            COOKIE,
            signed,
            max_age=COOKIE_SECONDS,
            httponly=True,
            samesite="Lax",
            secure=request.is_secure,
        )
        return response

    return visitor


def drop_cookie() -> None:
    """Delete the browser's cookie; its next launch makes it a new visitor."""

    @after_this_request
    def drop(response: Response) -> Response:
        response.delete_cookie(
            COOKIE, httponly=True, samesite="Lax", secure=request.is_secure
        )
        return response


def make_signer(instance_dir: Path, secret_key: str = "") -> Signer:
    """Return the signer of this installation.

    Args:
        instance_dir: Folder that contains the key file.
        secret_key: Key that all web servers of a site share, instead of the file; ""
            for none.
    """
    key = secret_key.encode() or cookie_key(instance_dir / KEY_FILE)
    return Signer(key, salt=COOKIE, digest_method=hashlib.sha256)


def cookie_key(path: Path) -> bytes:
    """Return the key of a file that only its owner may read; create it if missing.

    Raises:
        ConfigError: the file does not contain a key.
    """
    if not path.exists():
        _create_key(path)
    key = path.read_bytes()
    if len(key) != KEY_BYTES:
        raise ConfigError(
            "DPSGD_INSTANCE_DIR",
            f"{path} must have {KEY_BYTES} random bytes, got {len(key)}. Delete it and "
            "start the site again; visitors then lose their list of runs.",
        )
    return key


def _create_key(path: Path) -> None:
    """Write the key to a temporary file and link it, so that the file is complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(handle, "wb") as file:  # mkstemp creates it with mode 0600
            file.write(secrets.token_bytes(KEY_BYTES))
            file.flush()
            os.fsync(file.fileno())
        os.link(temporary, path)
    except FileExistsError:
        return  # another process was first: its key is used
    finally:
        Path(temporary).unlink()


def _visitor_of(user: str) -> str:
    """Return the visitor of a user; computing it needs the key of the site.

    Args:
        user: Name from the header; each character is a byte.
    """
    keys = _signer().secret_keys
    signer = Signer(keys, salt=USER_SALT, digest_method=hashlib.sha256)
    return signer.get_signature(user.encode("latin-1")).decode()


def _signer() -> Signer:
    signer: Signer = current_app.extensions["visitor_signer"]
    return signer

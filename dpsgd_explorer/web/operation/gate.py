"""Who is the operator: a browser that came by a link, or a program with the token.

DPSGD_ADMIN_TOKEN never travels in an address.  ``python -m dpsgd_explorer admin``
signs a link with it that is good for minutes; the page there has one button, which
gives the browser a signed cookie for some hours.  A program sends the token as
``Authorization: Bearer``.  With another token, links and cookies of the old one end.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Final, Literal

from flask import Response, request
from itsdangerous import BadSignature, TimestampSigner

from dpsgd_explorer.web.http.services import settings

COOKIE = "dpsgd_operator"
LINK: Final = "link"
SESSION: Final = "session"
SECONDS = {LINK: 10 * 60, SESSION: 8 * 3600}
OPERATOR = "operator"
PATH = "/admin/"
Purpose = Literal["link", "session"]


def sign(token: str, purpose: Purpose) -> str:
    """Return a ticket of now, for a link or for a cookie."""
    return _signer(token, purpose).sign(OPERATOR).decode()


def is_valid(token: str, purpose: Purpose, ticket: str) -> bool:
    """Whether a ticket was signed with this token, for this purpose, lately."""
    try:
        _signer(token, purpose).unsign(ticket, max_age=SECONDS[purpose])
    except BadSignature:  # SignatureExpired too
        return False
    return bool(token)


def is_operator() -> bool:
    """Whether this request comes from the operator of the site."""
    token = settings().operation.admin_token
    return has_bearer(token) or is_valid(
        token, SESSION, request.cookies.get(COOKIE, "")
    )


def has_bearer(token: str) -> bool:
    """Whether this request sends the token; never if there is none."""
    scheme, _, sent = request.headers.get("Authorization", "").partition(" ")
    is_equal = hmac.compare_digest(sent.encode(), token.encode())
    return bool(token) and scheme.lower() == "bearer" and is_equal


def admit(response: Response) -> Response:
    """Give the browser the cookie of an operator."""
    response.set_cookie(
        COOKIE,
        sign(settings().operation.admin_token, SESSION),
        max_age=SECONDS[SESSION],
        path=PATH,
        httponly=True,
        samesite="Strict",
        secure=request.is_secure,
    )
    return response


def dismiss(response: Response) -> Response:
    """Have the browser forget the cookie of an operator."""
    response.delete_cookie(
        COOKIE, path=PATH, httponly=True, samesite="Strict", secure=request.is_secure
    )
    return response


def _signer(token: str, purpose: Purpose) -> TimestampSigner:
    return TimestampSigner(
        token.encode(), salt=f"{COOKIE} {purpose}", digest_method=hashlib.sha256
    )

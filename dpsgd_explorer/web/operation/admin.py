"""``/admin/``: the queue, the workers and the runs of a site, for its operator.

To everyone else there is no such page: whatever they ask below it, they get the answer
that any unknown address gets.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import fields

from flask import Blueprint, Response, abort, current_app, redirect, request, url_for
from flask import render_template as render
from werkzeug.wrappers import Response as WerkzeugResponse

from dpsgd_explorer.quotas import Quotas
from dpsgd_explorer.web.http.services import fleet, settings
from dpsgd_explorer.web.operation import gate

bp = Blueprint("admin", __name__, url_prefix="/admin")
ENTRANCE = "admin.entrance"
DONE = {
    "paused": (
        "No run starts until the queue is resumed. Runs that have started continue."
    ),
    "resumed": "Runs start again.",
    "ended": "The run ends; its visitor sees that the operator ended it.",
}


@bp.before_app_request
def hide_from_others() -> None:
    """Answer as if there were no page, to everyone but the operator."""
    is_below = request.path.rstrip("/") == bp.url_prefix or request.path.startswith(
        f"{bp.url_prefix}/"
    )
    if is_below and not (_comes_by_link() or gate.is_operator()):
        abort(404)


@bp.get("/")
def index() -> str:
    """Show the site as it is now."""
    site = fleet()
    return render(
        "admin/index.html",
        reading=site.read(),
        runs=site.unfinished(),
        usage=site.usage(),
        limits=_limits(settings().quotas),
        done=DONE.get(request.args.get("done", "")),
        now=time.time(),
        alias=alias,
    )


@bp.route("/enter/<ticket>", methods=["GET", "POST"])
def entrance(ticket: str) -> str | Response:
    """Offer the button that makes this browser the operator's; press it."""
    if request.method == "GET":
        return render("admin/enter.html", ticket=ticket)
    if not fleet().use_link(ticket, gate.SECONDS[gate.LINK]):
        abort(404)
    return gate.admit(_to_index())


@bp.post("/leave")
def leave() -> Response:
    """Take the cookie back."""
    response = current_app.make_response(redirect(url_for("home.index"), 303))
    return gate.dismiss(response)


@bp.post("/queue/pause")
def pause() -> WerkzeugResponse:
    """Let no run start."""
    fleet().pause_queue()
    return _to_index(done="paused")


@bp.post("/queue/resume")
def resume() -> WerkzeugResponse:
    """Let runs start again."""
    fleet().resume_queue()
    return _to_index(done="resumed")


@bp.post("/runs/<ended>/end")
def end(ended: str) -> WerkzeugResponse:
    """End a run, also one that is for its visitor alone."""
    fleet().end_run(ended)
    return _to_index(done="ended")


def alias(visitor: str) -> str:
    """Return a short name for a visitor, which leads to no cookie."""
    return hashlib.blake2b(visitor.encode(), digest_size=4).hexdigest()


def _comes_by_link() -> bool:
    """Whether the request is for the entrance, with a ticket that is good."""
    ticket = (request.view_args or {}).get("ticket", "")
    token = settings().operation.admin_token
    return request.endpoint == ENTRANCE and gate.is_valid(token, gate.LINK, ticket)


def _to_index(done: str | None = None) -> Response:
    address = url_for("admin.index", done=done)  # None is left out
    return current_app.make_response(redirect(address, 303))


def _limits(quotas: Quotas) -> list[tuple[str, object]]:
    """Return what each limit means, and its value."""
    return [
        (field.metadata["meaning"], getattr(quotas, field.name))
        for field in fields(quotas)
    ]

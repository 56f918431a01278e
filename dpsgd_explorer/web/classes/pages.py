"""The pages of classes; their scripts act by the routes of ``web.classes.api``."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, make_response, redirect, render_template, request, url_for
from werkzeug.wrappers import Response

from dpsgd_explorer.experiments.catalogue import DATA_SETS
from dpsgd_explorer.experiments.kinds import KINDS
from dpsgd_explorer.runs.classes.membership import check_is_open
from dpsgd_explorer.runs.classes.plan import (
    MAX_DAYS,
    MAX_LAUNCHES,
    MAX_NICKNAME_LENGTH,
    default_plan,
)
from dpsgd_explorer.runs.classes.records import Class, names_of
from dpsgd_explorer.web.classes.api import MOST_SHOWN
from dpsgd_explorer.web.classes.links import TEACHER, entrance_of
from dpsgd_explorer.web.classes.models import ClassSummary
from dpsgd_explorer.web.classes.roster import Entry, Order, entries_of
from dpsgd_explorer.web.http.services import classes, settings
from dpsgd_explorer.web.http.visitor import current_visitor
from dpsgd_explorer.web.run_views.group_models import MOST_EVENTS

bp = Blueprint("classes", __name__)


@bp.get("/classes/")
def index() -> str:
    """Show the form that makes a class, and the classes this visitor is in."""
    visitor, quotas = current_visitor(), settings().quotas
    found = classes().of(visitor) if visitor else []
    return render_template(
        "classes/index.html",
        classes=[ClassSummary.of(one, visitor) for one in found],
        usual=default_plan(quotas),
        most={
            "launches": quotas.class_launches or MAX_LAUNCHES,
            "days": quotas.class_days or MAX_DAYS,
            "students": quotas.class_students,
        },
        setup=request.args.get("setup", ""),
        keep_days=settings().keep_days,
    )


@bp.get("/class/<code>/")
def entrance(code: str) -> str | Response:
    """Say what joining means, to who has a link; who is in goes to the class.

    The page asks the browser to send its address, which is a secret, nowhere.
    """
    asked = entrance_of(code)
    member = asked.found.member(current_visitor())
    if member is not None and (member.is_teacher or asked.role != TEACHER):
        return redirect(url_for("classes.show", class_id=asked.found.id))
    if asked.role != TEACHER:
        check_is_open(asked.found)
    page = render_template(
        "classes/join.html",
        found=asked.found,
        teaches=asked.role == TEACHER,
        longest=MAX_NICKNAME_LENGTH,
        keep_days=settings().keep_days,
        page_data={"code": code},
    )
    response = make_response(page)
    response.headers["Cache-Control"] = "no-store"
    return response


@bp.get("/classes/<class_id>/")
def show(class_id: str) -> str:
    """Show a class to who is in it: the chart of its runs, and its roster."""
    found = classes().get(class_id, current_visitor())
    return render_template("classes/show.html", **_shown(found))


@bp.get("/classes/<class_id>/roster/")
def roster(class_id: str) -> str:
    """Return the part of the page that changes, for its script."""
    found = classes().get(class_id, current_visitor())
    return render_template("classes/_roster.html", **_shown(found))


def _shown(found: Class) -> dict[str, Any]:
    order, names = Order.of(request.args), names_of(found.members)
    visitor = current_visitor()
    rows = classes().roster(found.id, MOST_SHOWN, visitor=visitor)
    entries = entries_of(found, rows)
    return {
        "found": ClassSummary.of(found, visitor),
        "member": found.member(visitor),
        "students": [(one, names[one.number]) for one in found.students],
        "names": names,
        "entries": order.apply(entries),
        "order": order,
        "most": MOST_SHOWN,
        "keep_days": settings().keep_days,
        "roster_data": {
            "version": found.version,
            "runs": [_for_script(one) for one in entries],
        },
        "page_data": {
            "log": f"/api/v1/classes/{found.id}/events.json",
            "most_events": MOST_EVENTS,
            "roster": url_for("classes.roster", class_id=found.id),
        },
    }


def _for_script(entry: Entry) -> dict[str, Any]:
    run = entry.run
    data = DATA_SETS.get(str(run.config.get("dataset")))
    return {
        "id": run.id,
        "student": entry.student,
        "private": entry.is_private,
        "counted": run.config.get("filter_epsilon") is not None,
        "planned": run.steps,
        "budget": run.config.get("filter_epsilon") or run.config.get("target_epsilon"),
        "drawn": KINDS[run.kind].compared,
        "dataset": data.label if data else str(run.config.get("dataset", "")),
    }

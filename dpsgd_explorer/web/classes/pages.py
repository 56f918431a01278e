"""The pages of classes; their scripts use the routes of ``web.classes.api``."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, make_response, redirect, render_template, request, url_for
from werkzeug.wrappers import Response

from dpsgd_explorer.experiments.catalogue import DATA_SETS
from dpsgd_explorer.experiments.kinds import KINDS
from dpsgd_explorer.runs.classes.classes import DAYS, LAUNCHES
from dpsgd_explorer.runs.classes.membership import (
    MAX_NICKNAME_LENGTH,
    MAX_STUDENTS,
    check_is_open,
)
from dpsgd_explorer.web.charts.several_runs import OF_A_CLASS, RunLine
from dpsgd_explorer.web.classes.links import TEACHER, entrance_of
from dpsgd_explorer.web.classes.models import ClassAnswer
from dpsgd_explorer.web.classes.roster import Entry, entries_of
from dpsgd_explorer.web.http.services import classes, settings
from dpsgd_explorer.web.http.visitor import current_visitor
from dpsgd_explorer.web.run_views.group_models import MOST_EVENTS

bp = Blueprint("classes", __name__)

MOST_SHOWN = 400  # runs on a page; the CSV file has all
MOST_LETTERS = 24  # of a student's name on the chart


@bp.get("/classes/")
def index() -> str:
    """Shows the form for a new class, and the visitor's classes."""
    visitor = current_visitor()
    mine = classes().of(visitor) if visitor else []
    return render_template(
        "classes/index.html",
        classes=[ClassAnswer.of(class_, visitor) for class_ in mine],
        quota={"launches": LAUNCHES, "days": DAYS, "students": MAX_STUDENTS},
        setup=request.args.get("setup", ""),
        keep_days=settings().keep_days,
    )


@bp.get("/class/<code>/")
def entrance(code: str) -> str | Response:
    """Shows the join page to anyone with the link; redirects members to the class.

    The page forbids the browser to send its address, which is secret, to other sites.
    """
    target = entrance_of(code)
    class_, teaches = target.class_, target.role == TEACHER
    member = class_.member(current_visitor())
    if member is not None and (member.is_teacher or not teaches):
        return redirect(url_for("classes.show", class_id=class_.id))
    if not teaches:
        check_is_open(class_)
    page = render_template(
        "classes/join.html",
        class_=class_,
        teaches=teaches,
        longest=MAX_NICKNAME_LENGTH,
        keep_days=settings().keep_days,
        page_data={"code": code},
    )
    response = make_response(page)
    response.headers["Cache-Control"] = "no-store"
    return response


@bp.get("/classes/<class_id>/")
def show(class_id: str) -> str:
    """Shows a class to its members: the chart of its runs, and its roster."""
    return render_template("classes/show.html", **_shown(class_id))


@bp.get("/classes/<class_id>/roster/")
def roster(class_id: str) -> str:
    """Returns the part of the page that changes, for its script."""
    return render_template("classes/_roster.html", **_shown(class_id))


def _shown(class_id: str) -> dict[str, Any]:
    visitor = current_visitor()
    class_ = classes().get(class_id, visitor)
    entries = entries_of(classes().roster(class_, visitor, MOST_SHOWN), class_.setup)
    shows_all = class_.shows_all_to(visitor)
    return {
        "class_": ClassAnswer.of(class_, visitor),
        "member": class_.member(visitor),
        "students": [
            student
            for student in class_.students
            if shows_all or student.visitor == visitor
        ],
        "entries": entries,
        "most": MOST_SHOWN,
        "chart": OF_A_CLASS,
        "keep_days": settings().keep_days,
        "roster_data": {
            "version": class_.version,
            "runs": [_for_script(entry) for entry in entries],
        },
        "page_data": {
            "log": f"/api/v1/classes/{class_.id}/events.json",
            "most_events": MOST_EVENTS,
            "chart": OF_A_CLASS.described(),
            "roster": url_for("classes.roster", class_id=class_.id),
        },
    }


def _short(name: str) -> str:
    """Returns a student's name, cut to fit on the chart."""
    return name if len(name) <= MOST_LETTERS else f"{name[: MOST_LETTERS - 1]}…"


def _for_script(entry: Entry) -> dict[str, Any]:
    run = entry.run
    data = DATA_SETS.get(str(run.config.get("dataset")))
    line = RunLine(
        key=run.id,
        label=_short(entry.student),
        dashed=not entry.is_private,
        dataset=data.label if data else str(run.config.get("dataset", "")),
        private=entry.is_private,
        counted=run.config.get("filter_epsilon") is not None,
        planned=run.steps,
        budget=run.config.get("filter_epsilon") or run.config.get("target_epsilon"),
    )
    return line.described() | {"drawn": KINDS[run.kind].compared}

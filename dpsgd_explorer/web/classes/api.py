"""Make, join, read and end classes."""

from __future__ import annotations

import re

from flask import Blueprint, Response
from werkzeug.routing import BaseConverter

from dpsgd_explorer.runs.classes.records import Class
from dpsgd_explorer.web.api.operation import operation, reply
from dpsgd_explorer.web.classes.links import TEACHER, entrance_of
from dpsgd_explorer.web.classes.models import (
    ClassAnswer,
    ClassList,
    ClassLog,
    ClassRequest,
    ClassSummary,
    JoinRequest,
)
from dpsgd_explorer.web.classes.roster import as_csv, entries_of
from dpsgd_explorer.web.http.networks import request_network
from dpsgd_explorer.web.http.services import classes
from dpsgd_explorer.web.http.visitor import current_visitor, known_visitor
from dpsgd_explorer.web.run_views.group_models import (
    MOST_EVENTS,
    GroupEvent,
    GroupPosition,
)

bp = Blueprint("classes_api", __name__, url_prefix="/api/v1/classes")

MOST_SHOWN = 400  # runs of an answer; the CSV has all
OVER = 410


class ClassId(BaseConverter):
    """The place of a class's id in an address; ``join`` has an address of its own."""

    regex = r"(?!join(?:/|$))[^/]+"


NUMBER = re.compile("[0-9]{1,9}")


@operation(bp, "POST", "", answer=ClassAnswer, status=201, errors=(429, 507))
def make_class(body: ClassRequest) -> Response:
    """Creates a class and makes this visitor its teacher.

    Returns 201 with the class's address in ``Location``. ``links`` contains the secret
    links for students and teachers.
    """
    network = request_network()
    made = classes().make(body.plan, visitor=known_visitor(), network=network)
    answer = _answer(made)
    return reply(answer, 201, {"Location": answer.links["self"]})


@operation(bp, "GET", "")
def list_classes() -> ClassList:
    """Lists the classes of this visitor, newest first.

    The list contains the classes in which the visitor is a teacher or a student.
    """
    visitor = current_visitor()
    found = classes().of(visitor) if visitor else []
    return ClassList(classes=[ClassSummary.of(one, visitor) for one in found])


@operation(bp, "POST", "/join", errors=(404, OVER, 429))
def join_class(body: JoinRequest) -> ClassAnswer:
    """Joins the class that a secret link belongs to.

    ``code`` is the last part of the link. The students' link makes the visitor a
    student, the teachers' link a teacher.
    """
    entrance = entrance_of(body.code)
    visitor, class_id = known_visitor(), entrance.found.id
    if entrance.role == TEACHER:
        return _answer(classes().teach(class_id, visitor))
    return _answer(classes().join(class_id, visitor, body.nickname))


@operation(bp, "GET", "/<class_id:class_id>")
def show_class(class_id: str) -> ClassAnswer:
    """Returns one class with its quota, students and newest runs.

    The answer contains at most 400 runs; the roster contains all. Visitors outside the
    class get 404.
    """
    return _answer(classes().get(class_id, current_visitor()))


@operation(bp, "GET", "/<class_id:class_id>/events.json")
def class_log(class_id: str, query: GroupPosition) -> ClassLog:
    """Returns the events of all runs of a class after a given event, oldest first.

    Events of single steps are left out. If ``version`` has changed, the members, runs
    or state of the class have changed.
    """
    found = classes().get(class_id, current_visitor())
    visitor = current_visitor()
    events = classes().events(class_id, query.after, MOST_EVENTS, visitor=visitor)
    return ClassLog(
        version=found.version,
        is_over=found.is_over,
        events=[GroupEvent.of(event) for event in events],
    )


@operation(bp, "GET", "/<class_id:class_id>/roster.csv", media_types=("text/csv",))
def roster(class_id: str) -> Response:
    """Downloads all runs of a class as CSV, one run per row.

    Each row contains ε, the terms of the guarantee and all settings.
    """
    found = classes().get(class_id, current_visitor())
    rows = classes().roster(class_id, visitor=current_visitor())
    text = as_csv(entries_of(found, rows))
    name = f"dpsgd-class-{class_id[:8]}.csv"
    kept = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(text, mimetype="text/csv", headers=kept)


@operation(bp, "POST", "/<class_id:class_id>/leave", status=204)
def leave_class(class_id: str) -> Response:
    """Leaves a class.

    The visitor's runs leave the roster of the class and still belong to the visitor.
    """
    classes().leave(class_id, current_visitor())
    return Response(status=204)


@operation(bp, "POST", "/<class_id:class_id>/close")
def close_class(class_id: str) -> ClassAnswer:
    """Closes a class: nobody can join it or launch runs for it.

    Only a teacher of the class may close it. Its members can still read the class.
    """
    return _answer(classes().close(class_id, current_visitor()))


@operation(bp, "POST", "/<class_id:class_id>/links")
def renew_links(class_id: str) -> ClassAnswer:
    """Replaces both secret links of a class.

    The previous links stop working. Only a teacher of the class may replace them.
    """
    return _answer(classes().renew_links(class_id, current_visitor()))


@operation(bp, "DELETE", "/<class_id:class_id>", status=204)
def delete_class(class_id: str) -> Response:
    """Deletes a class and its roster.

    The runs of the class are not deleted and continue. Only a teacher of the class may
    delete it.
    """
    classes().delete(class_id, current_visitor())
    return Response(status=204)


@operation(bp, "DELETE", "/<class_id:class_id>/students/<number>", status=204)
def remove_student(class_id: str, number: str) -> Response:
    """Removes a student from a class for good.

    Only a teacher of the class may remove students.
    """
    student = int(number) if NUMBER.fullmatch(number) else 0
    classes().remove_student(class_id, student, current_visitor())
    return Response(status=204)


@operation(bp, "DELETE", "/<class_id:class_id>/runs/<run_id>", status=204)
def remove_run(class_id: str, run_id: str) -> Response:
    """Removes a run from a class.

    A teacher of the class and the visitor who launched the run may remove it. The run
    itself is not deleted.
    """
    classes().remove_run(class_id, run_id, current_visitor())
    return Response(status=204)


def _answer(found: Class) -> ClassAnswer:
    visitor = current_visitor()
    rows = classes().roster(found.id, MOST_SHOWN, visitor=visitor)
    return ClassAnswer.whole(found, visitor, entries_of(found, rows))

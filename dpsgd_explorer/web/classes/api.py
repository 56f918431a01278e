"""Routes that create, join, read and end classes."""

from __future__ import annotations

import re

from flask import Blueprint, Response
from werkzeug.routing import BaseConverter

from dpsgd_explorer.web.api.operation import operation, reply
from dpsgd_explorer.web.classes.links import TEACHER, entrance_of
from dpsgd_explorer.web.classes.models import (
    ClassAnswer,
    ClassList,
    ClassLog,
    ClassRequest,
    JoinRequest,
)
from dpsgd_explorer.web.classes.roster import as_csv, entries_of
from dpsgd_explorer.web.classes.setup import setup_query
from dpsgd_explorer.web.http.networks import request_network
from dpsgd_explorer.web.http.services import classes
from dpsgd_explorer.web.http.visitor import current_visitor, known_visitor
from dpsgd_explorer.web.run_views.group_models import (
    MOST_EVENTS,
    GroupEvent,
    GroupPosition,
)

bp = Blueprint("classes_api", __name__, url_prefix="/api/v1/classes")

OVER = 410
NUMBER = re.compile("[0-9]{1,9}")


class ClassId(BaseConverter):
    """Id of a class in an address; ``join`` is another route."""

    regex = r"(?!join(?:/|$))[^/]+"


@operation(bp, "POST", "", answer=ClassAnswer, status=201, errors=(429, 507))
def create_class(body: ClassRequest) -> Response:
    """Creates a class and makes this visitor its teacher.

    Returns 201 with the class's address in ``Location``. ``links`` contains the secret
    links for students and teachers.
    """
    visitor = known_visitor()
    created = classes().create(
        body.name,
        visitor=visitor,
        network=request_network(),
        setup=setup_query(body.setup),
        shares_runs=body.shares_runs,
    )
    answer = ClassAnswer.of(created, visitor)
    return reply(answer, 201, {"Location": answer.links["self"]})


@operation(bp, "GET", "")
def list_classes() -> ClassList:
    """Lists the classes of this visitor, newest first.

    The list contains classes that the visitor teaches or has joined.
    """
    visitor = current_visitor()
    mine = classes().of(visitor) if visitor else []
    return ClassList(classes=[ClassAnswer.of(class_, visitor) for class_ in mine])


@operation(bp, "POST", "/join", errors=(404, OVER, 429))
def join_class(body: JoinRequest) -> ClassAnswer:
    """Joins the class that a secret link belongs to.

    ``code`` is the last part of the link. The students' link makes the visitor a
    student, the teachers' link a teacher.
    """
    entrance = entrance_of(body.code)
    visitor, class_id = known_visitor(), entrance.class_.id
    if entrance.role == TEACHER:
        joined = classes().teach(class_id, visitor)
    else:
        joined = classes().join(class_id, visitor, body.nickname)
    return ClassAnswer.of(joined, visitor)


@operation(bp, "GET", "/<class_id:class_id>")
def show_class(class_id: str) -> ClassAnswer:
    """Returns one class with its quota.

    The roster contains its runs. Visitors outside the class get 404.
    """
    visitor = current_visitor()
    return ClassAnswer.of(classes().get(class_id, visitor), visitor)


@operation(bp, "GET", "/<class_id:class_id>/events.json")
def class_log(class_id: str, query: GroupPosition) -> ClassLog:
    """Returns the events of all runs of a class after a given event, oldest first.

    Events of single steps are left out. If ``version`` has changed, the members, runs
    or state of the class have changed.
    """
    visitor = current_visitor()
    class_ = classes().get(class_id, visitor)
    events = classes().events(class_, visitor, query.after, MOST_EVENTS)
    return ClassLog(
        version=class_.version,
        is_over=class_.is_over,
        events=[GroupEvent.of(event) for event in events],
    )


@operation(bp, "GET", "/<class_id:class_id>/roster.csv", media_types=("text/csv",))
def roster(class_id: str) -> Response:
    """Downloads all runs of a class as CSV, one run per row.

    Each row contains ε, the terms of the guarantee and all settings.
    """
    visitor = current_visitor()
    class_ = classes().get(class_id, visitor)
    text = as_csv(entries_of(classes().roster(class_, visitor), class_.setup))
    name = f"dpsgd-class-{class_id[:8]}.csv"
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(text, mimetype="text/csv", headers=headers)


@operation(bp, "POST", "/<class_id:class_id>/leave", status=204)
def leave_class(class_id: str) -> Response:
    """Leaves a class, as a student.

    The visitor's runs leave the roster of the class and still belong to the visitor.
    """
    classes().leave(class_id, current_visitor())
    return Response(status=204)


@operation(bp, "POST", "/<class_id:class_id>/close")
def close_class(class_id: str) -> ClassAnswer:
    """Closes a class: nobody can join it or launch runs for it.

    Only a teacher of the class may close it. Its members can still read the class.
    """
    visitor = current_visitor()
    return ClassAnswer.of(classes().close(class_id, visitor), visitor)


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
    """Removes a student and the student's runs from a class for good.

    Only a teacher of the class may remove students.
    """
    student = int(number) if NUMBER.fullmatch(number) else 0
    classes().remove_student(class_id, student, current_visitor())
    return Response(status=204)

"""Launch, read, stop and delete groups of runs."""

from __future__ import annotations

from flask import Blueprint, Response

from dpsgd_explorer.runs.store.records import Group
from dpsgd_explorer.web.api.operation import operation, reply
from dpsgd_explorer.web.http.data_sets import check_data
from dpsgd_explorer.web.http.networks import request_network
from dpsgd_explorer.web.http.own_tables import visible_group
from dpsgd_explorer.web.http.services import doorbell, run_store
from dpsgd_explorer.web.http.visitor import current_visitor, known_visitor
from dpsgd_explorer.web.run_views.group_models import (
    MOST_EVENTS,
    GroupAnswer,
    GroupEvent,
    GroupLog,
    GroupPosition,
    GroupRequest,
)

bp = Blueprint("groups_api", __name__, url_prefix="/api/v1/groups")


@operation(bp, "POST", "", answer=GroupAnswer, status=201, errors=(429, 507))
def launch_group(body: GroupRequest) -> Response:
    """Queues all runs of a group, or none.

    The group counts as one launch. Returns 201 with the group's address in
    ``Location``.
    """
    made = body.group
    for config in made.configs:
        check_data(config)
    network = request_network()
    group = run_store().create_group(made, visitor=known_visitor(), network=network)
    for run in group.runs:
        doorbell().ring(run.id)
    answer = _answer(group)
    return reply(answer, 201, {"Location": answer.links["self"]})


@operation(bp, "GET", "/<group_id>")
def show_group(group_id: str) -> GroupAnswer:
    """Returns a group with its runs.

    Anyone with the id of the group may read it.
    """
    return _answer(visible_group(group_id))


@operation(bp, "GET", "/<group_id>/events.json")
def group_log(group_id: str, query: GroupPosition) -> GroupLog:
    """Returns the events of all runs of a group after a given event, oldest first.

    Events of single steps are left out. If ``has_ended`` is true and there are no
    events, none will follow.
    """
    group = visible_group(group_id)
    events = run_store().group_events(group_id, query.after, MOST_EVENTS)
    return GroupLog(
        has_ended=group.has_ended, events=[GroupEvent.of(event) for event in events]
    )


@operation(bp, "POST", "/<group_id>/cancel")
def cancel_group(group_id: str) -> GroupAnswer:
    """Stops all runs of a group.

    Queued runs stop immediately, and running ones within seconds. Only the visitor who
    launched the group may stop it.
    """
    return _answer(run_store().cancel_group(group_id, current_visitor()))


@operation(bp, "DELETE", "/<group_id>", status=204)
def delete_group(group_id: str) -> Response:
    """Deletes all runs of a group with their logs.

    Each run can be restored for ten seconds. Only the visitor who launched the group
    may delete it.
    """
    run_store().delete_group(group_id, current_visitor())
    return Response(status=204)


def _answer(group: Group) -> GroupAnswer:
    store = run_store()
    return GroupAnswer.of(
        group,
        current_visitor(),
        store.phases_of([run.id for run in group.runs]),
    )

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
    """Queue all runs of a group, or none; 201 with its Location."""
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
    """Return a group with its runs; whoever has its id may read it."""
    return _answer(visible_group(group_id))


@operation(bp, "GET", "/<group_id>/events.json")
def group_log(group_id: str, query: GroupPosition) -> GroupLog:
    """Return events of all runs of a group behind ``after``, oldest first."""
    group = visible_group(group_id)
    events = run_store().group_events(group_id, query.after, MOST_EVENTS)
    return GroupLog(
        has_ended=group.has_ended, events=[GroupEvent.of(event) for event in events]
    )


@operation(bp, "POST", "/<group_id>/cancel")
def cancel_group(group_id: str) -> GroupAnswer:
    """Stop all runs of a group of this visitor; running ones end within seconds."""
    return _answer(run_store().cancel_group(group_id, current_visitor()))


@operation(bp, "DELETE", "/<group_id>", status=204)
def delete_group(group_id: str) -> Response:
    """Delete a group of this visitor with its runs and their logs; 204."""
    run_store().delete_group(group_id, current_visitor())
    return Response(status=204)


def _answer(group: Group) -> GroupAnswer:
    store = run_store()
    return GroupAnswer.of(
        group,
        current_visitor(),
        store.phases_of([run.id for run in group.runs]),
        expected_seconds=store.expected_group_seconds(group),
    )

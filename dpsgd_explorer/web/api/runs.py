"""Launch, list, read, label, stop and delete runs."""

from __future__ import annotations

from flask import Blueprint, Response

from dpsgd_explorer.errors import ConfigError, RunNotFoundError
from dpsgd_explorer.experiments.config import RunConfig
from dpsgd_explorer.experiments.kinds import parse
from dpsgd_explorer.experiments.own_table import is_own
from dpsgd_explorer.runs.store.deletion import Forgotten
from dpsgd_explorer.runs.store.records import Run
from dpsgd_explorer.runs.store.schema import QUEUED
from dpsgd_explorer.web.api.operation import operation, reply
from dpsgd_explorer.web.http.data_sets import check_data
from dpsgd_explorer.web.http.networks import request_network
from dpsgd_explorer.web.http.own_tables import tables, visible_run
from dpsgd_explorer.web.http.services import (
    classes,
    doorbell,
    run_store,
)
from dpsgd_explorer.web.http.visitor import current_visitor, drop_cookie, known_visitor
from dpsgd_explorer.web.run_views.models import (
    ANY_REQUEST,
    ForgottenAnswer,
    FurtherSteps,
    RunAnswer,
    RunLabels,
    RunList,
    RunRequest,
    RunSummary,
    SettingsChange,
)
from dpsgd_explorer.web.run_views.naming import title_of

bp = Blueprint("runs_api", __name__, url_prefix="/api/v1/runs")


@operation(
    bp,
    "POST",
    "",
    body=ANY_REQUEST,
    answer=RunAnswer,
    status=201,
    errors=(404, 410, 429, 507),
)
def launch(body: RunRequest) -> Response:
    """Queues a run.

    The body contains the settings of a run of some ``kind``, all optional. Returns 201
    with the run's address in ``Location``.
    """
    labels = body.labels
    if labels["parent"]:
        _check_parent(labels["parent"])
    check_data(body.config)
    labels["title"] = title_of(body.config.kind, body.config.model_dump(mode="json"))
    class_id = labels.pop("class_id")
    if class_id:
        run = _launched_for(body.config, class_id, labels)
    else:
        run = run_store().create(
            body.config, visitor=known_visitor(), network=request_network(), **labels
        )
    doorbell().ring(run.id)
    answer = _answer(run)
    return reply(answer, 201, {"Location": answer.links["self"]})


@operation(bp, "GET", "")
def list_runs() -> RunList:
    """Lists the runs of this visitor, newest first.

    The visitor is identified by a signed cookie. Without the cookie the list is empty.
    """
    visitor = current_visitor()
    mine = run_store().runs_of(visitor) if visitor else []
    return RunList(runs=[RunSummary.of(run, visitor) for run in mine])


@operation(bp, "GET", "/<run_id>")
def show(run_id: str) -> RunAnswer:
    """Returns one run with its settings, state and ε.

    Anyone with the id of the run may read it. While the run is queued, the answer
    contains its position.
    """
    return _answer(run_store().get(run_id))


@operation(bp, "PATCH", "/<run_id>")
def label(run_id: str, body: RunLabels) -> RunAnswer:
    """Changes the name, note or star of a run.

    Fields that are left out do not change. Only the visitor who launched the run may
    label it.
    """
    labels = body.model_dump(exclude_none=True)
    if not labels:
        names = ", ".join(RunLabels.model_fields)
        raise ConfigError("name", f"at least one of {names} must be given, got none.")
    return _answer(run_store().label(run_id, current_visitor(), **labels))


@operation(bp, "DELETE", "/<run_id>", status=204)
def delete(run_id: str) -> Response:
    """Deletes a run and its log, and stops the run if it is running.

    The run can be restored for ten seconds. Only the visitor who launched the run may
    delete it.
    """
    run_store().delete(run_id, current_visitor())
    return Response(status=204)


@operation(bp, "POST", "/<run_id>/restore")
def restore(run_id: str) -> RunAnswer:
    """Restores a deleted run.

    A run can be restored for ten seconds after its deletion, by the visitor who
    launched it.
    """
    return _answer(run_store().restore(run_id, current_visitor()))


@operation(bp, "DELETE", "")
def forget() -> ForgottenAnswer:
    """Deletes all runs and tables of this visitor, and the cookie.

    The runs cannot be restored. The answer contains the number of deleted runs.
    """
    visitor = current_visitor()
    forgotten = run_store().forget_visitor(visitor) if visitor else Forgotten(0, 0)
    tables().delete_all()
    drop_cookie()
    return ForgottenAnswer(runs=forgotten.runs, launches=forgotten.launches)


@operation(bp, "POST", "/<run_id>/cancel")
def cancel(run_id: str) -> RunAnswer:
    """Stops a run.

    A queued run stops immediately, and a running one within seconds. Only the visitor
    who launched the run may stop it.
    """
    return _answer(run_store().cancel(run_id, current_visitor()))


@operation(bp, "POST", "/<run_id>/pause")
def pause(run_id: str) -> RunAnswer:
    """Pauses a run after its current step.

    The run keeps its process for half a minute, and its results for good. Only the
    visitor who launched the run may pause it.
    """
    run_store().pauses.pause(run_id, current_visitor())
    return _answer(run_store().get(run_id))


@operation(bp, "POST", "/<run_id>/resume")
def resume(run_id: str) -> RunAnswer:
    """Resumes a paused run.

    If the run no longer has a process, it waits at the front of the queue.
    """
    run_store().pauses.resume(run_id, current_visitor())
    return _ringing(run_store().get(run_id))


@operation(bp, "POST", "/<run_id>/step")
def step(run_id: str) -> RunAnswer:
    """Takes one step of a paused run, with its gradients in the log.

    A ``microscope`` event contains the gradients of the step, projected to a plane, and
    their norms. These values are not private.
    """
    run_store().pauses.take_step(run_id, current_visitor())
    return _ringing(run_store().get(run_id))


@operation(bp, "POST", "/<run_id>/change")
def change(run_id: str, body: SettingsChange) -> RunAnswer:
    """Changes settings of a run from its next step on.

    The learning rate and the clipping bound do not enter ε. Noise, batch size and steps
    require a budget for changes that was fixed at the start; a privacy filter counts
    every step against it. ε covers changes that depend on private releases only, and
    the log records each change as a ``phase`` event.
    """
    values = body.model_dump(exclude_none=True)
    run_store().pauses.change(run_id, current_visitor(), values)
    return _answer(run_store().get(run_id))


@operation(
    bp, "POST", "/<run_id>/continue", answer=RunAnswer, status=201, errors=(429, 507)
)
def go_on(run_id: str, body: FurtherSteps) -> Response:
    """Continues a finished or stopped run by further steps, as a new run.

    The new run takes over log and state, and its steps count against the budget for
    changes of the first run. Returns 201 with the new run's address in ``Location``.
    """
    store = run_store()
    check_data(parse(store.get(run_id).config))
    child_id = store.continuing.go_on(
        run_id,
        body.further_steps,
        visitor=current_visitor(),
        network=request_network(),
    )
    child = store.get(child_id)
    child = store.entitle(child, title_of(child.kind, child.config))
    doorbell().ring(child_id)
    answer = _answer(child)
    return reply(answer, 201, {"Location": answer.links["self"]})


def _ringing(run: Run) -> RunAnswer:
    """Return the answer for a run, and wake a worker if the run waits for one."""
    if run.state == QUEUED:
        doorbell().ring(run.id)
    return _answer(run)


def _answer(run: Run) -> RunAnswer:
    place = run_store().queue_place(run.id)
    return RunAnswer.of(
        run,
        current_visitor(),
        queue_position=place.position,
        queue_paused=place.is_paused,
    )


def _launched_for(config: RunConfig, class_id: str, labels: dict[str, str]) -> Run:
    """Launch a run for a class that the visitor has joined."""
    if is_own(getattr(config, "dataset", "")):
        raise ConfigError(
            "class_id",
            "class_id must be left out for a run on a table of your own, because the "
            "class would see the run. Launch it without the class.",
        )
    return classes().launch(
        config,
        class_id=class_id,
        visitor=current_visitor(),
        network=request_network(),
        **labels,
    )


def _check_parent(run_id: str) -> None:
    try:
        run_id.encode()  # the database rejects half of a surrogate pair
        visible_run(run_id)
    except (RunNotFoundError, UnicodeEncodeError):
        raise ConfigError(
            "parent", f"parent must be the id of a run on this site, got {run_id!r}."
        ) from None

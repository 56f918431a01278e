"""A run's ε by another accountant, from what its log says was done."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from flask import Blueprint
from pydantic import BaseModel, ConfigDict

from dpsgd_explorer.accounting import Odometer
from dpsgd_explorer.accounting.core.intervals import common_status
from dpsgd_explorer.accounting.queries import epsilon_intervals
from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.experiments.events import NOT_PRIVATE
from dpsgd_explorer.runs.store.records import StoredEvent
from dpsgd_explorer.web.api.operation import operation
from dpsgd_explorer.web.http.services import run_store
from dpsgd_explorer.web.questions.privacy import Curve, EnclosedEpsilon
from dpsgd_explorer.web.questions.privacy_models import (
    DEFAULT_ACCOUNTANT,
    AccountantName,
)
from dpsgd_explorer.web.questions.run_phases import (
    phases_done,
    phases_of,
    releases_before,
)
from dpsgd_explorer.web.run_views.registry import VIEWS

bp = Blueprint("recount_api", __name__, url_prefix="/api/v1/runs/<run_id>")

COUNTED = ("step", "evaluation", "end")


class RecountQuestion(BaseModel):
    """Who is to count? Left out: the accountant that the run was planned with."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    accountant: AccountantName | None = None


class RecountAnswer(EnclosedEpsilon):
    """What the run has spent so far, and after each step that its log speaks of."""

    curve: Curve


@operation(bp, "GET", "/epsilon")
def recount(run_id: str, query: RecountQuestion) -> RecountAnswer:
    """Return a run's epsilon along its log as another accountant counts it.

    Of a run with a budget for changes it is that of its steps as if planned beforehand.
    """
    store = run_store()
    run = store.get(run_id)
    name = query.accountant or run.config.get("accountant", DEFAULT_ACCOUNTANT)
    log = [(event.kind, _data(event)) for event in store.events(run_id)]
    told = [data for kind, data in log if kind == "phase"]
    phases, delta = phases_of(told)
    steps = sorted({0, *(data["step"] for kind, data in log if kind in COUNTED)})
    releases = [releases_before(told) + step for step in steps]
    intervals = epsilon_intervals(phases, releases, delta, name)
    own = VIEWS[run.kind].terms(run.config)
    terms = {
        **own.model_dump(),
        **EnclosedEpsilon.between(intervals[-1], name, delta).model_dump(),
        "neighboring_relation": own.neighboring_relation,
        "sampling": own.sampling,
        "status": own.status if own.status == NOT_PRIVATE else common_status(intervals),
    }
    return RecountAnswer(**terms, curve=Curve.along(steps, intervals))


def odometer_of(log: Iterable[StoredEvent], label: str) -> Odometer | None:
    """Return what a run has done to its records so far; None if it has no guarantee.

    It has none without noise, and if its learning rate was taken from the data.
    """
    left, told, odometer = 0, [], Odometer()
    for event in log:
        if event.kind == "phase":
            told.append(_data(event))
        elif event.kind in COUNTED:
            left = max(left, _data(event)["step"])
    if any(phase.get("status") == NOT_PRIVATE for phase in told):
        return None
    try:
        phases, _ = phases_of(told)
    except ConfigError:
        return None
    for phase in phases_done(phases, releases_before(told) + left):
        odometer.add_dp_sgd(
            phase.sample_rate, phase.noise_multiplier, phase.steps, label
        )
    return odometer


def _data(event: StoredEvent) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(event.data)
    return data

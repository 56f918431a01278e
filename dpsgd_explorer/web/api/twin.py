"""The run without privacy that a private training is shown beside."""

from __future__ import annotations

import json
from typing import Any, Literal

from flask import Blueprint
from pydantic import BaseModel, Field

from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.experiments.kinds import parse
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.runs.store.records import Run
from dpsgd_explorer.web.api.operation import operation
from dpsgd_explorer.web.http.services import run_store
from dpsgd_explorer.web.http.visitor import current_visitor
from dpsgd_explorer.web.questions.twin import (
    is_twin,
    recorded_note,
    run_note,
    twin_model,
)
from dpsgd_explorer.web.run_views.models import links

bp = Blueprint("twin_api", __name__, url_prefix="/api/v1/runs/<run_id>")


class TwinAnswer(BaseModel):
    """A run without privacy, at its end; it is not private."""

    source: Literal["run", "recorded", "none"] = Field(
        description="A run of this visitor, one that ships with the program, or none."
    )
    title: str = ""
    note: str = ""
    page: str | None = None
    shares_batches: bool = Field(
        default=False, description="Whether start and batches are the run's own."
    )
    models: list[dict[str, Any]] = Field(
        default=[], description="Data of its first and last `model` events."
    )


@operation(bp, "GET", "/twin")
def twin(run_id: str) -> TwinAnswer:
    """Return the end of the same training without privacy, this visitor's if it is."""
    run = run_store().get(run_id)
    config = parse(run.config)
    if not isinstance(config, TrainingConfig):
        raise ConfigError("kind", "kind must be training: only it has a twin.")
    own = _own_twin(config)
    if own is not None:
        return own
    recorded = twin_model(config.dataset, config.model)
    if recorded is None:
        return TwinAnswer(source="none")
    return TwinAnswer(
        source="recorded",
        title="Recorded twin, end",
        note=recorded_note(config, recorded),
        shares_batches=is_twin(config, recorded.config),
        models=recorded.models,
    )


def _own_twin(config: TrainingConfig) -> TwinAnswer | None:
    visitor = current_visitor()
    runs = run_store().runs_of(visitor) if visitor else []
    for run in runs:
        other = parse(run.config) if _may_be_twin(run) else None
        if isinstance(other, TrainingConfig) and is_twin(config, other):
            models = _models_of(run)
            if models:
                return TwinAnswer(
                    source="run",
                    title="Your twin, end",
                    note=run_note(other),
                    page=links(run.id)["page"],
                    shares_batches=True,
                    models=models,
                )
    return None


def _may_be_twin(run: Run) -> bool:
    return (run.kind, run.state) == ("training", "done") and not run.config["private"]


def _models_of(run: Run) -> list[dict[str, Any]]:
    """Return the data of the first and the last ``model`` event, if there are two."""
    events = [event for event in run_store().events(run.id) if event.kind == "model"]
    return [json.loads(events[i].data) for i in (0, -1)] if len(events) > 1 else []

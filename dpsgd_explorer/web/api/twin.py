"""Route of a private training's twin: a comparable run without privacy."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

from flask import Blueprint
from pydantic import BaseModel, ConfigDict, Field

from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.experiments.kinds import KINDS, as_training, parse
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.runs.store.records import Run
from dpsgd_explorer.runs.store.schema import DONE
from dpsgd_explorer.web.api.operation import operation
from dpsgd_explorer.web.http.services import run_store
from dpsgd_explorer.web.http.visitor import current_visitor
from dpsgd_explorer.web.questions.twin import (
    is_tuned,
    is_twin,
    recorded_note,
    run_note,
    twin_model,
)
from dpsgd_explorer.web.run_views.models import links
from dpsgd_explorer.web.run_views.naming import name_of

bp = Blueprint("twin_api", __name__, url_prefix="/api/v1/runs/<run_id>")


class TwinQuestion(BaseModel):
    """Query for a twin."""

    model_config = ConfigDict(extra="forbid")

    own: str = Field(
        "",
        description="Id of one of the visitor's runs in `choices`. Empty: the "
        "recorded twin.",
    )


class TwinChoice(BaseModel):
    """A run of this visitor that may be the twin."""

    id: str
    name: str
    learning_rate: float


class TwinAnswer(BaseModel):
    """Results of a run without privacy; they are not private."""

    source: Literal["run", "recorded", "none"] = Field(
        description="Source of the twin: a run chosen by this visitor, a run shipped "
        "with the program, or none."
    )
    title: str = ""
    note: str = ""
    page: str | None = None
    shares_batches: bool = Field(
        default=False,
        description="If true, the twin has the start and the batches of the run.",
    )
    is_tuned: bool = Field(
        default=False,
        description="If true, its learning rate was tuned for data set and model.",
    )
    models: list[dict[str, Any]] = Field(
        default=[], description="Data of its first and last `model` events."
    )
    choices: list[TwinChoice] = Field(
        default=[], description="Runs of this visitor that can be requested with `own`."
    )


@operation(bp, "GET", "/twin")
def twin(run_id: str, query: TwinQuestion) -> TwinAnswer:
    """Returns the results of the same training without privacy.

    The twin is recorded with the program. With ``own`` it is one of the visitor's runs
    listed in ``choices``. The results are not private.
    """
    run = run_store().get(run_id)
    config = as_training(parse(run.config))
    if config is None:
        raise ConfigError(
            "kind", "kind must be training, because only training runs have a twin."
        )
    candidates = _candidates(config)
    answer = _chosen(query.own, candidates) if query.own else _recorded(config)
    choices = [
        TwinChoice(id=one.id, name=name_of(one), learning_rate=other.learning_rate)
        for one, other in candidates.values()
    ]
    return answer.model_copy(update={"choices": choices})


def _recorded(config: TrainingConfig) -> TwinAnswer:
    recorded = twin_model(config.dataset, config.model)
    if recorded is None:
        return TwinAnswer(source="none")
    return TwinAnswer(
        source="recorded",
        title="Recorded twin, end",
        note=recorded_note(config, recorded),
        shares_batches=is_twin(config, recorded.config),
        is_tuned=True,
        models=recorded.models,
    )


def _candidates(config: TrainingConfig) -> dict[str, tuple[Run, TrainingConfig]]:
    """Return this visitor's finished twins of a run, newest first."""
    visitor = current_visitor()
    found = {}
    for run in run_store().runs_of(visitor) if visitor else []:
        other = as_training(parse(run.config)) if _may_be_twin(run) else None
        if other is not None and is_twin(config, other):
            found[run.id] = (run, other)
    return found


def _chosen(
    run_id: str, candidates: Mapping[str, tuple[Run, TrainingConfig]]
) -> TwinAnswer:
    """Return the twin that a visitor chose.

    Raises:
        ConfigError: the run is not a finished twin, or belongs to another visitor.
    """
    run, config = candidates.get(run_id, (None, None))
    models = _models_of(run) if run else []
    if run is None or config is None or not models:
        raise ConfigError(
            "own",
            "own must be the id of one of your finished runs without privacy on the "
            f"same batches, got {run_id[:64]!r}. Use one of the choices, or leave it "
            "out.",
        )
    return TwinAnswer(
        source="run",
        title="Your twin, end",
        note=run_note(config, name_of(run)),
        page=links(run)["page"],
        shares_batches=True,
        is_tuned=is_tuned(config),
        models=models,
    )


def _may_be_twin(run: Run) -> bool:
    is_done = KINDS[run.kind].compared and run.state == DONE
    return is_done and not run.config["private"]


def _models_of(run: Run) -> list[dict[str, Any]]:
    """Return the data of the first and the last ``model`` event, if there are two."""
    events = [event for event in run_store().events(run.id) if event.kind == "model"]
    return [json.loads(events[i].data) for i in (0, -1)] if len(events) > 1 else []

"""Request and response models of the run routes."""

from __future__ import annotations

import json
from functools import reduce
from operator import or_
from typing import Any, Self

from flask import url_for
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    RootModel,
    create_model,
    model_validator,
)
from pydantic.config import JsonDict

from dpsgd_explorer.experiments.config import RunConfig
from dpsgd_explorer.experiments.events import NOT_PRIVATE
from dpsgd_explorer.experiments.kinds import (
    KINDS,
    LAUNCHED,
    check_launched,
    kind_of,
    parse,
)
from dpsgd_explorer.runs.store.records import Run, StoredEvent
from dpsgd_explorer.web.questions.privacy import Epsilon
from dpsgd_explorer.web.run_views.naming import name_of
from dpsgd_explorer.web.run_views.registry import VIEWS

MOST_EVENTS = 5000
LARGEST_SEQ = 2**53 - 1  # largest integer that JSON and JavaScript represent exactly
# Actions that a run's visitor may post to its address.
ORDERS = ("cancel", "pause", "resume", "step")
LAUNCH: JsonDict = {
    "dataset": "adult",
    "model": "logistic",
    "target_epsilon": 1,
    "expected_batch_size": 2048,
}
EXPORT_FORMATS = ("csv", "html", "ipynb", "json", "py")


class Labels(BaseModel):
    """Name and relations of a run."""

    name: str = Field("", description="At most 60 printable characters.")
    group: str = Field("", description="Name of a set of related runs.")
    parent: str = Field(
        "", description="Id of the run that this run repeats or varies."
    )
    class_id: str = Field(
        "", description="Id of the class that sees the run and whose quota counts it."
    )


REQUESTS: dict[str, type[RunConfig]] = {
    name: create_model(
        f"{name.capitalize()}Request",
        __base__=(Labels, kind.config),  # type: ignore[arg-type]  # unlike bases
        __doc__=f"Settings and labels of a run of kind {name}.",
    )
    for name, kind in LAUNCHED.items()
}


class RunRequest(RootModel[Any]):
    """A run of any kind: its settings and its labels."""

    model_config = ConfigDict(json_schema_extra={"examples": [LAUNCH]})

    @model_validator(mode="before")
    @classmethod
    def _by_kind(cls, values: Any) -> Any:
        kind = kind_of(values)
        check_launched(kind)
        return REQUESTS[kind.name].parse(values)

    @property
    def config(self) -> RunConfig:
        """The settings without the labels."""
        return parse(self.root.model_dump(exclude=set(Labels.model_fields)))

    @property
    def labels(self) -> dict[str, str]:
        """Name, group, parent and class of the run."""
        labels: dict[str, str] = self.root.model_dump(include=set(Labels.model_fields))
        return labels


# The request with all kinds listed, for the specification.
ANY_REQUEST = create_model(
    "RunRequest",
    __base__=RunRequest,
    __doc__=RunRequest.__doc__,
    root=(reduce(or_, REQUESTS.values()), Field(discriminator="kind")),
)


class RunLabels(BaseModel):
    """Name, note and star of a run. An empty text deletes; omitted fields stay."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={"examples": [{"name": "first try", "starred": True}]},
    )

    name: str | None = Field(None, description="At most 60 printable characters.")
    note: str | None = Field(
        None, description="At most 500 characters; may have several lines."
    )
    starred: bool | None = Field(None, description="If true, the run is a favorite.")


class SettingsChange(BaseModel):
    """Settings from a run's next step on; omitted settings do not change."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={"examples": [{"learning_rate": 0.5}]},
    )

    learning_rate: float | None = None
    max_grad_norm: float | None = None
    noise_multiplier: float | None = None
    expected_batch_size: int | None = None
    steps: int | None = None


class FurtherSteps(BaseModel):
    """Number of steps by which an ended run is continued."""

    model_config = ConfigDict(extra="forbid", strict=True)

    further_steps: int = Field(
        examples=[20],
        description="At least 1. The run ends earlier if its budget is spent.",
    )


class Position(BaseModel):
    """Query for the events of a log after a position."""

    model_config = ConfigDict(extra="forbid")

    after: int = Field(
        0,
        ge=0,
        le=LARGEST_SEQ,
        description="Id of the last event that you received; 0: none.",
    )


class Page(Position):
    """Query for a part of a log."""

    limit: int = Field(
        1000, ge=1, le=MOST_EVENTS, description="Maximum number of events."
    )
    kind: str = Field(
        "",
        max_length=40,
        description="Kind of the events, such as evaluation. Empty: all kinds.",
    )


class RunSummary(BaseModel):
    """A run as in lists; times are Unix seconds.

    ``title`` is the run's name, or its differences from the nearest preset. ``note``
    and ``starred`` are shown to its visitor only; others get "" and false.

    ``privacy`` is the spent ε with its terms; null until the run has ended, or if it
    uses no data.
    """

    id: str
    kind: str
    state: str
    name: str
    title: str
    note: str
    starred: bool
    group: str
    parent: str
    mine: bool
    step: int
    steps: int
    created_at: float
    started_at: float | None
    ended_at: float | None
    last_seq: int
    summary: dict[str, Any]
    privacy: Epsilon | None
    error: dict[str, str] | None
    links: dict[str, str]

    @classmethod
    def of(cls, run: Run, visitor: str, **more: Any) -> Self:
        """Returns the run without the identity of its visitor."""
        mine = bool(visitor) and run.visitor == visitor
        shared = set(cls.model_fields) & set(run.__dataclass_fields__)
        values = {name: getattr(run, name) for name in shared}
        values["title"] = name_of(run)
        if not mine:
            values |= {"note": "", "starred": False}
        return cls(
            **values,
            mine=mine,
            privacy=privacy_of(run),
            links=links(run),
            **more,
        )


class RunAnswer(RunSummary):
    """A run with its settings and, while it is queued, its position in the queue."""

    config: dict[str, Any]
    queue_position: int | None = Field(description="1 for the run that is next.")
    queue_paused: bool = Field(
        description="No run starts until the operator of the site resumes the queue."
    )


class RunList(BaseModel):
    """A visitor's runs, newest first."""

    runs: list[RunSummary]


class ForgottenAnswer(BaseModel):
    """Numbers of permanently deleted items.

    ``launches`` of the last day still count for the quotas of the network, without a
    link to the visitor.
    """

    runs: int
    launches: int


class LogEntry(BaseModel):
    """One entry of a run's log; the architecture page describes the data by kind."""

    seq: int
    kind: str
    data: dict[str, Any]

    @classmethod
    def of(cls, event: StoredEvent) -> Self:
        """Returns a stored entry."""
        return cls(seq=event.seq, kind=event.kind, data=json.loads(event.data))


class Log(BaseModel):
    """Entries after the requested position; request the next with the last id."""

    state: str
    last_seq: int
    events: list[LogEntry]


def links(run: Run) -> dict[str, str]:
    """Returns the addresses of a run; ``trainer`` only if the trainer can show it."""
    api = f"/api/v1/runs/{run.id}"
    trainer = url_for("train.index", _anchor=f"run={run.id}")
    return {
        "self": api,
        "page": url_for("runs.show", run_id=run.id),
        **({"trainer": trainer} if KINDS[run.kind].compared else {}),
        "events": f"{api}/events",
        "log": f"{api}/events.json",
        "epsilon": f"{api}/epsilon",
        "price": f"{api}/price",
        "twin": f"{api}/twin",
        **{order: f"{api}/{order}" for order in (*ORDERS, "change", "continue")},
        **{f"export_{name}": f"{api}/export.{name}" for name in EXPORT_FORMATS},
    }


def privacy_of(run: Run) -> Epsilon | None:
    """Returns the spent ε of a run; None until it has ended, or if it uses no data."""
    view, summary = VIEWS[run.kind], run.summary
    if not summary or not view.kind.spends:
        return None
    if run.is_refuted:
        return view.spent(None, run.config, NOT_PRIVATE)
    return view.spent(summary["epsilon"], run.config, summary.get("status", ""))

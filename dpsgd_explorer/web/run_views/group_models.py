"""Request and response models of the group routes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Self

from flask import url_for
from pydantic import BaseModel, ConfigDict, Field
from pydantic.config import JsonDict

from dpsgd_explorer.experiments.events import changes_of
from dpsgd_explorer.experiments.groups import MOST_RUNS, RunGroup
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.runs.store.records import Group, Run, StoredEvent
from dpsgd_explorer.web.questions.privacy import Epsilon
from dpsgd_explorer.web.questions.together import together
from dpsgd_explorer.web.run_views.models import LARGEST_SEQ, RunSummary

MOST_EVENTS = 1000  # maximum number of events per answer
SWEEP: JsonDict = {
    "purpose": "sweep",
    "base": {"dataset": "adult", "model": "logistic"},
    "variations": [{"learning_rate": 1}, {"learning_rate": 2}],
}


class GroupRequest(BaseModel):
    """Runs of kind "training" that are launched together."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [SWEEP]})

    purpose: str = Field(
        description="sweep: one setting differs, and the seed if each value has "
        "several runs. seeds: the seed differs. twin: a private, a clipped and an "
        "ordinary run, in this order."
    )
    base: dict[str, Any] = Field({}, description="Settings that all runs share.")
    variations: list[dict[str, Any]] = Field(
        description=f"For each of 2 to {MOST_RUNS} runs, the settings that replace "
        "settings of base."
    )

    @property
    def group(self) -> RunGroup:
        """The group of runs, checked as a whole."""
        return RunGroup.parse(self.purpose, self.base, self.variations)


class GroupMember(RunSummary):
    """A run of a group with its settings."""

    config: dict[str, Any]


class GroupAnswer(BaseModel):
    """A group of runs; times are Unix seconds.

    ``together`` is the joint ε of all its runs if each takes all its steps, for anyone
    who compares them. It is null if a run is not private, was changed in mid-run, or
    was refuted by its own audit: its plan then does not determine its ε.
    """

    id: str
    purpose: str
    setting: str
    mine: bool
    created_at: float
    has_ended: bool
    ended: int = Field(description="Number of its runs that have ended.")
    total: int
    share: float = Field(description="Fraction of the steps of all runs that are done.")
    together: Epsilon | None
    runs: list[GroupMember]
    links: dict[str, str]

    @classmethod
    def of(
        cls,
        group: Group,
        visitor: str,
        phases: Mapping[str, Sequence[Mapping[str, Any]]],
    ) -> Self:
        """Returns the group without the identity of its visitor.

        Args:
            group: The group with its runs.
            visitor: The current visitor.
            phases: Data of each run's ``phase`` events, by the run's id.
        """
        configs = [TrainingConfig.parse(run.config) for run in group.runs]
        return cls(
            id=group.id,
            purpose=group.purpose,
            setting=group.setting,
            mine=bool(visitor) and group.visitor == visitor,
            created_at=group.created_at,
            has_ended=group.has_ended,
            ended=sum(run.has_ended for run in group.runs),
            total=len(group.runs),
            share=sum(map(_share, group.runs)) / max(1, len(group.runs)),
            together=None
            if any(map(changes_of, phases.values()))
            or any(run.is_refuted for run in group.runs)
            else together(configs),
            runs=[GroupMember.of(run, visitor) for run in group.runs],
            links=group_links(group.id),
        )


class GroupEvent(BaseModel):
    """An event of one of the group's runs."""

    id: int
    run_id: str
    seq: int
    kind: str
    data: dict[str, Any]

    @classmethod
    def of(cls, event: StoredEvent) -> Self:
        """Returns a stored event."""
        shared = {
            name: getattr(event, name) for name in ("id", "run_id", "seq", "kind")
        }
        return cls(**shared, data=json.loads(event.data))


class GroupPosition(BaseModel):
    """Query for the events of a group after a position."""

    model_config = ConfigDict(extra="forbid")

    after: int = Field(
        0, ge=0, le=LARGEST_SEQ, description="Id of the last event you have; 0: none."
    )


class GroupLog(BaseModel):
    """Events after the requested position, without those of single steps.

    Request the next events with the last id. If ``has_ended`` is true and there are no
    events, none will follow.
    """

    has_ended: bool
    events: list[GroupEvent]


def group_links(group_id: str) -> dict[str, str]:
    """Returns the addresses of a group, by name."""
    api = f"/api/v1/groups/{group_id}"
    return {
        "self": api,
        "page": url_for("groups.show", group_id=group_id),
        "log": f"{api}/events.json",
        "cancel": f"{api}/cancel",
    }


def _share(run: Run) -> float:
    return 1.0 if run.has_ended else run.step / run.steps

"""Models of the requests and answers of the class routes."""

from __future__ import annotations

from typing import Self

from flask import url_for
from pydantic import BaseModel, ConfigDict, Field

from dpsgd_explorer.runs.classes.records import Class
from dpsgd_explorer.web.classes.links import STUDENT, TEACHER, link_of
from dpsgd_explorer.web.classes.setup import CLASS
from dpsgd_explorer.web.run_views.group_models import GroupEvent


class ClassRequest(BaseModel):
    """A new class."""

    model_config = ConfigDict(extra="forbid", strict=True)

    name: str = Field(
        examples=["Privacy 101"], description="1 to 60 printable characters."
    )
    setup: str = Field(
        "", description="Address of the trainer with the settings students start from."
    )
    shares_runs: bool = Field(
        True,
        description="If false, students see only their own and the teachers' runs.",
    )


class JoinRequest(BaseModel):
    """Code of a class's link, and nickname of the student."""

    model_config = ConfigDict(extra="forbid", strict=True)

    code: str = Field(description="Last part of the secret link.")
    nickname: str = Field(
        "", description="At most 30 printable characters. Empty: Student and a number."
    )


class ClassAnswer(BaseModel):
    """A class of this visitor; times are unix seconds.

    ``links`` of a teacher contains the secret links for students and teachers.
    """

    id: str
    name: str
    is_teacher: bool
    is_over: bool
    created_at: float
    ends_at: float
    closed_at: float | None
    launches: int = Field(
        description="Quota: number of runs that all members may launch together."
    )
    launched: int = Field(
        description="Number of runs launched by all members, with deleted runs."
    )
    version: int = Field(description="Number of the last change.")
    shares_runs: bool = Field(description="If true, students see each other's runs.")
    links: dict[str, str]

    @classmethod
    def of(cls, class_: Class, visitor: str) -> Self:
        """Returns the fields of a class that a member may see."""
        member = class_.member(visitor)
        is_teacher = member is not None and member.is_teacher
        names = set(cls.model_fields) - {"is_teacher", "links"}
        return cls(
            **{name: getattr(class_, name) for name in names},
            is_teacher=is_teacher,
            links=class_links(class_, is_teacher=is_teacher),
        )


class ClassList(BaseModel):
    """The classes of this visitor, newest first."""

    classes: list[ClassAnswer]


class ClassLog(BaseModel):
    """Events after the given position, without single steps.

    A new ``version`` means that members, runs or state of the class have changed.
    """

    version: int
    is_over: bool
    events: list[GroupEvent]


def class_links(class_: Class, *, is_teacher: bool) -> dict[str, str]:
    """Returns the addresses of a class for one of its members."""
    api = f"/api/v1/classes/{class_.id}"
    secret = {role: link_of(class_, role) for role in (STUDENT, TEACHER)}
    query = "&".join(part for part in (class_.setup, f"{CLASS}={class_.id}") if part)
    return {
        "self": api,
        "page": url_for("classes.show", class_id=class_.id),
        "log": f"{api}/events.json",
        "roster": f"{api}/roster.csv",
        "train": f"{url_for('train.index')}?{query}",
        **(secret if is_teacher else {}),
    }

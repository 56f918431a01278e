"""Models of the requests and answers of the class routes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from flask import url_for
from pydantic import BaseModel, ConfigDict, Field

from dpsgd_explorer.runs.classes.plan import ClassPlan
from dpsgd_explorer.runs.classes.records import Class, Member, names_of
from dpsgd_explorer.web.classes.links import STUDENT, TEACHER, link_of
from dpsgd_explorer.web.classes.roster import Entry
from dpsgd_explorer.web.classes.setup import CLASS, setup_query
from dpsgd_explorer.web.questions.privacy import Epsilon
from dpsgd_explorer.web.run_views.group_models import GroupEvent


class ClassRequest(BaseModel):
    """A new class; settings left out have the defaults of the site."""

    model_config = ConfigDict(extra="forbid", strict=True)

    name: str = Field(
        examples=["Privacy 101"], description="1 to 60 printable characters."
    )
    launches: int | None = Field(
        None, description="Maximum number of launches of all students together."
    )
    launches_each: int | None = Field(
        None, description="Maximum number of launches per student."
    )
    days: int | None = Field(None, description="Days until the class ends.")
    setup: str = Field(
        "", description="Address of the trainer with the settings students start from."
    )
    shares_runs: bool = Field(
        True,
        description="If false, students see only their own and the teachers' runs.",
    )

    @property
    def plan(self) -> ClassPlan:
        """The class, with its set-up checked."""
        values = self.model_dump()
        return ClassPlan(**values | {"setup": setup_query(self.setup)})


class JoinRequest(BaseModel):
    """Code of a class's link, and nickname of the student."""

    model_config = ConfigDict(extra="forbid", strict=True)

    code: str = Field(description="Last part of the secret link.")
    nickname: str = Field(
        "", description="At most 30 printable characters. Empty: Student and a number."
    )


class Student(BaseModel):
    """A student who is in the class."""

    number: int
    name: str
    launched: int


class ClassRun(BaseModel):
    """A run of the class.

    ``settings`` are those that differ between the trainings of the class, in words.
    ``privacy`` is null until it has ended, or if it uses no data.
    """

    run_id: str
    student: str
    number: int = Field(description="Number of its student; 0: a teacher.")
    kind: str
    name: str
    state: str
    step: int
    steps: int
    settings: dict[str, str]
    privacy: Epsilon | None
    test_accuracy: float | None
    links: dict[str, str]

    @classmethod
    def of(cls, entry: Entry) -> Self:
        """Return a row of the roster."""
        run = entry.run
        shared = {
            name: getattr(run, name)
            for name in ("kind", "name", "state", "step", "steps")
        }
        return cls(
            **shared,
            run_id=run.id,
            student=entry.student,
            number=entry.number,
            settings=entry.settings,
            privacy=entry.privacy,
            test_accuracy=entry.accuracy,
            links={
                "self": f"/api/v1/runs/{run.id}",
                "page": url_for("runs.show", run_id=run.id),
            },
        )


class ClassSummary(BaseModel):
    """A class that this visitor is in; times are unix seconds.

    ``links`` of a teacher hold its students' link and its own, which are secrets.
    """

    id: str
    name: str
    is_teacher: bool
    is_over: bool
    created_at: float
    ends_at: float
    closed_at: float | None
    launches: int
    launches_each: int
    launched: int = Field(
        description="Number of runs launched by all members, with deleted runs."
    )
    left: int = Field(description="Number of runs that this visitor may still launch.")
    version: int = Field(description="Number of the last change.")
    shares_runs: bool = Field(description="If true, students see each other's runs.")
    links: dict[str, str]

    @classmethod
    def of(cls, found: Class, visitor: str, **more: Any) -> Self:
        """Return what this visitor may see of a class that it is in."""
        member = found.member(visitor)
        assert member is not None
        shared = {*found.__dataclass_fields__, "is_over"} - {"links"}
        own = shared & set(cls.model_fields)
        return cls(
            **{name: getattr(found, name) for name in own},
            is_teacher=member.is_teacher,
            left=0 if found.is_over else found.left_to(member),
            links=class_links(found, member),
            **more,
        )


class ClassAnswer(ClassSummary):
    """A class with its students and its newest runs."""

    students: list[Student]
    runs: list[ClassRun]

    @classmethod
    def whole(cls, found: Class, visitor: str, entries: Sequence[Entry]) -> Self:
        """Return a class with its roster."""
        names = names_of(found.members)
        students = [
            Student(number=one.number, name=names[one.number], launched=one.launched)
            for one in found.students
        ]
        runs = [ClassRun.of(entry) for entry in entries]
        return cls.of(found, visitor, students=students, runs=runs)


class ClassList(BaseModel):
    """The classes that this visitor is in, the newest first."""

    classes: list[ClassSummary]


class ClassLog(BaseModel):
    """Events behind the position asked for, without the single steps.

    A new ``version`` means that members, runs or state of the class have changed.
    """

    version: int
    is_over: bool
    events: list[GroupEvent]


def class_links(found: Class, member: Member) -> dict[str, str]:
    """Return the addresses of a class for one who is in it."""
    api = f"/api/v1/classes/{found.id}"
    secret = {role: link_of(found, role) for role in (STUDENT, TEACHER)}
    return {
        "self": api,
        "page": url_for("classes.show", class_id=found.id),
        "log": f"{api}/events.json",
        "roster": f"{api}/roster.csv",
        "train": train_address(found),
        **(secret if member.is_teacher else {}),
    }


def train_address(found: Class) -> str:
    """Return where students launch for the class."""
    query = "&".join(part for part in (found.setup, f"{CLASS}={found.id}") if part)
    return f"{url_for('train.index')}?{query}"

"""Frozen records of classes; times are unix seconds."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Row

from dpsgd_explorer.runs.store.records import Run

TEACHER = 0  # number of a teacher; students have 1, 2, …


@dataclass(frozen=True, kw_only=True)
class Member:
    """A visitor who joined a class.

    Attributes:
        number: 1 for the first student who joined, and so on; 0 for a teacher.
        nickname: Name that the student typed; "" displays the number.
        left_at: Time when the member left or was removed.
        removed: If True, a teacher removed the member, who cannot join again.
    """

    visitor: str
    number: int
    nickname: str
    left_at: float | None
    removed: bool

    @property
    def is_teacher(self) -> bool:
        """True if the member may close and delete the class and remove students."""
        return self.number == TEACHER

    @property
    def name(self) -> str:
        """Displayed name."""
        if self.is_teacher:
            return "Teacher"
        return self.nickname or f"Student {self.number}"

    @classmethod
    def of(cls, row: Row[tuple[object, ...]]) -> Member:
        """Returns the member in a row of the table of members."""
        values = row._mapping
        return cls(**{name: values[name] for name in cls.__dataclass_fields__})


@dataclass(frozen=True, kw_only=True)
class Class:
    """A class as of the time ``now``.

    Attributes:
        setup: Query string of the trainer page that students start from; "" uses the
            default settings.
        launches: Quota: number of runs that all members may launch together.
        launched: Number of runs launched so far, with deleted runs.
        links: Version number of the valid links; part of the signed codes.
        version: Number of the last change of members, runs or state.
        shares_runs: If True, students see each other and each other's runs.
        members: Everyone who joined, by number; teachers first.
        now: Time when the class was read.
    """

    id: str
    name: str
    setup: str
    launches: int
    launched: int
    created_at: float
    ends_at: float
    closed_at: float | None
    links: int
    version: int
    shares_runs: bool
    members: tuple[Member, ...]
    now: float

    @property
    def is_over(self) -> bool:
        """True if nobody can join the class or launch runs for it any more."""
        return self.closed_at is not None or self.now >= self.ends_at

    @property
    def students(self) -> list[Member]:
        """Students who have not left."""
        return [
            member
            for member in self.members
            if member.left_at is None and not member.is_teacher
        ]

    def member(self, visitor: str) -> Member | None:
        """Returns a visitor's current membership; None without one."""
        member = self.membership(visitor)
        return member if member is not None and member.left_at is None else None

    def membership(self, visitor: str) -> Member | None:
        """Returns a visitor's current or ended membership; None without one."""
        memberships = (member for member in self.members if member.visitor == visitor)
        return next(memberships, None)

    def shows_all_to(self, visitor: str) -> bool:
        """Returns True if a member sees all students and their runs.

        Other members see only the teachers' runs and their own.
        """
        member = self.member(visitor)
        return self.shares_runs or (member is not None and member.is_teacher)


@dataclass(frozen=True)
class RosterRow:
    """A run of a class and the member who launched it."""

    run: Run
    member: Member

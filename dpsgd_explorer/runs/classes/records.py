"""Frozen records of classes; times are unix seconds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Row

from dpsgd_explorer.runs.store.records import Run

TEACHER = 0  # number of a teacher; students have 1, 2, …


@dataclass(frozen=True, kw_only=True)
class Member:
    """A visitor who joined a class.

    Attributes:
        number: 1 for the first student who joined, and so on; 0 for a teacher.
        nickname: Displayed name; "" displays the number.
        launched: Number of launches so far.
        left_at: Time when the member left or was removed.
        removed: If True, a teacher removed the member, who cannot join again.
    """

    class_id: str
    visitor: str
    number: int
    nickname: str
    launched: int
    joined_at: float
    left_at: float | None
    removed: bool

    @property
    def is_teacher(self) -> bool:
        """True if the member may close the class and remove runs and students."""
        return self.number == TEACHER

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
        launches: Number of runs that all members may launch together.
        launches_each: Number of runs that one student may launch.
        launched: Number of runs launched so far.
        links: Version number of the valid links.
        version: Number of the last change of members, runs or state.
        shares_runs: If True, students see each other and each other's runs.
        members: Everyone who joined, by number; teachers first.
        now: Time when the class was read.
        is_restricted: If True, ``members`` contains only members that one student may
            see.
    """

    id: str
    name: str
    setup: str
    launches: int
    launches_each: int
    launched: int
    created_at: float
    ends_at: float
    closed_at: float | None
    links: int
    version: int
    shares_runs: bool
    members: tuple[Member, ...]
    now: float
    is_restricted: bool = False

    def seen_by(self, visitor: str) -> Class:
        """Returns the class with the members that a visitor may see.

        Teachers see all members.  Students see only teachers and themselves if
        ``shares_runs`` is False.
        """
        member = self.member(visitor)
        if self.shares_runs or (member is not None and member.is_teacher):
            return self
        seen = tuple(
            member
            for member in self.members
            if member.is_teacher or member.visitor == visitor
        )
        return replace(self, members=seen, is_restricted=True)

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

    def left_to(self, member: Member) -> int:
        """Returns the number of runs that a member may still launch."""
        of_member = self.launches_each - member.launched
        of_class = self.launches - self.launched
        return max(0, of_class if member.is_teacher else min(of_member, of_class))


@dataclass(frozen=True)
class RosterRow:
    """A run of a class and the member who launched it.

    Attributes:
        run: The run.
        member: The member; None if the member's data was deleted.
    """

    run: Run
    member: Member | None


def names_of(members: Sequence[Member]) -> dict[int, str]:
    """Returns {number: displayed name} of the members.

    The number is appended to names that several students have.  A teacher's name is
    "Teacher".
    """
    plain = {
        member.number: (member.nickname or f"Student {member.number}")
        for member in members
        if not member.is_teacher
    }
    uses = Counter(name.casefold() for name in plain.values()) + Counter(["teacher"])
    named = {
        number: f"{name} ({number})" if uses[name.casefold()] > 1 else name
        for number, name in plain.items()
    }
    return {TEACHER: "Teacher"} | named

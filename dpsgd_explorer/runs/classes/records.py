"""The records of classes: plain and frozen; times are unix seconds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Row

from dpsgd_explorer.runs.store.records import Run

TEACHER = 0  # in place of a student's number


@dataclass(frozen=True, kw_only=True)
class Member:
    """One who joined a class.

    Attributes:
        number: 1 for the first student who joined, and so on; 0 for a teacher.
        nickname: What it is to be called; "": by its number.
        launched: Launches so far.
        left_at: When it left or was removed.
        removed: A teacher removed it, and it cannot join again.
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
        """Whether it may close the class and remove runs and students."""
        return self.number == TEACHER

    @classmethod
    def of(cls, row: Row[tuple[object, ...]]) -> Member:
        """Read a row of the table of members."""
        values = row._mapping
        return cls(**{name: values[name] for name in cls.__dataclass_fields__})


@dataclass(frozen=True, kw_only=True)
class Class:
    """A class; what is in force is decided at ``now``.

    Attributes:
        setup: Query of the trainer that students begin from; "" is the usual one.
        launches: What all may launch together, and ``launches_each`` one of them.
        links: Number of the links that hold.
        version: Number of the last change of members, runs or state.
        shares_runs: If True, students see each other and each other's runs.
        members: All who joined, by number; teachers first.
        now: When it was read.
        is_restricted: If True, ``members`` are those that one student sees.
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
        """Return the class with the members that a visitor may see.

        Teachers see all; students of a class that does not share its runs see teachers
        and themselves.
        """
        member = self.member(visitor)
        if self.shares_runs or (member is not None and member.is_teacher):
            return self
        seen = tuple(
            one for one in self.members if one.is_teacher or one.visitor == visitor
        )
        return replace(self, members=seen, is_restricted=True)

    @property
    def is_over(self) -> bool:
        """Nobody joins and nothing is launched any more."""
        return self.closed_at is not None or self.now >= self.ends_at

    @property
    def students(self) -> list[Member]:
        """The students who are in it."""
        return [
            one for one in self.members if one.left_at is None and not one.is_teacher
        ]

    def member(self, visitor: str) -> Member | None:
        """Return a visitor's membership, None if it has none or left."""
        found = self.membership(visitor)
        return found if found is not None and found.left_at is None else None

    def membership(self, visitor: str) -> Member | None:
        """Return a visitor's membership, also one that has ended."""
        return next((one for one in self.members if one.visitor == visitor), None)

    def left_to(self, member: Member) -> int:
        """Return how many runs a member may launch yet."""
        own = self.launches_each - member.launched
        shared = self.launches - self.launched
        return max(0, shared if member.is_teacher else min(own, shared))


@dataclass(frozen=True)
class RosterRow:
    """A run of a class, and who launched it; None: who was forgotten or removed."""

    run: Run
    member: Member | None


def names_of(members: Sequence[Member]) -> dict[int, str]:
    """Return what each student is called, by number; equal names get the number.

    Teachers are "Teacher".
    """
    plain = {
        one.number: (one.nickname or f"Student {one.number}")
        for one in members
        if not one.is_teacher
    }
    uses = Counter(name.casefold() for name in plain.values()) + Counter(["teacher"])
    named = {
        number: f"{name} ({number})" if uses[name.casefold()] > 1 else name
        for number, name in plain.items()
    }
    return {TEACHER: "Teacher"} | named

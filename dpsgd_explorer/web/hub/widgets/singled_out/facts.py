"""The facts that somebody may know about a person of the Adult table."""

from __future__ import annotations

from dataclasses import dataclass

ROW = 24  # of the training file, starting with 1: the person of the widget


@dataclass(frozen=True)
class Fact:
    """A column of the table and its name on the page."""

    slug: str
    words: str


FACTS = (
    Fact("age", "age"),
    Fact("sex", "sex"),
    Fact("education", "school"),
    Fact("marital-status", "marriage"),
    Fact("occupation", "work"),
    Fact("hours-per-week", "hours a week"),
    Fact("native-country", "born in"),
)

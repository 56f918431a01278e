"""What a chapter asks and shows, gathered from its template, for a lesson on it.

The macros of the chapters hand their parts to ``gather``; outside of ``gathered`` it
does nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from flask import g
from markupsafe import Markup

from dpsgd_explorer.web.figures.svg import Picture

LETTERS = "ABCDEFGH"


@dataclass(frozen=True)
class Answer:
    """One answer of a question, with the reason why it is right or wrong."""

    letter: str
    words: Markup
    is_right: bool
    why: Markup


@dataclass(frozen=True)
class Question:
    """One check question."""

    text: Markup
    answers: tuple[Answer, ...]

    @property
    def key(self) -> str:
        """Letters of the right answers."""
        return ", ".join(answer.letter for answer in self.answers if answer.is_right)


@dataclass(frozen=True)
class Guess:
    """One guess before a picture; ``room`` says what may be answered."""

    text: Markup
    room: Markup
    answer: str


@dataclass
class Parts:
    """What a chapter handed in, in its order.

    Attributes:
        guesses: For each picture that is guessed at: the question, and its guesses.
        pictures: Anchor and picture of each figure.
        questions: The check questions.
        runs: Words and settings of the links into the trainer.
        full: Passages that only the track "Full" shows.
    """

    guesses: list[tuple[Markup, list[Guess]]] = field(default_factory=list)
    pictures: list[tuple[str, Picture]] = field(default_factory=list)
    questions: list[Question] = field(default_factory=list)
    runs: list[tuple[Markup, Mapping[str, object]]] = field(default_factory=list)
    full: list[Markup] = field(default_factory=list)

    def add_guesses(self, question: str, guesses: Sequence[Mapping[str, Any]]) -> None:
        """Add the guesses before one picture."""
        read = [
            Guess(Markup(one["label"]), _room(one), str(one["answer"]))
            for one in guesses
        ]
        self.guesses.append((Markup(question), read))

    def add_picture(self, anchor: str, picture: Picture) -> None:
        """Add a figure."""
        self.pictures.append((anchor, picture))

    def add_question(
        self, text: str, answers: Sequence[tuple[object, bool, object]]
    ) -> None:
        """Add a check question; its answers are words, whether right, and why."""
        read = tuple(
            Answer(letter, Markup(words), right, Markup(why))
            for letter, (words, right, why) in zip(LETTERS, answers, strict=False)
        )
        self.questions.append(Question(Markup(text), read))

    def add_runs(self, links: Sequence[tuple[str, Mapping[str, object]]]) -> None:
        """Add links into the trainer."""
        self.runs += [(Markup(words), settings) for words, settings in links]

    def add_full(self, passage: Markup) -> None:
        """Add a passage of the track "Full"."""
        self.full.append(passage)


def gather(kind: str, *values: Any) -> str:
    """Hand a part of a chapter to whoever gathers; returns "" for templates."""
    if "lesson" in g:
        getattr(g.lesson, f"add_{kind}")(*values)
    return ""


def gathered(render: Callable[[], object]) -> Parts:
    """Return what ``render`` hands in."""
    g.lesson = parts = Parts()
    try:
        render()
    finally:
        g.pop("lesson")
    return parts


def _room(guess: Mapping[str, Any]) -> Markup:
    """Return what may be answered: the choices, or the ends of the slider."""
    if "choices" in guess:
        return Markup(", ").join(Markup(choice) for choice in guess["choices"])
    unit = guess.get("unit", "")
    return Markup("{} to {}").format(
        f"{guess['low']:g}{unit}", f"{guess['high']:g}{unit}"
    )

"""Questions, figures and links of a chapter, collected from its template for lessons.

The macros of the chapters pass their parts to ``gather``, which has no effect outside
``gathered``.
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
        """Letters of the correct answers."""
        return ", ".join(answer.letter for answer in self.answers if answer.is_right)


@dataclass(frozen=True)
class Guess:
    """One prediction question before a figure; ``room`` lists the allowed answers."""

    text: Markup
    room: Markup
    answer: str


@dataclass
class Parts:
    """Parts of a chapter, in the order of the text.

    Attributes:
        guesses: Question and guesses of each figure with a prediction.
        pictures: Anchor and picture of each figure.
        questions: The check questions.
        runs: Text and settings of the links to the trainer.
        full: Passages shown only in the track "Full".
    """

    guesses: list[tuple[Markup, list[Guess]]] = field(default_factory=list)
    pictures: list[tuple[str, Picture]] = field(default_factory=list)
    questions: list[Question] = field(default_factory=list)
    runs: list[tuple[Markup, Mapping[str, object]]] = field(default_factory=list)
    full: list[Markup] = field(default_factory=list)

    def add_guesses(self, question: str, guesses: Sequence[Mapping[str, Any]]) -> None:
        """Adds the guesses before one figure."""
        read = [
            Guess(Markup(guess["label"]), _room(guess), str(guess["answer"]))
            for guess in guesses
        ]
        self.guesses.append((Markup(question), read))

    def add_picture(self, anchor: str, picture: Picture) -> None:
        """Adds a figure."""
        self.pictures.append((anchor, picture))

    def add_question(
        self, text: str, answers: Sequence[tuple[object, bool, object]]
    ) -> None:
        """Adds a check question; each answer is (text, is_correct, reason)."""
        read = tuple(
            Answer(letter, Markup(words), right, Markup(why))
            for letter, (words, right, why) in zip(LETTERS, answers, strict=False)
        )
        self.questions.append(Question(Markup(text), read))

    def add_runs(self, links: Sequence[tuple[str, Mapping[str, object]]]) -> None:
        """Adds links to the trainer."""
        self.runs += [(Markup(words), settings) for words, settings in links]

    def add_full(self, passage: Markup) -> None:
        """Adds a passage of the track "Full"."""
        self.full.append(passage)


def gather(kind: str, *values: Any) -> str:
    """Passes a part of a chapter to ``gathered``; returns "" for use in templates."""
    if "lesson" in g:
        getattr(g.lesson, f"add_{kind}")(*values)
    return ""


def gathered(render: Callable[[], object]) -> Parts:
    """Returns the parts that ``render`` passes to ``gather``."""
    g.lesson = parts = Parts()
    try:
        render()
    finally:
        g.pop("lesson")
    return parts


def _room(guess: Mapping[str, Any]) -> Markup:
    """Returns the allowed answers: the choices, or the ends of the slider."""
    if "choices" in guess:
        return Markup(", ").join(Markup(choice) for choice in guess["choices"])
    unit = guess.get("unit", "")
    return Markup("{} to {}").format(
        f"{guess['low']:g}{unit}", f"{guess['high']:g}{unit}"
    )

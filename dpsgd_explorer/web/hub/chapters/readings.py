"""The contents of each chapter: its questions, figures, sections and reading time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from flask import Flask

from dpsgd_explorer.web.api.answer_cache import failures
from dpsgd_explorer.web.content.lessons import Parts, gathered
from dpsgd_explorer.web.hub.chapters.page import render
from dpsgd_explorer.web.hub.chapters.table import CHAPTERS, FULL, INTUITION, Chapter
from dpsgd_explorer.web.hub.chapters.text import (
    headings,
    intuition_minutes,
    reading_minutes,
)


@dataclass(frozen=True)
class Reading:
    """The contents of a chapter.

    Attributes:
        parts: Questions, guesses, pictures and links into the trainer.
        sections: Anchor and title of each section.
        minutes: Reading time in minutes, by track.
    """

    parts: Parts
    sections: list[tuple[str, str]]
    minutes: Mapping[str, int]


_READINGS: dict[str, Reading] = {}


def reading_of(chapter: Chapter) -> Reading:
    """Returns the contents of a chapter, cached unless a widget could not be drawn."""
    cached = _READINGS.get(chapter.slug)
    if cached is not None:
        return cached
    before, texts = failures(), []
    parts = gathered(lambda: texts.append(render(chapter, text_alone=True)))
    [text] = texts
    reading = Reading(
        parts,
        headings(text),
        {
            INTUITION: intuition_minutes(text, parts.full),
            FULL: reading_minutes(text),
        },
    )
    if failures() == before:
        _READINGS[chapter.slug] = reading
    return reading


def compute_ahead(app: Flask) -> None:
    """Computes the figures of all chapters before the first visitor opens one.

    This takes ten seconds of CPU time.
    """
    for chapter in CHAPTERS.values():
        with app.test_request_context():
            reading_of(chapter)

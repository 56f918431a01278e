"""What there is to read in each chapter, and how long that takes, by track."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from flask import Flask, render_template

from dpsgd_explorer.web.api.answer_cache import failures
from dpsgd_explorer.web.content.lessons import Parts, gathered
from dpsgd_explorer.web.hub.chapters.table import (
    CHAPTERS,
    FULL,
    INTUITION,
    Chapter,
    headings,
    intuition_minutes,
    reading_minutes,
)
from dpsgd_explorer.web.recorded.files import recording

#: {chapter: {track: minutes}}, written by ``tools.record.reading_minutes``.  Counted on
#: demand they would cost the first visitor the pictures of every chapter.
MINUTES = "chapters/reading_minutes"


@dataclass(frozen=True)
class Reading:
    """What there is to read in a chapter.

    Attributes:
        parts: What it asks and shows.
        sections: Anchor and title of each section.
        minutes: How long it takes to read, by track.
    """

    parts: Parts
    sections: list[tuple[str, str]]
    minutes: Mapping[str, int]


_READINGS: dict[str, Reading] = {}


def reading_of(chapter: Chapter) -> Reading:
    """Return what there is to read in a chapter, rendered once if nothing failed."""
    known = _READINGS.get(chapter.slug)
    if known is not None:
        return known
    before, texts = failures(), []
    parts = gathered(
        lambda: texts.append(render_template(chapter.template, text_alone=True))
    )
    [text] = texts
    found = Reading(
        parts,
        headings(text),
        {
            INTUITION: intuition_minutes(text, parts.full),
            FULL: reading_minutes(text),
        },
    )
    if failures() == before:
        _READINGS[chapter.slug] = found
    return found


def minutes(chapter: Chapter, track: str = FULL) -> int:
    """Return how long a chapter takes, by the words and widgets that a track shows."""
    counted: int = recording(MINUTES)[chapter.slug][track]
    return counted


def total_minutes(track: str = FULL) -> int:
    """Return how long all chapters take."""
    return sum(minutes(chapter, track) for chapter in CHAPTERS.values())


def compute_ahead(app: Flask) -> None:
    """Compute what the chapters show ahead of their first visitors.

    That takes ten seconds of CPU time for all of them.
    """
    for each in CHAPTERS.values():
        with app.test_request_context():
            reading_of(each)

"""The page of a chapter: its template, rendered with the names that it may use."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from types import ModuleType, SimpleNamespace

from flask import render_template

from dpsgd_explorer.web.content.formulas import math
from dpsgd_explorer.web.content.references import SOURCES
from dpsgd_explorer.web.figures.svg import Picture
from dpsgd_explorer.web.hub.chapters.listings import listing
from dpsgd_explorer.web.hub.chapters.table import (
    CHAPTERS,
    TRACKS,
    Chapter,
    neighbours,
    part_of,
)
from dpsgd_explorer.web.hub.chapters.text import headings


def _load(chapter: Chapter) -> ModuleType:
    return import_module(f"{__package__}.{chapter.folder.name}.figures")


#: {slug: module ``figures`` in the folder of the chapter}.
MODULES = {slug: _load(chapter) for slug, chapter in CHAPTERS.items()}


def render(chapter: Chapter, *, text_alone: bool = False) -> str:
    """Returns a chapter as HTML.

    The template uses the public names of the chapter's module ``figures``, those in its
    ``__all__``, as ``figures.NAME``.

    Args:
        chapter: The chapter.
        text_alone: If True, the page around the text is left out.
    """
    module = MODULES[chapter.slug]
    before, after = neighbours(chapter)
    return render_template(
        chapter.template,
        chapter=chapter,
        figures=SimpleNamespace(
            **{name: getattr(module, name) for name in module.__all__}
        ),
        listing=partial(listing, chapter),
        formula_markup=math,
        references=SOURCES,
        text_alone=text_alone,
        chapters=CHAPTERS.values(),
        part=part_of(chapter),
        before=before,
        after=after,
        headings=headings,
        tracks=TRACKS,
    )


def thumbnail(chapter: Chapter) -> Picture:
    """Returns the thumbnail of a chapter for the Learning Hub."""
    picture: Picture = MODULES[chapter.slug].thumbnail()
    return picture

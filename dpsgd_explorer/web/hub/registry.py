"""Registry of the widgets that the chapters' templates show.

``{{ widget("two-worlds") }}`` shows the widget of the folder ``widgets/two_worlds``.
"""

from __future__ import annotations

import re
from dataclasses import replace
from importlib import import_module

from dpsgd_explorer.web.http.assets import FRONT_DIR
from dpsgd_explorer.web.hub import widgets
from dpsgd_explorer.web.hub.chapters.table import CHAPTERS
from dpsgd_explorer.web.hub.widgets.base import Widget

LINE = re.compile(r'\bwidget\("([\w-]+)"')


def _shown() -> dict[str, str]:
    """Returns {widget: slug of the chapter with its first use}, in reading order."""
    shown: dict[str, str] = {}
    for chapter in CHAPTERS.values():
        text = (FRONT_DIR / "templates" / chapter.template).read_text(encoding="utf-8")
        for slug in LINE.findall(text):
            shown.setdefault(slug, chapter.slug)
    return shown


def _load(slug: str, chapter: str) -> Widget:
    folder = slug.replace("-", "_")
    module = import_module(f"{widgets.__name__}.{folder}.widget")
    widget: Widget = module.WIDGET
    return replace(widget, chapter=chapter)


WIDGETS = {slug: _load(slug, chapter) for slug, chapter in _shown().items()}

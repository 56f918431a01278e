"""The rendered text of a chapter: its headings, line breaks and reading time."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from markupsafe import Markup

WORDS_A_MINUTE = 180
WIDGET_MINUTES = 2  # for a guess, moving the widget and reading its sentences
WIDGET = "data-widget="  # occurs once in the markup of each widget
# Drawings and formulas have no words to read.  Few readers open folds and sources.
# The still picture of a widget replaces the moving one, so only one of them counts.
NOT_READ = re.compile(
    r'<div data-still>.*?(?=<div class="widget-live")|'
    r"<(svg|math|pre|details|script)\b.*?</\1>|"
    r'<section class="sources">.*?</section>|<[^>]*>',
    re.DOTALL,
)
# The track "Full" opens the folds, but not the tables and the marks of figures.
NOT_READ_IN_FULL = re.compile(
    NOT_READ.pattern.replace("|details|", "|").replace(
        r'<section class="sources">',
        r'<details class="(?:table-toggle|corner-mark)">.*?</details>|'
        r'<section class="sources">',
    ),
    re.DOTALL,
)
HEADING = re.compile(r'<h2 id="([\w-]+)">(.*?)</h2>', re.DOTALL)
# Drawings, code and tags: a mark-up of numbers would break them.
NOT_PROSE = re.compile(
    r"(<svg.*?</svg>|<pre.*?</pre>|<math.*?</math>|<[^>]*>)",
    re.DOTALL,
)
# Read again by a program or the server, or copied; and drawings, whose lines never
# break.  A tag with quotes has attributes, which scripts and forms read.
NOT_SHOWN = re.compile(
    r"(<(script|pre|code|svg|textarea|select)\b.*?</\2>|<[^<>]*\"[^<>]*>)",
    re.DOTALL,
)
SIGN = re.compile(r"(?<=[εσδηCqN>]) ([=≤≥≈]) (?=[−\d.∞])")  # "ε = 3"
SMALL_NUMBER = re.compile(r"\d[\d.]*e-\d+")
ON_ONE_LINE = r'<span class="num">\g<0></span>'
NO_BREAK_SPACE = "\N{NO-BREAK SPACE}"


def headings(text: str) -> list[tuple[str, str]]:
    """Returns anchor and title of each section in a rendered chapter."""
    return HEADING.findall(text)


def unbroken(text: Markup) -> Markup:
    """Keeps "ε = 3", "50 %" and "1e-5" on one line, except in code and in data."""
    parts: list[str] = []
    end = 0
    for kept in NOT_SHOWN.finditer(text):
        parts += (_unbroken(text[end : kept.start()]), kept[0])
        end = kept.end()
    return Markup("".join((*parts, _unbroken(text[end:]))))


def _unbroken(text: str) -> str:
    together = SIGN.sub(rf"{NO_BREAK_SPACE}\1{NO_BREAK_SPACE}", text)
    together = re.sub(r"(?<=\d) %", f"{NO_BREAK_SPACE}%", together)
    parts = NOT_PROSE.split(together)
    parts[::2] = [SMALL_NUMBER.sub(ON_ONE_LINE, prose) for prose in parts[::2]]
    return "".join(parts)


def reading_minutes(text: str) -> int:
    """Returns the minutes that a rendered text takes in the track "Full".

    A minute has ``WORDS_A_MINUTE`` words, and each widget takes ``WIDGET_MINUTES``.
    Questions count with all their answers and reasons, and folds with their prose.
    Code, formulas, drawings and sources do not count. Of a widget's two pictures one
    counts.
    """
    return _minutes(_words(text, NOT_READ_IN_FULL), text.count(WIDGET))


def intuition_minutes(text: str, left_out: Sequence[str]) -> int:
    """Returns the minutes of the track "Intuition", which does not open folds.

    Args:
        text: The whole text.
        left_out: Passages of the text that this track does not show.
    """
    words = _words(text) - sum(map(_words, left_out))
    widgets = text.count(WIDGET) - sum(part.count(WIDGET) for part in left_out)
    return _minutes(words, widgets)


def _minutes(words: int, widgets: int) -> int:
    return math.ceil(words / WORDS_A_MINUTE) + WIDGET_MINUTES * widgets


def _words(text: str, unread: re.Pattern[str] = NOT_READ) -> int:
    return len(unread.sub(" ", text).split())

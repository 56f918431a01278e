"""Code that chapters show: files of a chapter's folder, with their syntax marked."""

from __future__ import annotations

import io
import keyword
import tokenize
from functools import cache

from markupsafe import Markup, escape

from dpsgd_explorer.web.hub.chapters.table import Chapter

TOKEN_CLASSES = {  # token to CSS class: c comment, k constant
    tokenize.COMMENT: "c",
    tokenize.NUMBER: "k",
    tokenize.STRING: "k",
}
KEYWORD_CLASS = "w"


def listing(chapter: Chapter, name: str) -> Markup:
    """Returns a file of the chapter's folder, its comments, values and keywords marked.

    Raises:
        FileNotFoundError: The folder has no file of this name.
    """
    return _marked((chapter.folder / name).read_text(encoding="utf-8"))


@cache
def _marked(source: str) -> Markup:
    pieces, end = [], (1, 0)
    lines = source.splitlines(keepends=True)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        pieces.append(escape(_between(lines, end, token.start)))
        css = TOKEN_CLASSES.get(token.type)
        if keyword.iskeyword(token.string):
            css = KEYWORD_CLASS
        text = escape(token.string)
        pieces.append(
            Markup('<span class="{}">{}</span>').format(css, text) if css else text
        )
        end = token.end
    return Markup("").join(pieces).strip()


def _between(lines: list[str], start: tuple[int, int], end: tuple[int, int]) -> str:
    """Returns the text between two positions (line from 1, column from 0)."""
    if start[0] == end[0]:
        return lines[start[0] - 1][start[1] : end[1]] if start[0] <= len(lines) else ""
    first = lines[start[0] - 1][start[1] :] if start[0] <= len(lines) else ""
    last = lines[end[0] - 1][: end[1]] if end[0] <= len(lines) else ""
    return first + "".join(lines[start[0] : end[0] - 1]) + last

"""Segments of a template: its texts for people, as a translator reads them.

A segment is the text of one block with its inline elements and expressions, or an
attribute that is shown or read aloud.  Extraction and translation walk the same way
through a template, so each text of a template is extracted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from jinja2 import Environment

READ_ATTRIBUTES = (
    "alt|aria-label|aria-valuetext|content|data-tab|data-waiting|data-words"
    "|placeholder|title"
)
INLINE_TAGS = "a|abbr|b|bdi|code|em|i|kbd|mark|q|small|span|strong|sub|sup|time|u|var"
#: Statements that stay in a segment if they are in the middle of a sentence.
CONDITIONS = {"if": 1, "elif": 0, "else": 0, "endif": -1}

# One private character replaces each piece of Jinja code; the rest is HTML.
_EXPRESSIONS, _CONDITIONS, _BOUNDARIES = 0xE000, 0xE800, 0xF000
_EXPRESSION = re.compile("[\ue000-\ue7ff]")
_CODE = re.compile("[\ue000-\uf7ff]")
_REST = r'[^>"]*(?:"[^"]*"[^>"]*)*>'  # of a tag
_TOKEN = re.compile(
    r"(?P<raw><(script|style|pre)\b.*?</\2>|<!--.*?-->)"
    rf"|(?P<inline></?(?:{INLINE_TAGS})\b{_REST})"
    rf"|(?P<block><{_REST}|[\uf000-\uf7ff])|(?P<condition>[\ue800-\uefff])"
    r"|(?P<text>[^<\ue800-\uf7ff]+)",
    re.DOTALL,
)
_RAW = re.compile(r"<(?:script|style|pre)\b[^>]*>|<!--")
_ATTRIBUTE = re.compile(rf'(\s(?:{READ_ATTRIBUTES})=")(?!width=)([^"]+)')
_WORD = re.compile(r"[^\W\d_\ue000-\uf7ff]{2}")
_NOT_TEXT = re.compile(r"<[^>]*>|&#?\w+;")

_TAG = re.compile(r"<[^>]+>")
_EDGES = re.compile(r"((?:\s|</[^>]+>)*)(.*?)((?:\s|<\w[^>]*>)*)", re.DOTALL)

Change = Callable[[str], str]


def has_words(text: str) -> bool:
    """Return True if HTML contains a word of two letters outside its tags."""
    return bool(_WORD.search(_NOT_TEXT.sub("", text)))


def is_inline(html: str) -> bool:
    """Return True if HTML has only tags that may be within a sentence."""
    return not any(match["block"] or match["raw"] for match in _TOKEN.finditer(html))


def change_html(html: str, text: Change) -> str:
    """Return HTML with each text and each attribute that is read changed."""

    def changed(match: re.Match[str]) -> str:
        return text(match[0]) if match["text"] else _change_attributes(match[0], text)

    return _TOKEN.sub(changed, html)


def _change_attributes(tags: str, text: Change) -> str:
    """Return tags with their attributes changed; a script stays as it is."""
    head, content = tags, ""
    if raw := _RAW.match(tags):
        head, content = tags[: raw.end()], tags[raw.end() :]
    return _ATTRIBUTE.sub(lambda match: match[1] + text(match[2]), head) + content


class Template:
    """A template's source, as HTML with one character for each piece of Jinja code."""

    def __init__(self, environment: Environment, source: str) -> None:
        self._code: dict[str, str] = {}
        parts, piece, start = [], "", ""
        for _, token, value in environment.lexer.tokeniter(source, None):
            start = start or token
            piece += value
            if start == "data" or token == start.replace("_begin", "_end"):
                parts.append(piece if start == "data" else self._replace(start, piece))
                piece, start = "", ""
        self.page = "".join(parts)

    def _replace(self, start: str, piece: str) -> str:
        first = _BOUNDARIES
        if start == "variable_begin":
            first = _EXPRESSIONS
        elif start == "block_begin" and self._statement(piece) in CONDITIONS:
            first = _CONDITIONS
        character = chr(first + len(self._code))
        self._code[character] = piece
        return character

    @staticmethod
    def _statement(piece: str) -> str:
        return piece.lstrip("{%-+ \n").split(maxsplit=1)[0]

    def source(self, page: str) -> str:
        """Return Jinja source: a part of the page with its code."""
        return _CODE.sub(lambda match: self._code[match[0]], page)

    def change_expressions(self, change: Change) -> str:
        """Return the source with all expressions changed that print text."""

        def expression(match: re.Match[str]) -> str:
            return change(self._code[match[0]])

        return self.source(
            change_html(self.page, lambda text: _EXPRESSION.sub(expression, text))
        )

    def change_segments(self, change: Change) -> str:
        """Return the source with all segments changed."""
        return self.source("".join(self._changed(change)))

    def _changed(self, change: Change) -> Iterator[str]:
        def text(value: str) -> str:
            return change(self.source(value)) if has_words(value) else value

        line: list[re.Match[str]] = []
        for match in _TOKEN.finditer(self.page + "\uf7ff"):  # the end is a boundary
            if match["inline"] or match["text"] or match["condition"]:
                line.append(match)
                continue
            yield from self._change_line(line, text)
            line = []
            yield _change_attributes(match[0].rstrip("\uf7ff"), text)

    def _change_line(self, line: list[re.Match[str]], change: Change) -> Iterator[str]:
        """Yield the changed parts of a line: text with inline tags and code."""
        is_sentence = self._is_sentence(line)
        part = ""
        for match in line:
            if match["condition"] and not is_sentence:
                yield _change_text(part, change) + match[0]
                part = ""
            else:
                part += match[0]
        yield _change_text(part, change)

    def _is_sentence(self, line: list[re.Match[str]]) -> bool:
        """Return True if text stands around the conditions, which are complete."""
        depth, around = 0, ""
        for match in line:
            if match["condition"]:
                depth += CONDITIONS[self._statement(self._code[match[0]])]
                if depth < 0:
                    return False
            elif not depth:
                around += match[0]
        return depth == 0 and has_words(around)


def _change_text(text: str, change: Change) -> str:
    """Return text with its core changed, inside the tags that enclose all of it."""
    if not has_words(text):
        return _change_attributes(text, change)
    head, core, tail = _EDGES.fullmatch(text).groups()  # type: ignore[union-attr]
    depth, enclosed = 0, ""
    for tag in _TAG.finditer(core):
        depth += -1 if tag[0].startswith("</") else 1
        if not depth:
            enclosed = core[: tag.end()]
            break
    if core.startswith("<") and enclosed == core:
        start, end = core.index(">") + 1, core.rindex("<")
        opening = _change_attributes(core[:start], change)
        core = opening + _change_text(core[start:end], change) + core[end:]
    else:
        core = change(core)
    return head + core + _change_attributes(tail, change)

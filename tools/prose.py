"""The prose of a file; all other text is replaced by blanks, nouns and boundaries.

Every function preserves the number of lines, so that the position of a match still
gives its line.
"""

from __future__ import annotations

import re

BOUNDARY = "|"  # ends a sentence, like the edge of a table cell
NOUN = "…"  # replaces quoted code and inserted values

_TWO_WORDS = re.compile(r"[^\W\d_]\s+[^\W\d_]")  # keys and names have no space
_LITERAL = r""""(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'"""
_PYTHON = re.compile(
    r"(?P<comment>#[^\n]*)"
    r"|(?P<docstring>(?m:^) *\"\"\"(?:\\.|[^\\])*?\"\"\"(?= *\n))"
    r"|(?P<literal>[bfru]{0,2}(?:\"\"\".*?\"\"\"|'''.*?'''|\"(?:\\.|[^\"\n\\])*\"|"
    r"'(?:\\.|[^'\n\\])*'))"
    r"|(?P<code>[^\s\"'#][^\"'#\n]*?(?=\s*(?:\b[bfru]{1,2})?[\"'#\n]|\s*\Z))",
    re.DOTALL | re.IGNORECASE,
)
_SCRIPT = re.compile(
    r"(?P<comment>//[^\n]*|/\*.*?\*/)"
    r"|(?P<pattern>(?<=[(=,:&|?\s])/(?:\\.|\[(?:\\.|[^\]\n\\])*\]|[^/\n\\\s])+/)"
    r"""|(?P<literal>"(?:\\.|[^"\n\\])*"|'(?:\\.|[^'\n\\])*'|`(?:\\.|[^`\\])*`)"""
    r"|(?P<code>[^\s\"'`/+][^\"'`/+\n]*|/)",
    re.DOTALL,
)
_INLINE_TAGS = "a|abbr|b|bdi|br|cite|em|i|mark|q|small|span|strong|sub|sup|u|var"
_READ_ATTRIBUTES = "alt|aria-label|content|label|placeholder|summary|title"


def markdown(text: str) -> str:
    """Return the paragraphs, headings and table cells of a Markdown page."""
    text = _masked(r"<!--.*?-->", text)
    text = _masked(r"(?m:^ *(```|~~~)).*?(?:\1|\Z)", text, BOUNDARY)
    text = _masked(r"(`+)[^`].*?\1", text, NOUN)
    return re.sub(r"\]\([^)\s]*\)", "]", text)


def template(text: str) -> str:
    """Return a template's text, literals and attributes that are shown to people."""
    text = _masked(r"<!--.*?-->|\{#.*?#\}", text)
    text = _masked(r"<(script|style|svg|pre)\b.*?</\1>", text, BOUNDARY)
    text = _masked(r"<code\b.*?</code>", text, NOUN)
    text = re.sub(r"\{\{.*?\}\}|\{%.*?%\}", _arguments, text, flags=re.DOTALL)
    return re.sub(r"<[^<>]*>", _attributes, text)


def comments(source: str) -> str:
    """Return the docstrings and comments of Python source."""
    return _PYTHON.sub(_comment, source)


def literals(source: str) -> str:
    """Return the literals of Python source with two or more words."""
    return _PYTHON.sub(_literal, source)


def script_comments(source: str) -> str:
    """Return the comments of a script."""
    return _SCRIPT.sub(_comment, source)


def script_literals(source: str) -> str:
    """Return the literals of a script with two or more words."""
    return _SCRIPT.sub(_literal, source.replace("+", " "))


def _masked(pattern: str, text: str, fill: str = " ") -> str:
    """Replace each match of a pattern by ``fill`` and preserve its line breaks."""

    def mask(match: re.Match[str]) -> str:
        return fill + "\n" * match[0].count("\n")

    return re.sub(pattern, mask, text, flags=re.DOTALL)


def _replaced(before: str, parts: list[str], fill: str) -> str:
    """Return the parts between boundaries, or ``fill``; preserve the line breaks."""
    kept = [" ".join(part.split()) for part in parts if _TWO_WORDS.search(part)]
    edge = f" {BOUNDARY} "
    text = edge + edge.join(kept) + edge if kept else fill
    return text + "\n" * before.count("\n")


def _arguments(match: re.Match[str]) -> str:
    found = [part[1:-1] for part in re.findall(_LITERAL, match[0], re.DOTALL)]
    is_value = match[0].startswith("{{")
    return _replaced(match[0], found, NOUN if is_value else f" {BOUNDARY} ")


def _attributes(match: re.Match[str]) -> str:
    found = re.findall(rf'\b(?:{_READ_ATTRIBUTES})="([^"]*)"', match[0])
    is_inline = re.match(rf"</?(?:{_INLINE_TAGS})\b", match[0])
    return _replaced(match[0], found, "" if is_inline else f" {BOUNDARY} ")


def _comment(match: re.Match[str]) -> str:
    """Return a comment or docstring without its marks; a boundary for other code."""
    text = match[0]
    if match.lastgroup == "comment":
        return re.sub(r"//|/\*\*?|\*/|(?m:^ *\*)|^[#:! ]+", " ", text)
    if match.lastgroup == "docstring":
        text = _masked(r"(?m:^ *(?:>>>|\.\.\. )[^\n]*$)", text.strip(' "'), BOUNDARY)
        return BOUNDARY + " " + _masked(r"(`+)[^`].*?\1", text, NOUN)
    return BOUNDARY + "\n" * text.count("\n")


def _literal(match: re.Match[str]) -> str:
    """Return the text of a literal; a boundary for other code.

    Adjacent literals form one text, even with comments between them.
    """
    text = match[0]
    breaks = "\n" * text.count("\n")
    if match.lastgroup == "comment":
        return breaks
    if match.lastgroup != "literal":
        return BOUNDARY + breaks
    quoted = re.sub(r"\$?\{[^{}]*\}", NOUN, text.lstrip("bfruBFRU").strip("\"'`"))
    quoted = re.sub(r"\\[nt]", " ", quoted)
    return f" {quoted} " if _TWO_WORDS.search(quoted) else BOUNDARY + breaks

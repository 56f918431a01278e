"""Texts in scripts: string literals with words that are not code."""

from __future__ import annotations

import re
from collections.abc import Callable

_TOKEN = re.compile(
    r"(?P<skip>//[^\n]*|/\*.*?\*/"
    r"|(?<=[(=,:&|?!\[{\s])/(?![*/ ])(?:\\.|\[(?:\\.|[^\]\n\\])*\]|[^/\n\\\[])+/)"
    r"""|(?P<quoted>"(?:\\.|[^"\n\\])*"|'(?:\\.|[^'\n\\])*')"""
    r"|(?P<template>`)|(?P<brace>[{}])",
    re.DOTALL,
)
_TWO_WORDS = re.compile(r"[^\W\d_]{2}\S*\s+\S*[^\W\d_]{2}")
_WORD = re.compile(r"(?<![\w-])[^\W\d_]{3,}(?![\w-])")
_TITLE = re.compile(r"[A-Z][a-z]+[.…?!:]?")
#: Words like titles that are names of keys of a keyboard, or of an option.
_NAMES = {"Abadi", "Backspace", "Delete", "End", "Enter", "Escape", "Home"}
_CODE = re.compile(r"[\[\]<>=#;]|(?:^|\s)[.:]\w|[\w-]\.[a-z]|\w\(")
_COMPARED = re.compile(r"(?:[!=]==|\bcase) $")

Change = Callable[[str], str]


def change_script(source: str, change: Change) -> str:
    """Return a script with its texts changed, without their quotes.

    The text of a template literal contains the code of its expressions.
    """
    parts, position = [], 0
    while token := _TOKEN.search(source, position):
        parts.append(source[position : token.start()])
        position = token.end()
        if token["template"]:
            position = _end_of_template(source, position)
            text = _changed(source[token.end() : position - 1], "`", change)
            parts.append(f"`{_change_expressions(text, change)}`")
        elif token["quoted"]:
            quote, text = token[0][0], token[0][1:-1]
            is_compared = _COMPARED.search(source[: token.start()][-8:])
            new = text if is_compared else _changed(text, quote, change)
            parts.append(quote + new + quote)
        else:
            parts.append(token[0])
    return "".join([*parts, source[position:]])


def _is_text(literal: str) -> bool:
    words = "".join(part for part, _ in _parts(literal))
    if _CODE.search(words) or literal in _NAMES:
        return False
    has_word = words != literal and " " in words and _WORD.search(words)
    return bool(has_word or _TWO_WORDS.search(words) or _TITLE.fullmatch(literal))


def _changed(literal: str, quote: str, change: Change) -> str:
    new = change(literal) if _is_text(literal) else literal
    return literal if new == literal else _escaped(new, quote)


def _escaped(text: str, quote: str) -> str:
    """Return a text with its quotes escaped outside its expressions."""
    quotes = re.compile(rf"(?<!\\){quote}")
    return "".join(
        quotes.sub("\\\\" + quote, part) + code for part, code in _parts(text)
    )


def _change_expressions(text: str, change: Change) -> str:
    return "".join(part + change_script(code, change) for part, code in _parts(text))


def _parts(text: str) -> list[tuple[str, str]]:
    """Return the parts of a template literal, each with the ``${code}`` after it."""
    parts, position = [], 0
    while (start := text.find("${", position)) >= 0:
        end = _end_of_code(text, start + 2)
        parts.append((text[position:start], text[start:end]))
        position = end
    return [*parts, (text[position:], "")]


def _end_of_template(source: str, position: int) -> int:
    while source[position] != "`":
        if source.startswith("${", position):
            position = _end_of_code(source, position + 2)
        else:
            position += 2 if source[position] == "\\" else 1
    return position + 1


def _end_of_code(source: str, position: int) -> int:
    depth = 1
    while depth:
        token = _TOKEN.search(source, position)
        if token is None:
            raise ValueError(f"an expression must end with a brace, got {source!r}.")
        position = token.end()
        if token["template"]:
            position = _end_of_template(source, position)
        elif token["brace"]:
            depth += 1 if token[0] == "{" else -1
    return position

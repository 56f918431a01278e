"""A catalogue of translated texts, and its use where texts leave the server."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Mapping
from html import unescape
from pathlib import Path
from typing import Any

from flask import Flask
from jinja2.ext import Extension
from markupsafe import Markup, escape

from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.web.texts.scripts import change_script
from dpsgd_explorer.web.texts.segments import (
    Template,
    change_html,
    has_words,
    is_inline,
)

_QUOTED = r'((?:"(?:\\.|[^"\\\n])*"\s*)+)'
_ENTRY = re.compile(rf"^msgid {_QUOTED}msgstr {_QUOTED}", re.MULTILINE)
_CODE = re.compile(r"\{\{.*?\}\}|\{%.*?%\}|\{[^{}]*\}|</?\w+", re.DOTALL)
_LITERAL = re.compile(r"\"[^\"]*\"|'[^']*'")
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
#: Fewest letters of a pattern whose placeholder can be several words.
_MIN_LETTERS = 12
#: Between the parts of a list, between sentences, and numbers.
_PARTS = re.compile(r"( · | and |[;:,] | \(|\)|(?<=[.!?]) |\s*\d[\d.,]*\s*)")
#: Keys of data for scripts whose values are texts even if they are one word.
_TEXT_KEYS = {"label", "title", "sub", "unit", "words", "help"}


def one_line(text: str) -> str:
    """Return a text as catalogues have it, with single spaces."""
    return " ".join(text.split())


def _in_place_of(english: str, translation: str) -> str:
    """Return a translation with the white space around the English text."""
    before, _, after = english.partition(english.strip())
    return before + translation + after


def read_po(text: str) -> dict[str, str]:
    """Return {English: translation} of a PO file, without fuzzy or empty entries."""
    messages = {}
    for block in re.split(r"\n\s*\n", text):
        entry = None if "#, fuzzy" in block else _ENTRY.search(block + "\n")
        if entry:
            english, translation = map(_unquoted, entry.groups())
            if english and translation:
                messages[english] = translation
    return messages


def _unquoted(lines: str) -> str:
    return "".join(json.loads(line) for line in lines.splitlines() if line.strip())


def code_of(message: str) -> list[str]:
    """Return placeholders, code without its literals, and tags, in sorted order."""
    return sorted(_LITERAL.sub('""', code) for code in _CODE.findall(message))


class Pattern:
    """A text with placeholders, recognized in a finished text."""

    def __init__(self, english: str, translation: str) -> None:
        parts = _PLACEHOLDER.split(english)
        literals, self._names = parts[::2], parts[1::2]
        self.letters = sum(map(str.isalpha, "".join(literals)))
        #: A word of each text with this pattern; None if all touch a placeholder.
        text = "\0".join(literals)
        words = re.findall(r"(?<![\w\0])[^\W\d_]+(?![\w\0])", text)
        self.word = max(words, key=len, default=None)
        group = "(.+?)" if self.letters >= _MIN_LETTERS else r"(\S+)"
        self._expression = re.compile(group.join(map(re.escape, literals)))
        self._translation = translation

    def translate(self, text: str, change: Callable[[str], str]) -> str | None:
        """Return the translation; None if the text has another pattern.

        Args:
            text: A finished text.
            change: Translates the values of the placeholders.
        """
        match = self._expression.fullmatch(text)
        if not match or any(x.count("<") != x.count(">") for x in match.groups()):
            return None  # another text, or a part of a tag
        values = dict(zip(self._names, map(change, match.groups()), strict=True))
        return _PLACEHOLDER.sub(lambda name: values[name[1]], self._translation)


class Catalogue:
    """Translations of one language.

    Args:
        messages: {English: translation}. A translation must have the placeholders,
            the code and the tags of the English text.

    Raises:
        ValueError: names the first text for which this is not so.
    """

    def __init__(self, messages: Mapping[str, str]) -> None:
        self._messages = messages
        self._patterns: dict[str | None, list[Pattern]] = {}
        for english, translation in messages.items():
            if (expected := code_of(english)) != (found := code_of(translation)):
                raise ValueError(
                    f"the translation of {english!r} must have the placeholders and "
                    f"tags {expected}, got {found}."
                )
            if _PLACEHOLDER.search(english) and not re.search(r"\$\{|\{[{%]", english):
                pattern = Pattern(english, translation)
                self._patterns.setdefault(pattern.word, []).append(pattern)
        self.text = functools.lru_cache(maxsize=10_000)(self._text)

    @classmethod
    def read(cls, file: Path) -> Catalogue:
        """Return the catalogue of a PO file.

        Raises:
            ConfigError: the file is missing or has a wrong entry.
        """
        try:
            return cls(read_po(file.read_text(encoding="utf-8")))
        except (OSError, ValueError) as error:
            raise ConfigError("DPSGD_LANGUAGE", f"{file.name}: {error}") from None

    def segment(self, english: str) -> str:
        """Return the translation of a text in source, itself if there is none."""
        found = self._messages.get(one_line(english))
        return english if found is None else _in_place_of(english, found)

    def script(self, source: str) -> str:
        """Return a script in the language of the catalogue."""
        return change_script(source, self.segment)

    def _find(self, text: str, change: Callable[[str], str]) -> str | None:
        """Return the translation of a whole text by the most specific entry."""
        if text in self._messages:
            return self._messages[text]
        words = {*re.findall(r"[^\W\d_]+", text), None}
        near = [one for word in words for one in self._patterns.get(word, ())]
        near.sort(key=lambda pattern: -pattern.letters)
        results = (pattern.translate(text, change) for pattern in near)
        return next((result for result in results if result is not None), None)

    def _text(self, english: str) -> str:
        """Return a finished text with all parts translated that are known."""
        if not has_words(english):
            return english
        found = self._find(one_line(english), self.text)
        if found is None:
            parts = _PARTS.split(english)  # each second one is a separator
            if len(parts) > 1:
                parts[::2] = map(self.text, parts[::2])
            return "".join(parts)
        return _in_place_of(english, found)

    def html(self, html: str) -> Markup:
        """Return HTML with its texts translated."""

        def text(node: str) -> str:
            return str(escape(self.text(unescape(node))))

        found = None
        if is_inline(html):
            found = self._find(one_line(html), self.html)
        return Markup(change_html(html, text) if found is None else found)

    def printed(self, value: Any) -> Any:
        """Return the translation of a value that a template prints."""
        if isinstance(value, Markup):
            return self.html(value)
        return self.text(value) if isinstance(value, str) else value

    def data(self, value: Any, name: str = "") -> Any:
        """Return data for a script with its texts translated, not its identifiers.

        Args:
            value: JSON data, or a part of it.
            name: Key of the value.
        """
        if isinstance(value, Mapping):
            return {key: self.data(part, str(key)) for key, part in value.items()}
        if isinstance(value, list | tuple):
            return [self.data(part, name) for part in value]
        is_text = isinstance(value, str) and (" " in value or name in _TEXT_KEYS)
        return self.printed(value) if is_text else value


class Translated(Extension):
    """Translates templates when they are compiled, and the values that they print.

    ``environment.catalogue`` is the :class:`Catalogue`.
    """

    def preprocess(
        self, source: str, name: str | None, filename: str | None = None
    ) -> str:
        """Return the source in the language of the catalogue."""
        environment = self.environment
        segment = environment.catalogue.segment  # type: ignore[attr-defined]
        source = Template(environment, source).change_segments(segment)
        return Template(environment, source).change_expressions(_translated)


def _translated(expression: str) -> str:
    match = re.fullmatch(r"\{\{([-+]?)(.*?)([-+]?)\}\}", expression, re.DOTALL)
    assert match, expression
    return f"{{{{{match[1]} ({match[2]})|translated {match[3]}}}}}"


def translate(app: Flask, catalogue: Catalogue) -> None:
    """Translate all templates of an application, and the data in its pages."""
    environment = app.jinja_env
    environment.extend(catalogue=catalogue)
    environment.filters["translated"] = catalogue.printed
    environment.add_extension(Translated)
    app.extensions["catalogue"] = catalogue
    dumps = environment.policies["json.dumps_function"]
    environment.policies["json.dumps_function"] = lambda value, **options: dumps(
        catalogue.data(value), **options
    )

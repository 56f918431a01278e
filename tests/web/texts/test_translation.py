"""Pages in a pseudo-language: no text for people is left in English.

The pseudo-language is made from the texts that ``tools.texts`` extracts.  It puts ⟦⟧
around all that a translator would write; words outside them were not extracted, or
not replaced.
"""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from jinja2 import Environment

from dpsgd_explorer.web.hub.chapters.table import CHAPTERS
from dpsgd_explorer.web.hub.registry import WIDGETS
from dpsgd_explorer.web.texts.segments import Template, change_html
from tests.web.conftest import application
from tools.texts import all_texts, pot

READ = {"alt", "aria-label", "aria-valuetext", "content", "placeholder", "title"}
ENVIRONMENT = Environment()
WORD = re.compile(r"[^\W\d_]{2,}")
PLACEHOLDER = re.compile(r"(\{[^{}]*\}|[\ue000-\uf7ff])")
SOME_PAGES = ("/", "/runs/", "/data/", "/classes/")
PAGES = (
    *(*SOME_PAGES, "/train/", "/learn/", "/learn/short/", "/glossary/", "/about/"),
    *("/teach/", "/labs/", "/labs/attack/"),
    *(f"/labs/{lab}/" for lab in ("accountants", "engines", "planner", "reconstruct")),
    *(f"/learn/{slug}/" for slug in CHAPTERS),
    *(f"/teach/{slug}/" for slug in CHAPTERS),
    *(f"/embed/{slug}/" for slug in WIDGETS),
)
#: Share of the texts of pages that the pseudo-language must replace.  The rest is
#: data (names, hosts, cells of a table) and phrases that Python composes of parts.
MIN_SHARE = 0.97


def marked(text):
    """Return a text with ⟦⟧ around all parts with words that are not placeholders."""
    parts = PLACEHOLDER.split(text)
    parts[::2] = [f"⟦{part}⟧" if WORD.search(part) else part for part in parts[::2]]
    return "".join(parts)


def pseudo(text):
    """Return the translation of a text into the pseudo-language."""
    if "${" in text:
        return f"⟦{text}⟧"
    if "{{" not in text and "{%" not in text:
        return change_html(text, marked)
    template = Template(ENVIRONMENT, text)
    return template.source(change_html(template.page, marked))


def pseudo_language():
    """Return the PO file of the pseudo-language."""
    empty = re.compile(r'^msgid (".+")\nmsgstr ""$', re.MULTILINE)

    def filled(entry):
        translation = json.dumps(pseudo(json.loads(entry[1])), ensure_ascii=False)
        return f"msgid {entry[1]}\nmsgstr {translation}"

    return empty.sub(filled, pot(all_texts()))


class Texts(HTMLParser):
    """The texts of a page that have words, and those with words outside ⟦⟧."""

    def __init__(self, page):
        super().__init__()
        self.all, self.english = [], []
        self.depth, self.closed_by = 0, None
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        is_data = ("translate", "no") in attributes
        if not self.closed_by and (is_data or tag in ("script", "style", "code")):
            self.closed_by = tag
        for name, value in attributes:
            is_read = name in READ
            if is_read and ("name", "viewport") not in attributes:
                self.read(value or "")

    def handle_endtag(self, tag):
        self.closed_by = None if tag == self.closed_by else self.closed_by

    def handle_data(self, data):
        if not self.closed_by:
            self.read(data)

    def read(self, text):
        outside = ""
        for character in text:
            if character in "⟦⟧":
                self.depth += 1 if character == "⟦" else -1
            elif not self.depth:
                outside += character
        if WORD.search(text):
            self.all.append(text)
        if WORD.search(outside):
            self.english.append(outside)


@pytest.fixture(scope="module")
def pseudo_client(settings_in, tmp_path_factory):
    """A client of an application in the pseudo-language."""
    folder = tmp_path_factory.mktemp("pseudo")
    (folder / "xx.po").write_text(pseudo_language(), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dpsgd_explorer.web.LANGUAGES_DIR", folder)
        with application(replace(settings_in(folder), language="xx")) as app:
            app.jinja_env.bytecode_cache = None
            yield app.test_client()


def read(client, pages):
    """Return the number of texts of pages, and {page: its English texts}."""
    total, english = 0, {}
    for page in pages:
        answer = client.get(page)
        assert answer.status_code == 200, page
        assert '<html lang="xx"' in answer.text
        texts = Texts(answer.text)
        assert texts.depth == 0, page
        total += len(texts.all)
        english[page] = texts.english
    return total, english


def test_no_text_of_a_page_is_left_in_english(pseudo_client):
    total, english = read(pseudo_client, SOME_PAGES)
    left = sum(map(len, english.values()))
    assert left <= (1 - MIN_SHARE) * total, english


@pytest.mark.long("every page")
def test_no_text_of_any_page_is_left_in_english(pseudo_client):
    total, english = read(pseudo_client, PAGES)
    left = sum(map(len, english.values()))
    print(f"{total} texts, {left} in English")
    assert left <= (1 - MIN_SHARE) * total, english


def test_errors_are_translated_too(pseudo_client):
    page = pseudo_client.get("/nowhere", headers={"Accept": "text/html"})
    assert page.status_code == 404
    assert Texts(page.text).english == []
    wrong = pseudo_client.post("/api/v1/runs", json={"steps": -1})
    assert wrong.status_code == 422
    assert wrong.json["error"]["code"] == "invalid_config"
    assert not WORD.search(re.sub("⟦[^⟦⟧]*⟧", "", wrong.json["error"]["message"]))


def test_an_english_word_is_seen():
    assert Texts("<p>⟦One⟧ 3</p><code>two</code>").english == []
    assert Texts('<p>⟦One⟧ two</p><i title="three">').english == [" two", "three"]
    assert pseudo("{n} of <b>{{ m }} runs</b>") == "{n}⟦ of ⟧<b>{{ m }}⟦ runs⟧</b>"


def test_nothing_happens_in_english(reading):
    assert '<html lang="en"' in reading.get("/").text
    app = reading.application
    assert "catalogue" not in app.extensions
    assert not app.jinja_env.extensions

"""The glossary and the page about the site: whole, linked, and true."""

import html
import re
import unicodedata
from urllib.parse import urlparse

import pytest

from dpsgd_explorer.web.content.glossary import TERMS
from dpsgd_explorer.web.content.references import SOURCES
from dpsgd_explorer.web.http.visitor import COOKIE
from dpsgd_explorer.web.hub.chapters.table import CHAPTERS
from dpsgd_explorer.web.hub.chapters.text import WORDS_A_MINUTE
from dpsgd_explorer.web.pages import glossary
from tests.web.reading import Page

# Terms that a student was found to meet without an explanation.
NEEDED = (
    "band",
    "budget",
    "odometer",
    "filter",
    "ridge",
    "scattering",
    "likelihood-ratio",
    "eigenvalue",
    "frobenius-norm",
    "gram-matrix",
    "clipping-mode",
    "engine",
    "recorded",
    "exact",
    "fundamental-law",
    "plausible-deniability",
)
USED = re.compile(r'<a class="term" href="([^"]+)" data-meaning="([^"]*)">(.*?)</a>')


@pytest.fixture(scope="module")
def text(reading):
    return reading.get("/glossary/").text


def test_every_term_has_an_entry_that_says_something_and_leads_on(reading, text):
    ids = {a["id"] for _, a in Page(text).elements if "id" in a}
    names = [entry.name.lower() for entry in TERMS.values()]
    assert len(set(names)) == len(names)
    for slug, entry in TERMS.items():
        assert slug in ids
        assert 6 <= len(entry.meaning.split()) <= 50, slug
        assert entry.meaning.endswith("."), slug
        assert entry.chapter in {"", *CHAPTERS}
    for link in Page(text).all("a"):
        target = urlparse(link["href"])
        if target.path.startswith("/learn/") and target.fragment:
            assert f'id="{target.fragment}"' in reading.get(target.path).text, link


def test_the_terms_that_students_missed_are_there():
    assert set(NEEDED) <= set(TERMS)


def test_terms_in_the_chapters_are_links_to_their_entries(reading):
    found = [
        use
        for slug in CHAPTERS
        for use in USED.findall(reading.get(f"/learn/{slug}/").text)
    ]
    assert len(found) > 15
    for address, meaning, words in found:
        target = urlparse(address)
        assert (target.path, words != "") == ("/glossary/", True)
        read = html.unescape(meaning).replace("\N{NO-BREAK SPACE}", " ")
        assert read == TERMS[target.fragment].meaning


def test_a_meaning_is_text_whatever_it_holds(reading, monkeypatch):
    evil = glossary.TERMS["band"].__class__('"><script>', 'a "quote" <b>bold</b>.')
    monkeypatch.setitem(glossary.TERMS, "evil", evil)
    with reading.application.test_request_context():
        link = glossary.term("evil")
        assert "<script" not in link
        assert "<b>" not in link
        [(_, meaning, _)] = USED.findall(link)
        assert html.unescape(meaning) == evil.meaning
        with pytest.raises(KeyError, match="nope"):
            glossary.term("nope")


def test_a_term_has_an_address_of_its_own_and_an_unknown_one_a_way_back(reading):
    answer = reading.get("/glossary/band/")
    assert (answer.status_code, answer.location) == (301, "/glossary/#band")
    for address in ("/glossary/nope/", "/glossary/%3Cscript%3E/"):
        answer = reading.get(address, headers={"Accept": "text/html"})
        assert answer.status_code == 404
        assert 'href="/learn/"' in answer.text
        assert "<script>" not in answer.text.replace("<script src", "")


def test_every_page_leads_to_the_glossary_and_to_what_is_known_of_its_reader(reading):
    for address in ("/", "/learn/intro/", "/train/", "/about/", "/nowhere"):
        answer = reading.get(address, headers={"Accept": "text/html"})
        links = {link["href"] for link in Page(answer.text).all("a")}
        assert {"/glossary/", "/about/"} <= links, address


def test_the_page_about_the_site_says_what_is_so(reading):
    answer = reading.get("/about/")
    assert answer.status_code == 200
    assert "Set-Cookie" not in answer.headers
    for anchor in ("numbers", "accessibility", "privacy", "sources"):
        assert f'<h2 id="{anchor}">' in answer.text
    words = " ".join(Page(answer.text).words)
    assert f"at {WORDS_A_MINUTE} words per minute" in words
    assert f"sets one, {COOKIE} , with a random name, for 365 days" in words
    for paper in SOURCES.values():
        assert paper.title in html.unescape(answer.text)


def test_terms_are_in_the_order_of_the_alphabet():
    """Greek letters are under their names."""
    names = [re.sub(r"^[δε] \((\w+)\)", r"\1", term.name) for term in TERMS.values()]
    plain = [unicodedata.normalize("NFKD", name).casefold() for name in names]
    assert plain == sorted(plain)

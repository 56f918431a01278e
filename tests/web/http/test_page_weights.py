"""Bytes of a page as they are sent: compressed, and with the fonts in the cache.

Browsers cache the fonts forever, so fonts have a limit of their own; plotly.js is
loaded when the browser is idle.
"""

import functools
import re
from urllib.parse import urljoin

import pytest

from dpsgd_explorer.web.hub.chapters.table import CHAPTERS
from dpsgd_explorer.web.hub.registry import WIDGETS
from tests.web.reading import Page

MOST_BYTES = 150_000
MOST_BYTES_OF_FONTS = 220_000  # a page loads only the letters that it shows
MOST_BYTES_PRELOADED = 105_000
IMPORT = re.compile(r'\b(?:from|import)\s*\(?\s*"(\.[^"]+)"')
STATIC_IMPORT = re.compile(r'^(?:import|} from|export)[^"]*"(\.[^"]+)"', re.M)
IN_STYLE = re.compile(r"""url\(\s*["']?([^"')]+)""")
HUB = [
    "/",
    "/learn/",
    "/learn/short/",
    "/glossary/",
    "/about/",
    "/teach/",
    *[f"/learn/{slug}/" for slug in CHAPTERS],
    *[f"/teach/{slug}/" for slug in CHAPTERS],
    *[f"/embed/{slug}/" for slug in WIDGETS],
]


@pytest.fixture(scope="module")
def sent(reading):
    """Bytes of an address as they are sent, and its text; each fetched once."""

    @functools.cache
    def fetch(address):
        packed = {"Accept-Encoding": "gzip"}
        answer = reading.get(address, headers=packed, buffered=True)
        assert answer.status_code == 200, address
        plain = reading.get(address, buffered=True).data
        return len(answer.data), plain.decode(errors="replace")  # fonts are no text

    return fetch


def asked_for(address, text):
    """Return the addresses that a page, script or style sheet loads by itself."""
    if address.endswith(".js"):
        return {urljoin(address, name) for name in IMPORT.findall(text)}
    if address.endswith(".css"):
        found = {urljoin(address, name) for name in IN_STYLE.findall(text)}
        return {one for one in found if not one.startswith("data:")}
    page = Page(text)
    links = [a["href"] for a in page.all("link")]
    scripts = [a["src"] for a in page.all("script") if "src" in a]
    widgets = [a["data-widget"] for a in page.all("figure") if "data-widget" in a]
    pictures = [a["src"] for a in page.all("img")]
    return {*links, *scripts, *widgets, *pictures}


def loaded(sent, address):
    """Return the bytes of everything that an address loads, itself included."""
    sizes, waiting = {}, [address]
    while waiting:
        now = waiting.pop()
        if now not in sizes:
            sizes[now], text = sent(now)
            waiting += asked_for(now, text)
    return sizes


LABS = ("/labs/accountants/", "/labs/planner/")


@pytest.mark.parametrize("address", [*HUB, *LABS, "/train/", "/runs/"])
def test_a_page_is_light(sent, address):
    everything = loaded(sent, address)
    sizes = {x: n for x, n in everything.items() if not x.endswith(".woff2")}
    assert everything.keys() > sizes.keys()
    assert not any("plotly.min" in name for name in sizes)
    assert any(name.endswith(".css") for name in sizes)
    assert any(name.endswith(".js") for name in sizes)
    heaviest = sorted(sizes.items(), key=lambda one: -one[1])[:5]
    assert sum(sizes.values()) <= MOST_BYTES, heaviest


def test_the_fonts_are_small_and_the_two_of_every_page_are_preloaded(sent):
    fonts = {x: n for x, n in loaded(sent, "/").items() if x.endswith(".woff2")}
    assert sum(fonts.values()) <= MOST_BYTES_OF_FONTS, fonts
    for address in ("/", "/embed/two-worlds/", "/runs/"):
        early = links_of(Page(sent(address)[1]), "preload")
        assert len(early) == 2
        assert sum(fonts[font] for font in early) <= MOST_BYTES_PRELOADED


def test_what_is_loaded_is_followed_to_its_end(sent):
    names = {name.split("/", 3)[-1] for name in loaded(sent, "/learn/dp-concepts/")}
    widget = "widgets/two_worlds"
    for file in (f"{widget}/widget.js", f"{widget}/limit.js", "lib/svg.js"):
        assert f"js/{file}" in names  # by a widget, by its script, by an import
    page = '<link href="/a.css"><img src="/b.png"><figure data-widget="/c.js">'
    assert asked_for("/", page) == {"/a.css", "/b.png", "/c.js"}
    style = (
        "a { src: url('../d.woff2') } b { background: url(data:image/png;base64,x) }"
    )
    assert asked_for("/s/e.css", style) == {"/d.woff2"}
    script = 'import {a} from "./f.js";\nexport * from "../g.js";\nimport("./h.js");'
    assert asked_for("/s/i.js", script) == {"/s/f.js", "/g.js", "/s/h.js"}


def links_of(page, relation):
    """Return the addresses of a page's links of one relation."""
    return {a["href"] for a in page.all("link") if a.get("rel") == relation}


@pytest.mark.parametrize("address", ["/train/", "/labs/attack/", "/learn/", "/runs/"])
def test_a_page_names_all_modules_that_its_scripts_import(sent, address):
    page = Page(sent(address)[1])
    scripts = {a["src"] for a in page.all("script") if a.get("type") == "module"}
    imported, waiting = set(), list(scripts)
    while waiting:
        module = waiting.pop()
        statics = STATIC_IMPORT.findall(sent(module)[1])
        new = {urljoin(module, name) for name in statics} - imported
        imported |= new
        waiting += new
    assert imported - scripts == links_of(page, "modulepreload") - scripts
    assert imported

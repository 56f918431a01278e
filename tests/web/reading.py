"""For tests that read pages: elements, words and data, each chapter fetched once."""

import json
import re
from html.parser import HTMLParser


def page_data(page):
    """Return what a page hands to its script."""
    found = re.search(r'id="page-data">(.*?)</script>', page, re.DOTALL)
    return json.loads(found[1])


class Page(HTMLParser):
    """What the tests ask of a page: elements with their attributes, and its words."""

    def __init__(self, text):
        super().__init__()
        self.elements = []
        self.words = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_data(self, data):
        self.words += data.split()

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


class Reader:
    """Chapters by slug, "" for their list."""

    def __init__(self, client):
        self.client = client
        self.texts = {}

    def __call__(self, slug):
        if slug not in self.texts:
            answer = self.client.get(f"/learn/{slug}/".replace("//", "/"))
            assert answer.status_code == 200
            self.texts[slug] = answer.text
        return self.texts[slug]


def script_of(widget):
    """Return the text of a widget's script."""
    return (widget.folder / "widget.js").read_text(encoding="utf-8")

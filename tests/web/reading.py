"""For tests that only read pages: one application and each page fetched once."""

import json
import re
from contextlib import contextmanager
from html.parser import HTMLParser

from dpsgd_explorer.settings import Settings
from dpsgd_explorer.web import create_app


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


@contextmanager
def application(shelf, instance_dir):
    """The real application, closed at the end."""
    (instance_dir / "assets").symlink_to(shelf)
    settings = Settings.from_environment({"DPSGD_INSTANCE_DIR": str(instance_dir)})
    app = create_app(settings)
    app.testing = True
    yield app
    app.extensions["run_store"].database.close()
    app.extensions["doorbell"].huey.storage.close()

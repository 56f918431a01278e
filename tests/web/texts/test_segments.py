"""Segments of templates: no text is left between them, and English stays as it is."""

from html.parser import HTMLParser
from pathlib import Path

import pytest
from jinja2 import Environment

from dpsgd_explorer.web.texts.segments import Template, has_words

READ = {"alt", "aria-label", "aria-valuetext", "content", "placeholder", "title"}
ROOT = Path(__file__).parents[3]
ENVIRONMENT = Environment(trim_blocks=True, lstrip_blocks=True)
FILES = sorted(
    file
    for folder in (ROOT / "templates", ROOT / "dpsgd_explorer" / "web")
    for file in folder.rglob("*.html")
)


class Words(HTMLParser):
    """The texts with words of a page, as another parser finds them."""

    def __init__(self, page):
        super().__init__()
        self.found, self.closed_by = [], None
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attributes):
        attributes = [] if ("name", "viewport") in attributes else attributes
        if tag in ("script", "style", "pre"):
            self.closed_by = tag
        read = [value for name, value in attributes if name in READ]
        self.found += [value for value in read if has_words(value or "")]

    def handle_endtag(self, tag):
        self.closed_by = None if tag == self.closed_by else self.closed_by

    def handle_data(self, data):
        if has_words(data) and not self.closed_by:
            self.found.append(data)


def segments_of(source):
    """Return the segments of a template, which must not change by reading them."""
    found = []
    template = Template(ENVIRONMENT, source)
    unchanged = template.change_segments(lambda text: found.append(text) or text)
    assert unchanged == template.source(template.page)
    return found


@pytest.fixture(scope="module")
def templates():
    texts = {file: file.read_text(encoding="utf-8") for file in FILES}
    return {file: Template(ENVIRONMENT, text) for file, text in texts.items()}


def test_no_text_of_a_template_is_outside_its_segments(templates):
    total = 0
    for file, template in templates.items():
        rest = Template(ENVIRONMENT, template.change_segments(lambda text: ""))
        assert Words(rest.page).found == [], file
        total += len(segments_of(template.source(template.page)))
    assert total > 1000


def test_a_template_without_translation_is_the_same(templates):
    for file, template in templates.items():
        changed = template.change_expressions(lambda code: code)
        source = file.read_text(encoding="utf-8")
        assert ENVIRONMENT.parse(changed) == ENVIRONMENT.parse(source), file


@pytest.mark.parametrize(
    ("source", "segments"),
    [
        ("<p>One <b>bold</b> word.</p><p>Two</p>", ["One <b>bold</b> word.", "Two"]),
        ('<p><a href="/">All runs</a></p>', ["All runs"]),
        ("<p>ε = {{ x }}</p>", []),
        ("<p>{{ n }} of {{ m }} runs</p>", ["{{ n }} of {{ m }} runs"]),
        ("{% if a %}Yes{% else %}No{% endif %}", ["Yes", "No"]),
        ("<p>It is {% if a %}in{% endif %}.</p>", ["It is {% if a %}in{% endif %}."]),
        ("{% for x in y %}Row {{ x }}{% endfor %}", ["Row {{ x }}"]),
        ('<li{% if a > 1 %} title="More <>"{% endif %}>One</li>', ["More <>", "One"]),
        ('<meta content="width=device-width">', []),
        ("<script>const a = 'No text';</script>{# No text #}", []),
        (
            '{{ f({"a": {"b": "}}"}}) }} and more',
            ['{{ f({"a": {"b": "}}"}}) }} and more'],
        ),
    ],
)
def test_segments_are_sentences_with_their_tags_and_code(source, segments):
    assert segments_of(source) == segments

"""The names that templates of chapters get: those that they use, and no others."""

import pytest
from flask import template_rendered
from jinja2 import StrictUndefined, nodes
from jinja2.runtime import Context

from dpsgd_explorer.web.hub.chapters.page import MODULES, render
from dpsgd_explorer.web.hub.chapters.table import CHAPTERS

FLASKS_OWN = {"g", "request", "session"}


@pytest.fixture
def env(reading):
    return reading.application.jinja_env


def test_a_name_that_a_template_does_not_have_is_an_error(env):
    assert env.undefined is StrictUndefined


@pytest.mark.parametrize("slug", CHAPTERS)
def test_a_chapter_uses_every_name_of_its_context(reading, env, monkeypatch, slug):
    used, given = set(), set()

    class Recording(Context):
        def resolve_or_missing(self, key):
            used.add(key)
            return super().resolve_or_missing(key)

    def note(sender, template, context, **_):
        if template.name == CHAPTERS[slug].template:
            given.update(context)

    monkeypatch.setattr(env, "context_class", Recording)
    with (
        reading.application.test_request_context(),
        template_rendered.connected_to(note, reading.application),
    ):
        render(CHAPTERS[slug])
    assert "figures" in given
    assert given - FLASKS_OWN - used == set()


@pytest.mark.parametrize("slug", CHAPTERS)
def test_a_chapter_uses_every_name_that_its_figures_export(env, slug):
    source, _, _ = env.loader.get_source(env, CHAPTERS[slug].template)
    used = {
        access.attr
        for access in env.parse(source).find_all(nodes.Getattr)
        if isinstance(access.node, nodes.Name) and access.node.name == "figures"
    }
    assert used == set(MODULES[slug].__all__)

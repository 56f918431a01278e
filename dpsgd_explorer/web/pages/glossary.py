"""The glossary for students, and links to its entries."""

from __future__ import annotations

from flask import Blueprint, Response, abort, redirect, render_template, url_for
from markupsafe import Markup
from werkzeug.wrappers import Response as Redirection

from dpsgd_explorer.web.api.answer_cache import cached_page
from dpsgd_explorer.web.content.glossary import TERMS

bp = Blueprint("glossary", __name__, url_prefix="/glossary")


@bp.get("/")
def index() -> Response:
    """Shows all terms."""
    return cached_page(lambda: render_template("glossary/index.html", terms=TERMS))


@bp.get("/<slug>/")
def entry(slug: str) -> Redirection:
    """Redirects to a term in the list, or responds 404 if the term is unknown."""
    if slug not in TERMS:
        abort(404)
    return redirect(_address(slug), 301)


@bp.app_template_global()
def term(slug: str, words: str = "") -> Markup:
    """Returns a link to a term's entry; the page's script shows the meaning.

    Raises:
        KeyError: There is no such entry.
    """
    entry = TERMS[slug]
    return Markup('<a class="term" href="{}" data-meaning="{}">{}</a>').format(
        _address(slug), entry.meaning, words or entry.name
    )


def _address(slug: str) -> str:
    return url_for("glossary.index", _anchor=slug)

"""The page on methods, accessibility, privacy and sources of the site."""

from __future__ import annotations

from flask import Blueprint, Response, render_template

from dpsgd_explorer.web.api.answer_cache import cached_page
from dpsgd_explorer.web.content.references import SOURCES
from dpsgd_explorer.web.http.networks import PREFIX_BITS
from dpsgd_explorer.web.http.visitor import COOKIE, COOKIE_SECONDS
from dpsgd_explorer.web.hub.chapters.text import WORDS_A_MINUTE

bp = Blueprint("about", __name__, url_prefix="/about")
DAY_SECONDS = 24 * 3600


@bp.get("/")
def index() -> Response:
    """Shows the page."""
    return cached_page(_page)


def _page() -> str:
    return render_template(
        "about/index.html",
        words_a_minute=WORDS_A_MINUTE,
        cookie=COOKIE,
        cookie_days=COOKIE_SECONDS // DAY_SECONDS,
        prefix_bits=PREFIX_BITS,
        papers=sorted(SOURCES.values(), key=lambda paper: (paper.authors, paper.year)),
    )

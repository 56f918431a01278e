"""The landing page: a noise slider, and doors to the short course, hub and trainer."""

from __future__ import annotations

from functools import cache

from flask import Blueprint, Response, render_template
from markupsafe import Markup

from dpsgd_explorer.web.api.answer_cache import cached_page
from dpsgd_explorer.web.figures.recorded_run import accuracy_picture
from dpsgd_explorer.web.figures.svg import Picture, small
from dpsgd_explorer.web.hub.chapters.page import thumbnail
from dpsgd_explorer.web.hub.chapters.table import CHAPTERS
from dpsgd_explorer.web.hub.widgets.noise import widget as noise
from dpsgd_explorer.web.recorded.runs import recorded

bp = Blueprint("home", __name__)

SHOWN_RUN = "mnist-strict"
TWIN = "mnist-strict-twin"


@bp.get("/")
def index() -> Response:
    """Shows the landing page."""
    return cached_page(_page)


def _page() -> str:
    return render_template(
        "home/index.html",
        noise_slider=noise_slider(),
        play=noise.humps((136, 104)),
        read=thumbnail(CHAPTERS["what-models-leak"]).narrow,
        train=shown_accuracy().narrow,
        chapters=CHAPTERS,
    )


def noise_slider() -> Markup:
    """Returns the slider with its drawing, data and script."""
    page = render_template(
        noise.WIDGET.template,
        shown=noise.WIDGET,
        level=2,
        picture=noise.WIDGET.picture(),
        data=noise.WIDGET.data(),
        drawing=noise.humps((640, 230)),
        delta=small(noise.levels()[0].config.plan.delta),
    )
    return Markup(page)


@cache
def shown_accuracy() -> Picture:
    """Returns the picture of the recorded run."""
    return accuracy_picture(recorded(SHOWN_RUN), recorded(TWIN))

"""The list of labs and its page."""

from __future__ import annotations

from flask import Blueprint, Response, render_template
from markupsafe import Markup

from dpsgd_explorer.web.api.answer_cache import cached_page
from dpsgd_explorer.web.hub.chapters.page import thumbnail
from dpsgd_explorer.web.hub.chapters.table import CHAPTERS
from dpsgd_explorer.web.labs.accountants import page as accountants
from dpsgd_explorer.web.labs.attack import page as attack
from dpsgd_explorer.web.labs.correlated_noise import page as correlated_noise
from dpsgd_explorer.web.labs.engines import page as engines
from dpsgd_explorer.web.labs.find_the_bug import exhibits
from dpsgd_explorer.web.labs.find_the_bug import page as find_the_bug
from dpsgd_explorer.web.labs.planner import page as planner
from dpsgd_explorer.web.labs.reconstruct import page as reconstruct
from dpsgd_explorer.web.labs.regression import page as regression

bp = Blueprint("labs", __name__, url_prefix="/labs")

#: In the order of the list.
LABS = (
    accountants.LAB,
    planner.LAB,
    regression.LAB,
    engines.LAB,
    attack.LAB,
    reconstruct.LAB,
    find_the_bug.LAB,
    correlated_noise.LAB,
)
for lab in LABS:
    lab.add_to(bp)


@bp.get("/")
def index() -> Response:
    """Shows the list of labs."""
    return cached_page(
        lambda: render_template("labs/index.html", labs=LABS, drawings=drawings())
    )


def drawings() -> dict[str, Markup]:
    """Returns the drawing of each lab's card, made from the data of the lab."""
    pictures = {
        accountants.LAB: accountants.first_picture(),
        planner.LAB: planner.first_picture(),
        regression.LAB: thumbnail(CHAPTERS["private-linear-regression"]),
        engines.LAB: engines.recorded_results()["picture"],
    }
    attacked = attack.recorded_results()
    return {
        **{lab.slug: found.narrow for lab, found in pictures.items() if found},
        attack.LAB.slug: attacked.roc.narrow if attacked else Markup(),
        reconstruct.LAB.slug: reconstruct.first_picture(),
        find_the_bug.LAB.slug: exhibits.picture(),
        correlated_noise.LAB.slug: correlated_noise.first_picture(),
    }

"""The lab of correlated noise: the error of sums of gradients at equal ε."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from flask import Response, render_template
from markupsafe import Markup

from dpsgd_explorer.web.api.answer_cache import cached_page
from dpsgd_explorer.web.figures.svg import Plot, small
from dpsgd_explorer.web.labs.base import Lab
from dpsgd_explorer.web.recorded.files import recording

stored = partial(recording, "recorded", Path(__file__).parent)
#: Indices of the first state: of a run, an ε, and a strategy of each kind.
START = {"run": 0, "epsilon": 5, "cyclic": 4, "fixed": 4}
KINDS = {"cyclic": "bands, cyclic Poisson", "fixed": "λ or binary tree, fixed slots"}


def correlated_noise() -> Response:
    """Shows the lab, which has no settings for the server."""
    return cached_page(
        lambda: render_template(
            "labs/correlated_noise.html",
            recorded=stored(),
            delta=small(stored()["delta"]),
            start=START,
            kinds=KINDS,
            page_data={"recorded": stored(), "start": START},
        )
    )


def first_picture() -> Markup:
    """Returns the noise in sums of gradients, independent and correlated."""
    run = stored()["runs"][START["run"]]
    plot = Plot.framed((342, 260), (0.0, run["steps"]), (0.0, 1.0), left=12, top=12)
    both = (run["cyclic"][0], run["cyclic"][START["cyclic"]])
    top = max(_errors(both[0]))
    for one, css in zip(both, ("s-twin", "s-private"), strict=True):
        errors = [error / top for error in _errors(one)]
        plot.line(list(zip(run["shown"], errors, strict=True)), css)
    return plot.svg("Noise of sums grows slower with the steps if it is correlated.")


def _errors(strategy: dict[str, Any]) -> list[float]:
    noise = strategy["noise"][START["epsilon"]]
    return [noise * error for error in strategy["errors"]]


LAB = Lab(
    slug="correlated-noise",
    title="Noise that cancels",
    question="What does correlated noise buy at equal ε?",
    summary=(
        "Each step takes back a part of the noise before it. See how sums of "
        "gradients keep less noise, what that costs in sampling, and where nothing "
        "is gained."
    ),
    page=correlated_noise,
)

"""The labs: one line each, and the page that lists them.

A lab's own module adds its page to ``bp`` before the application registers it.
"""

from __future__ import annotations

from dataclasses import dataclass

from flask import Blueprint, Response, render_template

from dpsgd_explorer.web.api.answer_cache import cached_page

bp = Blueprint("labs", __name__, url_prefix="/labs")


@dataclass(frozen=True)
class Lab:
    """One lab; ``endpoint`` is the name of its page's view in ``bp``."""

    endpoint: str
    title: str
    question: str
    summary: str


TABLE = (
    Lab(
        "accountants",
        "Accountant race",
        "The same run, counted by everyone: who is right?",
        "Basic and advanced composition, moments, RDP, the central limit and the "
        "exact ε climb together, each with its claim.",
    ),
    Lab(
        "planner",
        "Budget planner",
        "ε, δ, noise, batch, epochs: what follows from four of them?",
        "Lock four numbers and the fifth solves as you drag; walk along the line of "
        "equal ε, read the odds, and train what you planned.",
    ),
    Lab(
        "linear_regression",
        "Private linear regression",
        "Noisy statistics or noisy steps?",
        "SSP, AdaSSP and noisy gradient descent on California housing: error against "
        "ε, the cloud of possible releases, and the cost of each part.",
    ),
    Lab(
        "engines",
        "Engines",
        "Four ways to the same gradient: what does each cost?",
        "Hooks, extending, vmap and micro-batches on a model of your size: the "
        "largest difference between their numbers, time, memory, and the method that "
        "each layer chose, with the reason.",
    ),
    Lab(
        "attack",
        "Attack your own run",
        "Who was in the training? Guess, and meet the ceiling of a private run.",
        "Three attacks on membership against a private model and its ordinary twin, a "
        "record of yours planted with a wrong label, and the curve that no attack "
        "passes.",
    ),
    Lab(
        "reconstruct",
        "Reconstruct a picture",
        "What does one gradient give away?",
        "One division recovers a picture from the first layer’s gradient. Add "
        "records, clip, add noise, and watch it drown, next to the ε of that release.",
    ),
    Lab(
        "find_the_bug",
        "Find the bug",
        "Training loops with a planted bug: can you see it, and can an audit?",
        "Real DP-SGD code with one planted bug each. Guess, then run it: the audit’s "
        "bound climbs past the promise, the safety check rejects the loop, or "
        "nothing shows.",
    ),
)


@bp.get("/")
def index() -> Response:
    """List the labs that exist."""
    return cached_page(lambda: render_template("labs/index.html", labs=TABLE))

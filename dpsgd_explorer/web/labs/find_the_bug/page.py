"""The lab "Find the bug": the visitor reads a loop, guesses its bug and runs it."""

from __future__ import annotations

from typing import Any

from flask import Response, render_template, request

from dpsgd_explorer.experiments.planted_bug_config import HONEST, PlantedBugConfig
from dpsgd_explorer.web.api.answer_cache import cached_page
from dpsgd_explorer.web.labs.base import Lab
from dpsgd_explorer.web.labs.find_the_bug.exhibits import (
    Exhibit,
    checks,
    exhibits,
    promise,
)
from dpsgd_explorer.web.labs.find_the_bug.view import plan_of
from dpsgd_explorer.web.questions.rounding import limit


def find_the_bug() -> Response:
    """Shows the loop whose number is in the address; the first by default."""
    loops = list(exhibits().values())
    exhibit = _chosen(loops, request.args.get("loop", ""))
    terms = promise()
    return cached_page(
        lambda: render_template(
            "labs/find_the_bug.html",
            exhibit=exhibit,
            loops=loops,
            bugs=len(loops) - 1,
            following=loops[exhibit.number % len(loops)],
            terms=terms,
            promised=limit(terms["epsilon"]),
            checks=checks(),
            page_data=_page_data(exhibit),
        )
    )


def _chosen(loops: list[Exhibit], number: str) -> Exhibit:
    return next((loop for loop in loops if str(loop.number) == number), loops[0])


def _page_data(exhibit: Exhibit) -> dict[str, Any]:
    return {
        "name": exhibit.name,
        "honest": HONEST,
        "names": list(exhibits()),
        "wrong": exhibit.wrong,
        "plan": plan_of(PlantedBugConfig(loop=exhibit.name)),
        "recorded": {
            "points": exhibit.points,
            "refused": exhibit.refused,
            "error": exhibit.error,
            "seen_by": exhibit.seen_by,
        },
    }


LAB = Lab(
    slug="find-the-bug",
    title="Find the bug",
    question="Training loops with a planted bug: can you see it, and can an audit?",
    summary=(
        "Real DP-SGD code with one planted bug each. Guess, then run it: the audit’s "
        "bound climbs past the promise, the safety check rejects the loop, or "
        "nothing shows."
    ),
    page=find_the_bug,
)

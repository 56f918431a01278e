"""The recorded loops of the lab "Find the bug"."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from markupsafe import Markup

from dpsgd_explorer.experiments.planted_bug_config import HONEST
from dpsgd_explorer.web.figures.svg import Plot
from dpsgd_explorer.web.questions.rounding import limit, proven
from dpsgd_explorer.web.recorded.files import recording

stored = partial(recording, "recorded", Path(__file__).parent)
CHOICES = 5  # number of answers to choose from, including "nothing is wrong"


@dataclass(frozen=True)
class Exhibit:
    """One loop with the results of its checks.

    Attributes:
        name: Name of the loop in ``PlantedBugConfig``.
        number: Position in the lab, from 1.
        title: The bug in a few words.
        wrong: The bug in one sentence.
        why: Reason why a check detects the bug, or why no check does.
        seen_by: "audit", "engine", "torch" or "nothing".
        lines: Lines of the source, each with True if it contains the bug.
        points: ``step``, ``epsilon_lower`` and ``epsilon_promised`` of evaluations.
        refused: Error message of ``PrivacyEngine``, "" without one.
        error: Error message of the loop, "" without one.
    """

    name: str
    number: int
    title: str
    wrong: str
    why: str
    seen_by: str
    lines: tuple[tuple[str, bool], ...]
    points: tuple[dict[str, float], ...]
    refused: str
    error: str

    @property
    def rows(self) -> list[tuple[str, str, str]]:
        """The points as rows of a table."""
        return [
            (
                f"{point['step']:.0f}",
                proven(point["epsilon_lower"]),
                limit(point["epsilon_promised"]),
            )
            for point in self.points
        ]

    @property
    def choices(self) -> list[tuple[str, str]]:
        """Names and texts of the answers, in random order."""
        chance = random.Random(self.name)
        others = [name for name in exhibits() if name not in (self.name, HONEST)]
        always = {self.name, HONEST}
        names = [*always, *chance.sample(others, CHOICES - len(always))]
        names.sort()
        chance.shuffle(names)
        return [(name, exhibits()[name].wrong) for name in names]


@cache
def exhibits() -> dict[str, Exhibit]:
    """Returns {name: loop} in the order of the lab."""
    loops: dict[str, dict[str, Any]] = stored()["loops"]
    return {
        name: Exhibit(
            name=name,
            number=number,
            title=loop["title"],
            wrong=loop["wrong"],
            why=loop["why"],
            seen_by=loop["seen_by"],
            lines=_lines(loop["source"], loop["at_fault"]),
            points=tuple(loop["points"]),
            refused=loop["refused"],
            error=loop["error"],
        )
        for number, (name, loop) in enumerate(loops.items(), start=1)
    }


def picture() -> Markup:
    """Returns what canaries prove of all loops with a proof, and the declared ε."""
    terms = promise()
    top = 4 * terms["epsilon"]
    plot = Plot.framed((342, 190), (0, terms["steps"]), (0, top), left=8, bottom=12)
    plot.x_axis([], "")
    for exhibit in exhibits().values():
        points = [(p["step"], min(p["epsilon_lower"], top)) for p in exhibit.points]
        plot.line([(0, 0), *points], "s-attack thin")
    edge = [(0, terms["epsilon"]), (terms["steps"], terms["epsilon"])]
    plot.line(edge, "s-budget")
    return plot.svg("Lines of proven ε over the steps; many cross the declared ε.")


def promise() -> dict[str, float]:
    """Returns the declared ε of every loop, and the settings of the audit."""
    terms: dict[str, float] = stored()["promise"]
    return terms


def checks() -> dict[str, str]:
    """Returns {check: its message when it detects a bug}."""
    words: dict[str, str] = stored()["checks"]
    return words


def _lines(source: str, at_fault: str) -> tuple[tuple[str, bool], ...]:
    has_bug = bool(at_fault)
    return tuple(
        (line, has_bug and at_fault in line) for line in source.rstrip().splitlines()
    )

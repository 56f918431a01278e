"""A recorded run played again: accuracy against the ε that is spent on the way.

The server sends every number; the script only shows them.

Misconception: "ε is spent evenly over the steps", and "accuracy comes with the last of
    the budget"
Content: a recorded run played, stopped and read at any evaluation: accuracy against the
    ε spent so far, its twin without privacy next to it
Source: our own recorded runs (`tools/record/runs.py`), ε by the exact accountant
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import urlencode

from dpsgd_explorer.experiments.catalogue import MODELS
from dpsgd_explorer.experiments.presets import PRESETS
from dpsgd_explorer.web.figures.recorded_run import accuracy_floor, accuracy_picture
from dpsgd_explorer.web.figures.svg import Picture, small
from dpsgd_explorer.web.forms.starts import Choices
from dpsgd_explorer.web.hub.widgets.base import Widget
from dpsgd_explorer.web.questions.rounding import limit, percent
from dpsgd_explorer.web.recorded.runs import RecordedRun, recorded

FIRST = "mnist-strict"
LATER = ("mnist-loose",)  # last, so that numbers in old links stay valid
TWINS = {FIRST: "mnist-strict-twin"}  # runs without privacy on the same batches


@dataclass(frozen=True)
class Replay:
    """A recorded run for replay, with its twin if there is one."""

    label: str
    run: RecordedRun
    twin: RecordedRun | None

    @property
    def spent(self) -> list[float]:
        """ε after each evaluation."""
        return [event["epsilon"] for event in self.run.data("evaluation")]

    @property
    def settings(self) -> str:
        """The run in words."""
        config, twin = self.run.config, self.twin
        parts = [
            f"Test accuracy, %, on the {config.data.test_size:,} test records of "
            f"{config.data.label}",
            MODELS[config.model].inline_label,
            f"ε at δ = {small(config.delta)}, one record added or removed, Poisson "
            "sampling",
        ]
        if twin:
            rates = f"{twin.config.learning_rate:g} instead of {config.learning_rate:g}"
            parts.append(f"without privacy: the same batches, learning rate {rates}")
        return "; ".join(parts)

    @property
    def data(self) -> dict[str, Any]:
        """Data for the script: one entry per evaluation in each list."""
        curve = self.run.curve()
        return {
            "name": self.label,
            "settings": self.settings,
            "query": urlencode(self.run.query),
            "last": self.run.summary["steps"],
            "budget": limit(self.run.summary["epsilon"]),
            "floor": accuracy_floor([*zip(self.spent, self._accuracy, strict=True)]),
            "steps": [step for step, _ in curve],
            "spent": [round(value, 4) for value in self.spent],
            "spent_words": [limit(value) for value in self.spent],
            "accuracy": [float(percent(share, 2)) for share in self._accuracy],
            "twin": self.twin
            and [float(percent(share, 2)) for _, share in self.twin.curve()],
        }

    @property
    def _accuracy(self) -> list[float]:
        return [share for _, share in self.run.curve()]


@cache
def replays() -> tuple[Replay, ...]:
    """Returns the recorded runs, starting with the landing page's run."""
    presets = sorted(PRESETS, key=lambda p: (p.slug in LATER, p.slug != FIRST))
    return tuple(
        Replay(
            preset.label,
            recorded(preset.slug),
            recorded(TWINS[preset.slug]) if preset.slug in TWINS else None,
        )
        for preset in presets
    )


def places() -> tuple[int, ...]:
    """Returns the numbers of the runs in links."""
    return tuple(range(1, len(replays()) + 1))


@cache
def spent_by_half() -> str:
    """Returns the share of its ε, in %, that half the steps of the first run spend."""
    plan = replays()[0].run.config.plan
    half, whole = plan.epsilons([plan.steps // 2, plan.steps])
    return percent(half / whole, 0)


@cache
def data() -> dict[str, Any]:
    """Returns all runs."""
    return {"runs": [replay.data for replay in replays()]}


@cache
def picture() -> Picture:
    """Returns the chart of the first run with its twin."""
    return accuracy_picture(recorded(FIRST), recorded(TWINS[FIRST]), (904, 380))


WIDGET = Widget(
    slug="recorded-run",
    title="A recorded run",
    picture=picture,
    data=data,
    controls={"run": "Run, by its position", "play": "Play"},
    starts={"run": (Choices(places(), by_place=False),)},
)

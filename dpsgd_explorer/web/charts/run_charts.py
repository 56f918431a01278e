"""Charts of a training along its steps: one description for page, script and exports.

To add a chart, log its values in the diagnostics of ``step`` events and add a record
to ``RUN_CHARTS``.  The panel's template makes its place, ``figures/run_charts`` its
drawing before the script, ``static/js/charts/series.js`` the live one, the report its
section.  Accuracy and gradient norms are no lines along the steps and have modules of
their own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from dpsgd_explorer.experiments.training_config import TrainingConfig

Data = dict[str, Any]
Ends = tuple[float, float]
SETTLED = 4  # last values that decide where the vertical axis ends
ENOUGH = 8  # values before they decide


@dataclass(frozen=True, kw_only=True)
class Series:
    """One line of a chart.

    Attributes:
        kind: Kind of the events that hold its values.
        field: Name of a value in their data or diagnostics.
        name: Words next to the line.
        hover: Word before a value under the pointer.
        head: Head of its column in the table.
        is_main: If True, the line is thick and decides where the axis ends.
    """

    kind: Literal["step", "evaluation"]
    field: str
    name: str
    hover: str
    head: str
    is_main: bool = False

    def points(self, events: Sequence[Data]) -> list[tuple[float, float]]:
        """Returns step and value of each event that has a value."""
        values = [
            (event["step"], (event.get("diagnostics") or event).get(self.field))
            for event in events
        ]
        return [(step, value) for step, value in values if value is not None]


@dataclass(frozen=True, kw_only=True)
class RunChart:
    """Lines along the steps of a training.

    Attributes:
        name: Name in addresses and file names.
        view: View of the panel that shows it on a narrow page, a key of ``VIEWS``.
        title: Heading before there is a value.
        sub: Quantity and unit.
        unit: Unit at the top of the vertical axis.
        caption: Caption of its table.
        note: Sentence in a report.
        series: Its lines.
        ends: Ends of the vertical axis: the usual one, and the one for runs whose
            main line stays above it, or rises above it and its own first value.
    """

    name: str
    view: str
    title: str
    sub: str
    unit: str
    caption: str
    note: str
    series: tuple[Series, ...]
    ends: Callable[[TrainingConfig], Ends]

    def described(self) -> Data:
        """Returns the description that the script reads."""
        return {
            "title": self.title,
            "unit": self.unit,
            "caption": self.caption,
            "settled": SETTLED,
            "enough": ENOUGH,
            "series": [asdict(series) for series in self.series],
        }

    def top(self, ends: Sequence[float], events: dict[str, Sequence[Data]]) -> float:
        """Returns where the vertical axis ends for the events of a run, by kind."""
        near, far = ends
        main = next(series for series in self.series if series.is_main)
        values = [value for _, value in main.points(events[main.kind])]
        stays = len(values) >= ENOUGH and min(values[-SETTLED:]) > near
        rises = any(value > max(near, values[0]) for value in values)
        return far if stays or rises else near


def _loss_ends(config: TrainingConfig) -> Ends:
    """Returns an end just above the loss of guessing, and one beyond it."""
    guessing = math.log(config.data.classes)
    return min(1.0, 1.15 * guessing), 2.2 * guessing


LOSS = RunChart(
    name="loss",
    view="loss",
    title="Training and test loss",
    sub="Cross-entropy, nats",
    unit="nats",
    caption="Loss, nats; the training loss is not private",
    note="Computed on the training records and outside the guarantee.",
    series=(
        Series(
            kind="step",
            field="loss",
            name="training, each step",
            hover="training",
            head="Training loss",
        ),
        Series(
            kind="evaluation",
            field="test_loss",
            name="test",
            hover="test",
            head="Test loss",
            is_main=True,
        ),
    ),
    ends=_loss_ends,
)
RUN_CHARTS = (LOSS,)


def axis_ends(config: TrainingConfig) -> dict[str, Ends]:
    """Returns the ends of the vertical axis of each chart."""
    return {chart.name: chart.ends(config) for chart in RUN_CHARTS}

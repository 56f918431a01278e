"""Charts of several runs: one description for the pages that draw them.

``static/js/charts/runs_chart.js`` draws every chart of this module from its
description, the lines that the page sends, and the logs of the runs.  To add a chart,
add a record and send ``described()`` and the lines with a page.  The lines behind the
live curve of the trainer have the same description; Plotly draws them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

Ends = tuple[float, float]
Colour = Literal["private", "good", "twin", "ink", "ink-3"]
Data = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class RunAxis:
    """A horizontal axis of a chart of several runs.

    Attributes:
        field: Name of the position in the data of an event.
        plan: Attribute of a line with the planned end of the axis, "" without one.
        label: Label of the button that selects the axis.
        name: Name next to the axis.
        counted: Name if a privacy filter counted the values of all runs.
        both: Name if it counted the values of some runs.
        reads: Text of the position of the cursor.
        decimals: Decimals of that position; None: three significant digits.
        log_beyond: Ratio of the runs' ends above which the axis is logarithmic; None:
            never.
    """

    field: str
    plan: str = ""
    label: str
    name: str
    counted: str = ""
    both: str = ""
    reads: str
    decimals: int | None = None
    log_beyond: float | None = None


EPSILON = RunAxis(
    field="epsilon",
    plan="budget",
    label="ε",
    name="ε spent",
    counted="ε counted by the filter",
    both="ε spent, or counted by a filter",
    reads="ε {x}",
    log_beyond=5,
)
STEP = RunAxis(
    field="step",
    plan="planned",
    label="step",
    name="step",
    reads="step {x}",
    decimals=0,
)
SECONDS = RunAxis(
    field="seconds", label="seconds", name="seconds", reads="{x} s", decimals=1
)
AXES = (EPSILON, STEP, SECONDS)


@dataclass(frozen=True, kw_only=True)
class RunsChart:
    """A chart of one value of several runs.

    Attributes:
        name: Name in addresses and file names.
        title: Heading before there is a value.
        sub: Quantity and unit, below the heading.
        unit: Unit above the vertical axis.
        column: Name of the value in CSV files.
        kind: Kind of the events that contain the value.
        value: Name of the value in their data or diagnostics.
        factor: Factor from the value to the unit.
        digits: Decimals of the value on the chart.
        suffix: Unit after a value on the chart.
        is_private: If False, the values are outside the guarantees of the runs.
        is_error: If True, the vertical axis is logarithmic in the error.
        ends: Usual ends of the vertical axis; None: the ends of the values.
        zooms: If True, the axis ends at the later values once all runs have ended.
        look: "highlight": one line is coloured, the others are grey.  "colours": each
            line has its colour.  "mean": all lines are thin, with their mean and band.
        names: Lines with a name on the chart.
        is_small: If True, the chart has no names and few ticks.
        reaches_plan: If True, the horizontal axis ends at the last planned step.
        height: Height in px.
        axes: Horizontal axes to choose from.
        words: Headings with the newest values, by case: "none" (no runs), "waiting" (no
            events), "empty" (events without the value), "data_sets", "one", "equal",
            "several", and "absent" for runs that the horizontal axis cannot show.
    """

    name: str
    title: str
    sub: str
    unit: str
    column: str = ""
    kind: Literal["evaluations", "steps"] = "evaluations"
    value: str
    factor: float = 1
    digits: int
    suffix: str = ""
    is_private: bool = True
    is_error: bool = False
    ends: Ends | None = None
    zooms: bool = False
    look: Literal["highlight", "colours", "mean"] = "highlight"
    names: Literal["all", "lit", "none"] = "all"
    is_small: bool = False
    reaches_plan: bool = False
    height: int
    axes: tuple[RunAxis, ...] = AXES
    words: Mapping[str, str] = field(default_factory=dict)

    def described(self) -> Data:
        """Returns the description that the script reads."""
        return asdict(self)

    def within(self, ends: Ends) -> RunsChart:
        """Returns the chart with usual ends of its vertical axis."""
        return replace(self, ends=ends)


@dataclass(frozen=True, kw_only=True)
class RunLine:
    """The line of one run in a chart of several runs.

    Attributes:
        key: Unique name on the page.
        label: Name on the chart.
        colour: Name of its colour in the style sheet.
        dashed: If True, the line is dashed.
        together: Lines with this text in common differ in the seed only; "" without
            such lines.
        dataset: Values are comparable for runs on the same data set.
        private: If False, the run has no ε.
        counted: If True, a privacy filter counted ε, and the budget counts as spent.
        planned: Number of planned steps.
        budget: Planned final ε, None without one.
    """

    key: str
    label: str
    colour: Colour = "private"
    dashed: bool = False
    together: str = ""
    dataset: str = ""
    private: bool = True
    counted: bool = False
    planned: int = 0
    budget: float | None = None

    def described(self) -> Data:
        """Returns the description that the script reads."""
        return asdict(self)


ACCURACY = RunsChart(
    name="accuracy",
    title="Test accuracy",
    sub="Test accuracy, %, scale opened towards 100",
    unit="%",
    column="test_accuracy_percent",
    value="test_accuracy",
    factor=100,
    digits=1,
    is_error=True,
    height=320,
    words={
        "waiting": "Accuracy will appear here",
        "empty": "Accuracy will appear here",
        "data_sets": "{count} data sets: accuracies are not comparable",
        "one": "{most} is at {high} %",
        "equal": "All are at {high} %",
        "several": "{most} is at {high} %, {gap} points above {least}",
        "absent": "{labels}: without privacy there is no ε; choose step or seconds.",
    },
)
LOSS = RunsChart(
    name="loss",
    title="Test loss",
    sub="Cross-entropy on the test records, nats",
    unit="nats",
    column="test_loss",
    value="test_loss",
    digits=3,
    height=240,
    words={
        "waiting": "Test loss will appear here",
        "empty": "Test loss will appear here",
        "data_sets": "{count} data sets: losses are not comparable",
        "one": "{least} is at a test loss of {low}",
        "equal": "All are at a test loss of {low}",
        "several": "{least} has the least test loss, {low}; {most} the most, {high}",
    },
)
CLIPPED = RunsChart(
    name="clipped",
    title="Clipped gradients",
    sub="Gradients with norm above C, % of the batch",
    unit="%",
    column="not_private_clipped_percent",
    kind="steps",
    value="clipped_fraction",
    factor=100,
    digits=0,
    is_private=False,
    ends=(0, 100),
    height=240,
    words={
        "waiting": "The share of clipped gradients will appear here",
        "empty": "No per-record gradient was computed",
        "data_sets": "{count} data sets: shares of gradients are not comparable",
        "one": "{high} % of gradients are clipped at the end",
        "equal": "{high} % of gradients are clipped at the end",
        "several": "{most} clips {high} % of gradients, {least} {low} %",
    },
)
COMPARED = (ACCURACY, LOSS, CLIPPED)

OF_A_CLASS = replace(
    ACCURACY,
    suffix=" %",
    names="lit",
    height=380,
    title="Accuracy against what it costs",
    words={
        "none": "No training yet",
        "waiting": "Curves will appear here",
        "empty": "Curves will appear here",
        "one": "{most} is at {high} %",
        "equal": "{count} runs are at {high} %",
        "several": "{count} runs are between {low} and {high} %",
        "absent": "Without privacy there is no ε, {count} runs are not shown; choose "
        "step or seconds.",
    },
)

ALONG_STEPS = replace(
    ACCURACY,
    name="curves",
    title="Accuracy on the way",
    sub="Test accuracy, %, over steps",
    suffix=" %",
    axes=(STEP,),
    reaches_plan=True,
    height=340,
    words={},
)
OF_A_SWEEP = replace(ALONG_STEPS, names="none", is_small=True, height=132)
OF_SEEDS = replace(ALONG_STEPS, look="mean", names="none", zooms=True)
OF_A_TWIN = replace(ALONG_STEPS, look="colours")


@dataclass(frozen=True, kw_only=True)
class LineBehind:
    """Look of a line behind the live curve of the trainer.

    Attributes:
        label: Name on the chart; "" for the name of the run.
        colour: Name of its colour in the style sheet.
        dashes: Styles of the first, second, ... line with this look.
        opacity: Share, 1 is opaque.
        symbol: Symbol of a single point.
        size: Size of the symbol in px.
        yields: If True, only points ahead of the live curve are drawn.
        reveals: If True, the line reveals the result of a prediction.
    """

    label: str = ""
    colour: Colour
    dashes: tuple[str, ...] = ("solid",)
    opacity: float = 1
    symbol: str = "circle"
    size: float = 5
    yields: bool = False
    reveals: bool = False

    @property
    def css(self) -> str:
        """CSS classes of the line in a drawing of the server."""
        dashed = "" if self.dashes[0] == "solid" else " dashed"
        return f"s-{self.colour} thin{dashed}{' soft' if self.opacity < 1 else ''}"


LINES_BEHIND = {
    "recorded": LineBehind(
        label="recorded", colour="private", opacity=0.6, yields=True, reveals=True
    ),
    "twin": LineBehind(
        label="twin without privacy", colour="twin", dashes=("dash",), reveals=True
    ),
    "prediction": LineBehind(
        label="your prediction", colour="ink", symbol="diamond-open", size=10
    ),
    "run": LineBehind(
        colour="ink-3", dashes=("solid", "dot", "dashdot", "longdashdot")
    ),
}


def lines_behind() -> Data:
    """Returns the looks of the lines behind a live curve, for the script."""
    return {name: asdict(look) for name, look in LINES_BEHIND.items()}

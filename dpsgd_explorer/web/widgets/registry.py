"""The widgets: one table line each.

A widget is a module, here or that of a chapter's figure, with ``picture()``, the
drawing that is read without script, and ``data()``, the JSON that its script starts
from; a template ``templates/widgets/<slug>.html`` with its controls; and a script
module ``static/js/widgets/<slug>.js`` with ``mount(element, data)``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from dpsgd_explorer.web.figures.chapters import by_digit, membership, unfold
from dpsgd_explorer.web.figures.regression import errors as regression_errors
from dpsgd_explorer.web.figures.svg import Picture
from dpsgd_explorer.web.widgets import (
    accountant_race,
    clip_histogram,
    composition_diary,
    microscope,
    noise_to_signal,
    odds_faces,
    one_odd_record,
    people,
    randomised_response,
    recorded_run,
    sampling_lottery,
    three_way_twin,
    two_worlds,
)


class WidgetModule(Protocol):
    """What the module of a widget has."""

    def picture(self) -> Picture:
        """Return the drawing of the first state, for pages without script."""

    def data(self) -> dict[str, Any]:
        """Return what the script starts from: finite numbers, texts, lists, dicts."""


@dataclass(frozen=True)
class Widget:
    """One widget.

    Attributes:
        slug: Name in addresses, and of its template and script.
        title: Name in words.
        chapter: Slug of the chapter that explains it.
        module: Computes its picture and data.
    """

    slug: str
    title: str
    chapter: str
    module: WidgetModule

    @property
    def template(self) -> str:
        """Name of its template."""
        return f"widgets/{self.slug}.html"

    @property
    def script(self) -> str:
        """Name of its script module among the static files."""
        return f"js/widgets/{self.slug}.js"


TABLE: tuple[tuple[str, str, str, WidgetModule], ...] = (
    ("randomised-response", "A survey on yourself", "intro", randomised_response),
    ("odds-faces", "A hundred faces for odds", "intro", odds_faces),
    ("two-worlds", "Two worlds", "dp-concepts", two_worlds),
    ("one-odd-record", "One odd record", "sgd-basics", one_odd_record),
    ("microscope", "One step under the microscope", "dpsgd-intro", microscope),
    ("recorded-run", "A recorded run", "planning-a-budget", recorded_run),
    ("three-way-twin", "Three-way twin", "dpsgd-intro", three_way_twin),
    (
        "accountant-race",
        "The accountant race",
        "privacy-accounting",
        accountant_race,
    ),
    (
        "composition-diary",
        "A diary of releases",
        "planning-a-budget",
        composition_diary,
    ),
    (
        "sampling-lottery",
        "A lottery of batches",
        "privacy-accounting",
        sampling_lottery,
    ),
    ("clip-histogram", "Where to clip", "parameters", clip_histogram),
    ("noise-to-signal", "Batch size over a run", "parameters", noise_to_signal),
    (
        "regression-errors",
        "Errors of private regression",
        "private-linear-regression",
        regression_errors,
    ),
    ("people", "A person with several records", "in-the-real-world", people),
    ("unfolded", "A convolution, unfolded", "per-sample-gradients", unfold),
    (
        "membership-game",
        "Was this record in?",
        "what-models-leak",
        membership,
    ),
    ("rare-class", "A rare digit", "fairness", by_digit),
)
WIDGETS = {row[0]: Widget(*row) for row in TABLE}

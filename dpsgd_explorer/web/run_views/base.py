"""The base class of the views of runs; ``registry`` has one view per kind."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.experiments.config import RunConfig
from dpsgd_explorer.experiments.kinds import KINDS, Kind
from dpsgd_explorer.runs.store.records import Run
from dpsgd_explorer.web.figures.exports.report_chart import PRINTED
from dpsgd_explorer.web.figures.exports.share_card import Card
from dpsgd_explorer.web.forms.fields import FormField, form_fields
from dpsgd_explorer.web.questions.looked_at import LookedAt
from dpsgd_explorer.web.questions.privacy import Epsilon, PrivacyTerms

Settings = dict[str, Any]  # a configuration as JSON values
Summary = dict[str, Any]
Points = list[dict[str, Any]]  # data of all events of one kind in a log


@dataclass(frozen=True)
class Section:
    """A section of a report: its heading, one sentence and a plotly figure."""

    heading: str
    note: str
    figure: dict[str, Any]


class Claims(ABC):
    """The claims about a released model of a kind of run, and their privacy cost.

    ``phases`` are the data of the run's ``phase`` events.
    """

    @abstractmethod
    def statement(self, run: Run, spent: Epsilon | None, phases: Points) -> str:
        """Returns the privacy statement of a run; "" before it has one."""

    @abstractmethod
    def sources(self, run: Run, spent: Epsilon | None) -> Sequence[str]:
        """Returns the keys of the references that support the guarantee."""

    @abstractmethod
    def has_card(self, run: Run) -> bool:
        """Returns whether the run has a picture to share."""

    @abstractmethod
    def card(
        self,
        run: Run,
        spent: Epsilon,
        title: str,
        evaluations: Iterable[dict[str, Any]],
        phases: Points,
    ) -> Card:
        """Returns the picture to share, for a run that has one."""

    @abstractmethod
    def looked_at(self, run: Run, phases: Points) -> LookedAt:
        """Returns the run as one of several that a visitor has looked at."""


class RunView(ABC):
    """The parts of pages and exports that depend on the kind of run.

    Attributes:
        template: Template of the page; extends ``runs/show.html``.
        config: Class of the settings.
        diagnostics: Names of diagnostics in ``step`` events that fit into a table.
        columns: Columns of a report's table: name in an evaluation, heading, format.
        claims: Claims about a run; None if it releases no model.
        more: Further names in its events that belong into a table.
        missing: Text for a missing value in a report.
        results: Template of the tables of results, for a report that has them in place
            of the table of evaluations; "" without one. It reads ``standing``.
        titled: Settings that the title contains, or that need no mention.
        has_receipt: If True, the last event of a finished private run has a receipt.
    """

    diagnostics: ClassVar[tuple[str, ...]] = ()
    more: ClassVar[tuple[str, ...]] = ()
    missing: ClassVar[str] = "∞"
    results: ClassVar[str] = ""
    titled: ClassVar[frozenset[str]] = frozenset({"kind"})
    has_receipt: ClassVar[bool] = False

    # Abstract, so that a view without one of these attributes is a type error.
    @property
    @abstractmethod
    def template(self) -> str: ...

    @property
    @abstractmethod
    def config(self) -> type[RunConfig]: ...

    @property
    @abstractmethod
    def columns(self) -> tuple[tuple[str, str, str], ...]: ...

    @property
    @abstractmethod
    def claims(self) -> Claims | None: ...

    @cached_property
    def kind(self) -> Kind:
        """The kind of run of this view."""
        return KINDS[self.config.model_fields["kind"].default]

    @abstractmethod
    def title(self, config: Settings) -> str:
        """Returns the title of a run without a name."""

    @abstractmethod
    def subject(self, config: Settings) -> str:
        """Returns the title for a report, which lists the settings below it."""

    @abstractmethod
    def result(self, summary: Summary) -> str:
        """Returns the result of a run for a table cell; "" if unknown."""

    @abstractmethod
    def page(self, config: Any) -> dict[str, Any]:
        """Returns the additional variables of the template."""

    @abstractmethod
    def page_data(self, config: Any) -> dict[str, Any]:
        """Returns the additional data of the page's script."""

    def standing(self, _config: Any, _read: Callable[[str], Points]) -> dict[str, Any]:
        """Returns the charts as drawn before the page's script runs, by name.

        Args:
            _config: The settings.
            _read: Returns the data of all events of a kind, in order.
        """
        return {}

    @abstractmethod
    def sections(
        self, config: Any, steps: Points, evaluations: Points
    ) -> list[Section]:
        """Returns the sections of a report."""

    def terms(self, config: Settings) -> PrivacyTerms:
        """Returns the terms of an ε of this kind of run.

        Raises:
            ConfigError: runs of this kind have no ε.
        """
        raise ConfigError(
            "accountant", "accountant must be left out: this run spends no ε."
        )

    def spent(
        self, epsilon: float | None, config: Settings, status: str = ""
    ) -> Epsilon:
        """Returns a logged ε with its terms; None means an infinite ε.

        By default, the accountant determines the status.
        """
        terms = self.terms(config)
        if status:
            terms = terms.model_copy(update={"status": status})
        return Epsilon.spent(math.inf if epsilon is None else epsilon, terms)

    @property
    def fields(self) -> dict[str, FormField]:
        """Form fields of the settings, in order."""
        return form_fields(self.config)

    @property
    def starts(self) -> list[Settings]:
        """Starting configurations; a run is named after its differences from one."""
        return [self.config.parse({}).model_dump(mode="json")]

    def counts(self, name: str, _config: Settings) -> bool:
        """Returns whether a setting has an effect under a configuration."""
        return name in self.fields

    def settings(self, config: RunConfig) -> dict[str, list[tuple[FormField, str]]]:
        """Returns every given setting and its text, by heading."""
        values = config.model_dump(mode="json")
        groups: dict[str, list[tuple[FormField, str]]] = {}
        for name, field in self.fields.items():
            if values[name] is not None and self.counts(name, values):
                entry = (field, field.in_words(values[name]))
                groups.setdefault(field.group, []).append(entry)
        return groups


def chart(
    *,
    x: list[Any],
    y: list[Any],
    x_title: str,
    y_title: str,
    colour: str = "private",
) -> dict[str, Any]:
    """Returns a plotly figure with one line."""
    line = {"type": "scatter", "mode": "lines+markers", "x": x, "y": y}
    axes = {"zeroline": False, "gridcolor": "#d9dee3"}
    return {
        "data": [line | {"line": {"color": PRINTED[colour]}, "marker": {"size": 4}}],
        "layout": {
            "xaxis": axes | {"title": {"text": x_title}, "rangemode": "tozero"},
            "yaxis": axes | {"title": {"text": y_title}},
            "margin": {"l": 70, "r": 20, "t": 20, "b": 60},
            "plot_bgcolor": "white",
        },
    }

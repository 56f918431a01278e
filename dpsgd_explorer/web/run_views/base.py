"""How the runs of one kind are shown and exported; ``registry`` has one per kind."""

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
from dpsgd_explorer.web.figures.exports.share_card import Card
from dpsgd_explorer.web.figures.run_charts.standing import Standing
from dpsgd_explorer.web.forms.fields import FormField, form_fields
from dpsgd_explorer.web.questions.looked_at import LookedAt
from dpsgd_explorer.web.questions.privacy import Epsilon, PrivacyTerms

Settings = dict[str, Any]  # a configuration as JSON values
Summary = dict[str, Any]
Points = list[dict[str, Any]]  # data of the log's entries of one kind


@dataclass(frozen=True)
class Section:
    """A part of a report: its heading, one sentence and one of plotly's figures."""

    heading: str
    note: str
    figure: dict[str, Any]


class Claims(ABC):
    """What may be claimed about a released model of a kind of run, and at which cost.

    The ``phases`` are the data of the run's ``phase`` events.
    """

    @abstractmethod
    def statement(self, run: Run, spent: Epsilon | None, phases: Points) -> str:
        """Return the privacy statement to paste; "" before there is one."""

    @abstractmethod
    def sources(self, run: Run, spent: Epsilon | None) -> Sequence[str]:
        """Return the keys of the references that the guarantee rests on."""

    @abstractmethod
    def has_card(self, run: Run) -> bool:
        """Return whether there is a picture to share."""

    @abstractmethod
    def card(
        self,
        run: Run,
        spent: Epsilon,
        title: str,
        evaluations: Iterable[dict[str, Any]],
        phases: Points,
    ) -> Card:
        """Return the picture to share of a run that has one."""

    @abstractmethod
    def looked_at(self, run: Run, phases: Points) -> LookedAt:
        """Return the run as one of several from which the best is chosen."""


class RunView(ABC):
    """What the pages and exports of a kind differ in.

    Attributes:
        template: Its page; extends ``runs/show.html``.
        config: Its settings.
        diagnostics: Names in a ``step`` event's diagnostics that fit into a table.
        columns: Columns of a report's table: name in an evaluation, head, format.
        claims: What may be claimed about a run; None if it releases no model.
        more: Further names in its events that go into a table.
        missing: How a report prints a value that is not there.
        titled: Settings that the title says, or that need not be said.
    """

    diagnostics: ClassVar[tuple[str, ...]] = ()
    more: ClassVar[tuple[str, ...]] = ()
    missing: ClassVar[str] = "∞"
    titled: ClassVar[frozenset[str]] = frozenset({"kind"})

    # Abstract, so that a view without one of them is a type error.
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
        """The kind of run that it shows."""
        return KINDS[self.config.model_fields["kind"].default]

    @abstractmethod
    def title(self, config: Settings) -> str:
        """Return what a run without a name is called."""

    @abstractmethod
    def subject(self, config: Settings) -> str:
        """Return the same for a report, where the settings follow."""

    @abstractmethod
    def result(self, summary: Summary) -> str:
        """Return what it reached, as one cell of a table; "" if not known."""

    @abstractmethod
    def page(self, config: Any) -> dict[str, Any]:
        """Return what the template needs beyond what all have."""

    @abstractmethod
    def page_data(self, config: Any) -> dict[str, Any]:
        """Return what the page's script needs beyond what all have."""

    def standing(
        self, _config: Any, _read: Callable[[str], Points]
    ) -> dict[str, Standing]:
        """Return the charts as they stand before the page's script, by name.

        Args:
            _config: The settings.
            _read: Returns the data of the run's events of a kind, in order.
        """
        return {}

    @abstractmethod
    def sections(
        self, config: Any, steps: Points, evaluations: Points
    ) -> list[Section]:
        """Return the sections of a report."""

    def terms(self, config: Settings) -> PrivacyTerms:
        """Return what its epsilon is to be read with.

        Raises:
            ConfigError: runs of this kind spend nothing.
        """
        raise ConfigError(
            "accountant", "accountant must be left out: this run spends no ε."
        )

    def spent(
        self, epsilon: float | None, config: Settings, status: str = ""
    ) -> Epsilon:
        """Return an epsilon of the log with its terms; None is infinite.

        Its status is the accountant's, unless the log says that this one has another.
        """
        terms = self.terms(config)
        if status:
            terms = terms.model_copy(update={"status": status})
        return Epsilon.spent(math.inf if epsilon is None else epsilon, terms)

    @property
    def fields(self) -> dict[str, FormField]:
        """Fields of its settings, in order."""
        return form_fields(self.config)

    @property
    def starts(self) -> list[Settings]:
        """Configurations that runs start from: what differs from one names a run."""
        return [self.config.parse({}).model_dump(mode="json")]

    def counts(self, name: str, _config: Settings) -> bool:
        """Return whether a setting has an effect under a configuration."""
        return name in self.fields

    def settings(self, config: RunConfig) -> dict[str, list[tuple[FormField, str]]]:
        """Return every setting that is set, with its text, under its heading."""
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
    """Return a line in one of plotly's figures."""
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


# The tokens --series-… of the light theme: a report stands by itself.
PRINTED = {
    "private": "#0072b2",
    "twin": "#595959",
    "budget": "#d55e00",
    "good": "#007a5a",
}

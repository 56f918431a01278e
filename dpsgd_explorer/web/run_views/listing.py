"""The list of a visitor's runs: its rows, their search, filters and order."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

from dpsgd_explorer.experiments.events import changes_of
from dpsgd_explorer.experiments.kinds import KINDS
from dpsgd_explorer.experiments.mid_run import words_of
from dpsgd_explorer.experiments.own_table import label_of
from dpsgd_explorer.runs.store.records import Run
from dpsgd_explorer.runs.store.schema import FINAL_STATES
from dpsgd_explorer.web.forms.fields import FormField
from dpsgd_explorer.web.questions.looked_at import LookedAt
from dpsgd_explorer.web.run_views.models import RunSummary
from dpsgd_explorer.web.run_views.naming import name_of, names_of, whole_config
from dpsgd_explorer.web.run_views.registry import VIEWS

CHANGES_SHOWN = 3  # maximum number of changes in a row
STATE_WORDS = {
    "queued": "Queued",
    "paused": "Paused",
    "done": "Finished",
    "failed": "Failed",
    "cancelled": "Stopped",
    "interrupted": "Interrupted",
}
PART = re.compile(r"[^\W\d]\S*\s+\d\S*|\S+")
FIRST, LAST = "asc", "desc"
# Default direction of each order, best first.
ORDERS = {
    "date": LAST,
    "name": FIRST,
    "epsilon": FIRST,
    "accuracy": LAST,
    "seconds": FIRST,
}


@dataclass(frozen=True)
class Change:
    """A setting that differs from the previous run; a text is "" if it is unset."""

    field: FormField
    before: str
    after: str


@dataclass(frozen=True)
class RunRow:
    """A run as a row of the table.

    Attributes:
        result: Result of the run, "" if unknown.
        changes: Differences from the previous run of its kind; None for the first run.
        more: Number of further differences.
        words: Text that a search looks through, in lower case.
        chosen: "changed" or "continued" if that happened by choice, else "".
    """

    run: RunSummary
    title: str
    state: str
    result: str
    changes: list[Change] | None
    more: int
    dataset: str
    dataset_label: str
    words: str
    chosen: str = ""

    @property
    def is_active(self) -> bool:
        """If True, the run is queued, running or paused."""
        return self.run.state not in FINAL_STATES

    @property
    def is_compared(self) -> bool:
        """If True, the run can be overlaid with other runs."""
        return KINDS[self.run.kind].compared


@dataclass(frozen=True, kw_only=True)
class ListQuery:
    """Filters and order of the list; "" means any.

    Values that are not among the choices are ignored.
    """

    q: str = ""
    kind: str = ""
    dataset: str = ""
    state: str = ""
    starred: str = ""
    sort: str = "date"
    order: str = LAST

    @classmethod
    def of(cls, texts: Mapping[str, str]) -> Self:
        """Reads a query."""
        choices: dict[str, Sequence[str]] = {
            "kind": list(KINDS),
            "state": ["running", *STATE_WORDS],
            "starred": ["1"],
            "sort": list(ORDERS),
            "order": [FIRST, LAST],
        }
        choices_made = {
            name: texts[name]
            for name, allowed in choices.items()
            if texts.get(name) in allowed
        }
        if "sort" in choices_made:
            choices_made = {"order": ORDERS[choices_made["sort"]]} | choices_made
        free = {name: texts.get(name, "").strip() for name in ("q", "dataset")}
        return cls(**free, **choices_made)

    @property
    def is_narrow(self) -> bool:
        """If True, a filter is set."""
        return any((self.q, self.kind, self.dataset, self.state, self.starred))

    @property
    def is_usual(self) -> bool:
        """If True, the query selects all runs, newest first."""
        return self == ListQuery()

    @property
    def texts(self) -> dict[str, str]:
        """The query without default values."""
        defaults = ListQuery()
        values = {name: getattr(self, name) for name in defaults.__dataclass_fields__}
        return {name: x for name, x in values.items() if x != getattr(defaults, name)}

    def sorted_by(self, sort: str) -> ListQuery:
        """Returns the query with another order, or its own order reversed."""
        order = ORDERS[sort]
        if self.sort == sort:
            order = FIRST if self.order == LAST else LAST
        return replace(self, sort=sort, order=order)

    @cached_property
    def _patterns(self) -> list[re.Pattern[str]]:
        return _patterns(self.q)

    def takes(self, row: RunRow) -> bool:
        """Returns whether a run passes the filters."""
        return (
            self.kind in ("", row.run.kind)
            and self.dataset in ("", row.dataset)
            and self.state in ("", row.run.state)
            and (not self.starred or row.run.starred)
            and all(part.search(row.words) for part in self._patterns)
        )

    def apply(self, rows: Sequence[RunRow]) -> list[RunRow]:
        """Returns the matching rows in order, rows without a value last."""
        matching = [row for row in rows if self.takes(row)]
        value = SORT_VALUES[self.sort]
        with_value = [row for row in matching if value(row) is not None]
        with_value.sort(key=value, reverse=self.order == LAST)
        return with_value + [row for row in matching if value(row) is None]


def _patterns(search: str) -> list[re.Pattern[str]]:
    """Returns patterns that must all match: for "adult seed 5", "adult" and "seed 5".

    A pattern matches the start of a word.  A number belongs to the preceding word and
    matches as a whole.
    """
    parts = [re.escape(" ".join(p.split())) for p in PART.findall(search.lower())]
    return [
        re.compile(rf"(?<!\w){part}" + (r"(?![\w.])" if part[-1].isdigit() else ""))
        for part in parts
    ]


def _epsilon(row: RunRow) -> float | None:
    if row.run.privacy is None:
        return None
    spent = row.run.privacy.epsilon
    return math.inf if spent is None else spent


SORT_VALUES: dict[str, Callable[[RunRow], Any]] = {
    "date": lambda row: row.run.created_at,
    "name": lambda row: row.title.lower(),
    "epsilon": _epsilon,
    "accuracy": lambda row: row.run.summary.get("test_accuracy"),
    "seconds": lambda row: row.run.summary.get("seconds"),
}


def rows_of(
    runs: Sequence[Run],
    visitor: str,
    previous: Callable[[Run], Run | None] = lambda _: None,
) -> list[RunRow]:
    """Returns a row with a unique title for each run of a visitor.

    Args:
        runs: The runs, newest first.
        visitor: The current visitor.
        previous: Returns the previous run of the same kind if ``runs`` has none.
    """
    names = names_of(runs)
    return [
        row_of(
            run,
            next((x for x in runs[i:] if x.kind == run.kind), None) or previous(run),
            visitor,
            title=names[run.id],
        )
        for i, run in enumerate(runs, start=1)
    ]


def row_of(run: Run, previous: Run | None, visitor: str, title: str = "") -> RunRow:
    """Returns a run as a row, compared with the previous run of its kind."""
    view = VIEWS[run.kind]
    differing = None if previous is None else changes(run, previous)
    summary = RunSummary.of(run, visitor)
    title = title or name_of(run)
    return RunRow(
        summary,
        title,
        view.kind.running if run.state == "running" else STATE_WORDS[run.state],
        view.result(run.summary),
        None if differing is None else differing[:CHANGES_SHOWN],
        max(0, len(differing or []) - CHANGES_SHOWN),
        str(run.config.get("dataset", "")),
        label_of(run.config) if "dataset" in run.config else "",
        _words(run, title, summary.note),
    )


def marked(
    rows: Sequence[RunRow], phases: Mapping[str, Sequence[Mapping[str, Any]]]
) -> list[RunRow]:
    """Returns the rows, marked if the run was changed or continued by choice.

    Args:
        rows: Rows of any runs.
        phases: Data of each run's ``phase`` events, by the run's id.
    """
    return [
        replace(row, chosen=words_of(changes_of(phases[row.run.id]))) for row in rows
    ]


def looked_at(run: Run, phases: list[dict[str, Any]]) -> LookedAt:
    """Returns the entry of a run in the list of runs that a visitor has looked at.

    Args:
        run: A run with claims.
        phases: Data of its ``phase`` events.
    """
    claims = VIEWS[run.kind].claims
    if claims is None:
        raise TypeError(f"runs must release a model to be looked at, got {run.kind}.")
    return claims.looked_at(run, phases)


def changes(run: Run, previous: Run) -> list[Change]:
    """Returns the settings that differ between two runs of a kind, as texts."""
    view = VIEWS[run.kind]
    settings, previous_settings = (
        whole_config(view, run.config),
        whole_config(view, previous.config),
    )
    return [
        Change(
            field,
            field.in_words(previous_settings[name]),
            field.in_words(settings[name]),
        )
        for name, field in view.fields.items()
        if settings[name] != previous_settings[name]
    ]


def _words(run: Run, title: str, note: str) -> str:
    view = VIEWS[run.kind]
    config = whole_config(view, run.config)
    settings = [
        " ".join(
            filter(None, [field.label, field.symbol, field.in_words(config[name])])
        )
        for name, field in view.fields.items()
        if config[name] is not None
    ]
    return "\n".join([title, note, view.kind.title, *settings]).lower()

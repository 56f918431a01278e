"""A visitor's runs as a list: what each row says, searched, filtered and sorted."""

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

CHANGES_SHOWN = 3
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
# The way in which one looks for the best of each.
ORDERS = {
    "date": LAST,
    "name": FIRST,
    "epsilon": FIRST,
    "accuracy": LAST,
    "seconds": FIRST,
}


@dataclass(frozen=True)
class Change:
    """One setting that differs from the run before; a text is "" if it is not set."""

    field: FormField
    before: str
    after: str


@dataclass(frozen=True)
class RunRow:
    """A run as the table shows it.

    Attributes:
        result: What it reached, "" if not known.
        changes: What differs from the run of its kind before it; None for the first.
        more: How many further settings differ.
        words: What a search looks through, in small letters.
        chosen: What became of it by choice, "" if nothing: changed or continued.
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
        """Whether it waits or trains."""
        return self.run.state not in FINAL_STATES

    @property
    def is_compared(self) -> bool:
        """Whether it can be drawn over others."""
        return KINDS[self.run.kind].compared


@dataclass(frozen=True, kw_only=True)
class ListQuery:
    """Which runs are asked for, and in which order; "" is any.

    A value that is none of its choices counts as left out.
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
        """Read an address."""
        choices: dict[str, Sequence[str]] = {
            "kind": list(KINDS),
            "state": ["running", *STATE_WORDS],
            "starred": ["1"],
            "sort": list(ORDERS),
            "order": [FIRST, LAST],
        }
        given = {
            name: texts[name]
            for name, allowed in choices.items()
            if texts.get(name) in allowed
        }
        if "sort" in given:
            given = {"order": ORDERS[given["sort"]]} | given
        free = {name: texts.get(name, "").strip() for name in ("q", "dataset")}
        return cls(**free, **given)

    @property
    def is_narrow(self) -> bool:
        """Whether it asks for some of the runs only."""
        return any((self.q, self.kind, self.dataset, self.state, self.starred))

    @property
    def is_usual(self) -> bool:
        """Whether it asks for all runs, the newest first."""
        return self == ListQuery()

    @property
    def texts(self) -> dict[str, str]:
        """Its address, without what is usual."""
        usual = ListQuery()
        given = {name: getattr(self, name) for name in usual.__dataclass_fields__}
        return {name: x for name, x in given.items() if x != getattr(usual, name)}

    def sorted_by(self, sort: str) -> ListQuery:
        """Return the same in another order: turned round if it has that order."""
        order = ORDERS[sort]
        if self.sort == sort:
            order = FIRST if self.order == LAST else LAST
        return replace(self, sort=sort, order=order)

    @cached_property
    def _parts(self) -> list[re.Pattern[str]]:
        return _parts(self.q)

    def takes(self, row: RunRow) -> bool:
        """Return whether a run is asked for."""
        return (
            self.kind in ("", row.run.kind)
            and self.dataset in ("", row.dataset)
            and self.state in ("", row.run.state)
            and (not self.starred or row.run.starred)
            and all(part.search(row.words) for part in self._parts)
        )

    def apply(self, rows: Sequence[RunRow]) -> list[RunRow]:
        """Return the rows that are asked for, in order; those without a value last."""
        taken = [row for row in rows if self.takes(row)]
        value = SORT_VALUES[self.sort]
        known = [row for row in taken if value(row) is not None]
        known.sort(key=value, reverse=self.order == LAST)
        return known + [row for row in taken if value(row) is None]


def _parts(search: str) -> list[re.Pattern[str]]:
    """Return what must each be found: "adult", and as one "seed 5".

    A part begins a word; a number belongs to the word before it and is meant whole.
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
    """Return a row for each run of a visitor; all are named apart.

    Args:
        runs: Newest first.
        visitor: Who asks.
        previous: Returns the run of its kind before one, where these hold none.
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


def row_of(run: Run, before: Run | None, visitor: str, title: str = "") -> RunRow:
    """Return one run as a row, beside the one before it."""
    view = VIEWS[run.kind]
    differing = None if before is None else changes(run, before)
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
    """Return the rows, those marked that were changed or continued by choice.

    Args:
        rows: Of any runs.
        phases: The data of each run's ``phase`` events, by its id.
    """
    return [
        replace(row, chosen=words_of(changes_of(phases[row.run.id]))) for row in rows
    ]


def looked_at(run: Run, phases: list[dict[str, Any]]) -> LookedAt:
    """Return a run as one that was looked at.

    Args:
        run: One with something to claim.
        phases: The data of its ``phase`` events.
    """
    claims = VIEWS[run.kind].claims
    if claims is None:
        raise TypeError(f"runs must release a model to be looked at, got {run.kind}.")
    return claims.looked_at(run, phases)


def changes(run: Run, before: Run) -> list[Change]:
    """Return the settings in which two runs of a kind differ, as one types them."""
    view = VIEWS[run.kind]
    new, old = whole_config(view, run.config), whole_config(view, before.config)
    return [
        Change(field, field.in_words(old[name]), field.in_words(new[name]))
        for name, field in view.fields.items()
        if new[name] != old[name]
    ]


def _words(run: Run, title: str, note: str) -> str:
    view = VIEWS[run.kind]
    config = whole_config(view, run.config)
    settings = [
        f"{field.label} {field.symbol} {field.in_words(config[name])}"
        for name, field in view.fields.items()
        if config[name] is not None
    ]
    return "\n".join([title, note, view.kind.title, *settings]).lower()

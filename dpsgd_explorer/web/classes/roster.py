"""The roster of a class: its runs with what differs between them, sorted, as CSV."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from dpsgd_explorer.experiments.kinds import DEFAULT_KIND, KINDS
from dpsgd_explorer.runs.classes.records import Class, RosterRow, names_of
from dpsgd_explorer.runs.store.records import Run
from dpsgd_explorer.web.forms.fields import FormField
from dpsgd_explorer.web.questions.privacy import Epsilon
from dpsgd_explorer.web.questions.rounding import percent
from dpsgd_explorer.web.run_views.listing import STATE_WORDS
from dpsgd_explorer.web.run_views.models import privacy_of
from dpsgd_explorer.web.run_views.naming import short, whole_config
from dpsgd_explorer.web.run_views.registry import VIEWS

FIRST, LAST = "asc", "desc"
#: The way in which one looks for the best of each.
ORDERS = {
    "started": LAST,
    "student": FIRST,
    "state": FIRST,
    "epsilon": FIRST,
    "accuracy": LAST,
}
# A spreadsheet takes a cell that begins so for a formula.
FORMULA = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A run of a class as the roster shows it.

    Attributes:
        student: What its student is called.
        number: The student's number; 0: a teacher.
        settings: Those that differ between the trainings of the class, in words.
        privacy: What it spent; None until it has ended, or if it uses no data.
        accuracy: The last that was measured, 0 to 1; None: none is known.
    """

    run: Run
    student: str
    number: int
    settings: dict[str, str]
    privacy: Epsilon | None
    accuracy: float | None

    @property
    def state(self) -> str:
        """Its state in a word."""
        if self.run.state == "running":
            return KINDS[self.run.kind].running
        return STATE_WORDS[self.run.state]

    @property
    def accuracy_text(self) -> str:
        """The accuracy in percent, "" if none is known."""
        return "" if self.accuracy is None else f"{percent(self.accuracy)} %"

    @property
    def is_private(self) -> bool:
        """Whether it adds noise, and so has an ε."""
        config = self.run.config
        return bool(config.get("private", True) and config.get("noise_multiplier") != 0)


@dataclass(frozen=True)
class Order:
    """By what a roster is sorted; what is none of the choices counts as left out."""

    sort: str = "started"
    order: str = LAST

    @classmethod
    def of(cls, texts: Mapping[str, str]) -> Self:
        """Read an address."""
        sort = texts.get("sort", "")
        if sort not in ORDERS:
            return cls()
        order = texts.get("order", "")
        return cls(sort, order if order in (FIRST, LAST) else ORDERS[sort])

    def turned(self, sort: str) -> Order:
        """Return the order by a column: turned round if it is this one."""
        if sort != self.sort:
            return Order(sort, ORDERS[sort])
        return Order(sort, FIRST if self.order == LAST else LAST)

    def apply(self, entries: Sequence[Entry]) -> list[Entry]:
        """Return the entries in order; those without a value last."""
        value = SORT_VALUES[self.sort]
        known = [one for one in entries if value(one) is not None]
        known.sort(key=value, reverse=self.order == LAST)
        return known + [one for one in entries if value(one) is None]


def _epsilon(entry: Entry) -> float | None:
    if entry.privacy is None:
        return None
    return math.inf if entry.privacy.epsilon is None else entry.privacy.epsilon


SORT_VALUES: dict[str, Callable[[Entry], Any]] = {
    "started": lambda entry: entry.run.created_at,
    "student": lambda entry: (entry.student.casefold(), entry.number),
    "state": lambda entry: entry.state,
    "epsilon": _epsilon,
    "accuracy": lambda entry: entry.accuracy,
}


def entries_of(found: Class, rows: Sequence[RosterRow]) -> list[Entry]:
    """Return the runs of a class as its roster shows them, in the given order."""
    names = names_of(found.members)
    differing = _differing([row.run for row in rows])
    return [
        Entry(
            run=row.run,
            student=names[row.member.number],
            number=row.member.number,
            settings=differing[row.run.id],
            privacy=privacy_of(row.run),
            accuracy=row.run.summary.get("test_accuracy"),
        )
        for row in rows
        if row.member is not None
    ]


def _differing(runs: Sequence[Run]) -> dict[str, dict[str, str]]:
    """Return in words, by run, the settings in which the trainings differ."""
    view = VIEWS[DEFAULT_KIND]
    configs = {
        run.id: whole_config(view, run.config)
        for run in runs
        if KINDS[run.kind].compared
    }
    fields = {
        name: field
        for name, field in view.fields.items()
        if len({repr(config[name]) for config in configs.values()}) > 1
    }
    return {
        run.id: {
            name: words
            for name, field in fields.items()
            if run.id in configs and (words := _words(field, configs[run.id]))
        }
        for run in runs
    }


def _words(field: FormField, config: dict[str, Any]) -> str:
    """Return a setting in a few words, "" where it is not set or has no effect."""
    value = config[field.name]
    if value is None or not VIEWS[DEFAULT_KIND].counts(field.name, config):
        return ""
    if field.name == "private":
        return "" if value else "without privacy"
    # Of a choice what is before the colon: "vmap: the whole model".
    return (
        short(field, value).partition(":")[0] if field.choices else short(field, value)
    )


def as_csv(entries: Iterable[Entry]) -> str:
    """Write a row for each run, with the terms of its ε and all its settings.

    An empty ``epsilon`` of a run that has ended means that there is no guarantee.
    """
    entries = list(entries)
    terms = list(Epsilon.model_fields)
    terms.remove("epsilon_text")
    head = ["student", "number", "run_id", "name", "state", "step", "steps"]
    known = {name for one in entries for name in one.run.config}
    settings = sorted(known - {*head, *terms})
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow([*head, "test_accuracy", *terms, *settings])
    for one in entries:
        run = one.run
        spent = one.privacy.model_dump() if one.privacy else {}
        row = [one.student, one.number, run.id, run.name, run.state, run.step]
        row += [run.steps, one.accuracy, *(spent.get(name) for name in terms)]
        row += [run.config.get(name) for name in settings]
        writer.writerow([_harmless(cell) for cell in row])
    return text.getvalue()


def _harmless(cell: object) -> object:
    """Return a cell that no spreadsheet takes for a formula."""
    is_formula = isinstance(cell, str) and cell.startswith(FORMULA)
    return f"'{cell}" if is_formula else cell

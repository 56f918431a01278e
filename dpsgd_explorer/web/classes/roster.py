"""The roster of a class: its runs, in a table and as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from dpsgd_explorer.experiments.kinds import KINDS
from dpsgd_explorer.runs.classes.records import RosterRow
from dpsgd_explorer.runs.store.records import Run
from dpsgd_explorer.web.classes.setup import start_of
from dpsgd_explorer.web.questions.privacy import Epsilon
from dpsgd_explorer.web.questions.rounding import percent
from dpsgd_explorer.web.run_views.listing import STATE_WORDS
from dpsgd_explorer.web.run_views.models import privacy_of
from dpsgd_explorer.web.run_views.naming import default_name, name_of
from dpsgd_explorer.web.run_views.registry import VIEWS

# A spreadsheet reads a cell that begins with one of these as a formula.
FORMULA = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A run in the roster.

    Attributes:
        run: The run.
        name: The student's name for the run, or else its title and its differences
            from the set-up of the class.
        student: Displayed name of its student.
        number: Number of the student; 0 for a teacher.
        privacy: ε spent; None until the run has ended, or if it uses no data.
        accuracy: Last measured test accuracy, 0 to 1; None before the first.
    """

    run: Run
    name: str
    student: str
    number: int
    privacy: Epsilon | None
    accuracy: float | None

    @property
    def state(self) -> str:
        """State of the run in a word."""
        if self.run.state == "running":
            return KINDS[self.run.kind].running
        return STATE_WORDS[self.run.state]

    @property
    def accuracy_text(self) -> str:
        """The accuracy in percent; "" before it is measured."""
        return "" if self.accuracy is None else f"{percent(self.accuracy)} %"

    @property
    def is_private(self) -> bool:
        """If True, the run adds noise and so has an ε."""
        config = self.run.config
        return bool(config.get("private", True) and config.get("noise_multiplier") != 0)


def entries_of(rows: Sequence[RosterRow], setup: str) -> list[Entry]:
    """Returns the entries of runs, in the given order.

    Args:
        rows: The runs.
        setup: Query string that the students start from; "" means the presets.
    """
    start = start_of(setup)
    return [
        Entry(
            run=row.run,
            name=_name_of(row.run, start),
            student=row.member.name,
            number=row.member.number,
            privacy=privacy_of(row.run),
            accuracy=row.run.summary.get("test_accuracy"),
        )
        for row in rows
    ]


def _name_of(run: Run, start: dict[str, Any] | None) -> str:
    if run.name or start is None or run.kind != start["kind"]:
        return name_of(run)
    return default_name(VIEWS[run.kind], run.config, [start])


def as_csv(entries: Iterable[Entry]) -> str:
    """Returns one row per run, with the terms of its ε and all its settings.

    An empty ``epsilon`` of a run that has ended means that there is no guarantee.
    """
    entries = list(entries)
    terms = list(Epsilon.model_fields)
    terms.remove("epsilon_text")
    head = ["student", "number", "run_id", "name", "state", "step", "steps"]
    names = {name for entry in entries for name in entry.run.config}
    settings = sorted(names - {*head, *terms})
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow([*head, "test_accuracy", *terms, *settings])
    for entry in entries:
        run = entry.run
        spent = entry.privacy.model_dump() if entry.privacy else {}
        row = [entry.student, entry.number, run.id, run.name, run.state, run.step]
        row += [run.steps, entry.accuracy, *(spent.get(name) for name in terms)]
        row += [run.config.get(name) for name in settings]
        writer.writerow([_harmless(cell) for cell in row])
    return text.getvalue()


def _harmless(cell: object) -> object:
    """Returns a cell that no spreadsheet reads as a formula."""
    is_formula = isinstance(cell, str) and cell.startswith(FORMULA)
    return f"'{cell}" if is_formula else cell

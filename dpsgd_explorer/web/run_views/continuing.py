"""Continuations of runs: how to start one, or why it is impossible."""

from __future__ import annotations

from dataclasses import dataclass

from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.experiments.config import RunConfig
from dpsgd_explorer.experiments.mid_run import NOT_CONTINUED
from dpsgd_explorer.runs.store.records import Run
from dpsgd_explorer.runs.store.schema import CANCELLED
from dpsgd_explorer.runs.store.store import RunStore

USUAL_SHARE = 10  # by default, 1 / USUAL_SHARE of the done steps is added


@dataclass(frozen=True)
class Continuation:
    """The relation of a run to its continuations.

    Attributes:
        continues: Id of the run that it continues, "" if none.
        continued_by: Id of the run that continues it, "" if none.
        why_not: Reason why it cannot be continued, "" if it can be after its end.
        steps: Default number of further steps.
    """

    continues: str
    continued_by: str
    why_not: str
    steps: int


def continuation(store: RunStore, run: Run, config: RunConfig) -> Continuation:
    """Returns the continuation of a training run."""
    continuing = store.continuing
    is_child = bool(run.parent) and continuing.continuation_of(run.parent) == run.id
    continued_by = continuing.continuation_of(run.id)
    return Continuation(
        continues=run.parent if is_child else "",
        continued_by=continued_by,
        why_not="" if continued_by else _why_not(store, run, config),
        steps=_default_steps(run),
    )


def _default_steps(run: Run) -> int:
    """Returns the steps that a stopped run did not take, else a share of its steps."""
    if run.state == CANCELLED and run.step < run.steps:
        return run.steps - run.step
    return max(1, (run.step if run.has_ended else run.steps) // USUAL_SHARE)


def _why_not(store: RunStore, run: Run, config: RunConfig) -> str:
    if config.why_not_continued or not run.has_ended:
        return config.why_not_continued
    try:
        store.continuing.check(run.id, 1)
    except ConfigError as error:
        return str(error).removeprefix(NOT_CONTINUED)
    return ""

"""What the page of a run says of its continuation: how to make one, or why not."""

from __future__ import annotations

from dataclasses import dataclass

from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.experiments.config import RunConfig
from dpsgd_explorer.experiments.mid_run import NOT_CONTINUED
from dpsgd_explorer.runs.store.records import Run
from dpsgd_explorer.runs.store.schema import CANCELLED
from dpsgd_explorer.runs.store.store import RunStore

USUAL_SHARE = 10  # of the steps so far, one in so many is offered


@dataclass(frozen=True)
class Continuation:
    """The place of a run among those that continue each other.

    Attributes:
        continues: Id of the run whose steps it took over, "" if none.
        continued_by: Id of the run that goes on with its steps, "" if none.
        why_not: Why it cannot be continued, "" if it can, now or when it is over.
        steps: How many steps more are offered at first.
    """

    continues: str
    continued_by: str
    why_not: str
    steps: int


def continuation(store: RunStore, run: Run, config: RunConfig) -> Continuation:
    """Return what there is to say of a training run's continuation."""
    continuing = store.continuing
    is_child = bool(run.parent) and continuing.continuation_of(run.parent) == run.id
    continued_by = continuing.continuation_of(run.id)
    return Continuation(
        continues=run.parent if is_child else "",
        continued_by=continued_by,
        why_not="" if continued_by else _why_not(store, run, config),
        steps=_usual_steps(run),
    )


def _usual_steps(run: Run) -> int:
    """Return those that a run was stopped before, else a share of those done."""
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

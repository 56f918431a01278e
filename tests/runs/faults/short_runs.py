"""Runs whose processes are ready soon: most of them need no torch."""

from functools import cache

from dpsgd_explorer.experiments import kinds
from tests.runs.real_runs import CHEAP

#: Of each kind, one whose process tells some hundred events.
FAULTY = {
    "training": kinds.parse(CHEAP["training"] | {"steps": 50, "evaluations": 5}),
    "regression": kinds.parse(CHEAP["regression"] | {"steps": 40, "evaluations": 40}),
}
RUN = FAULTY["regression"]
QUICK = kinds.parse(CHEAP["regression"] | {"steps": 1, "evaluations": 1})
#: Longer than any test: its process is slowed down at each of 400 events.
ENDLESS = kinds.parse(CHEAP["regression"] | {"steps": 10_000, "evaluations": 200})


@cache
def undisturbed(config):
    """Return the events of a run that nothing disturbs."""
    return [event.timeless() for event in kinds.start(config).events()]

"""Recording of the audit and the safety check of every loop with a planted bug.

    python -m dpsgd_explorer.web.labs.find_the_bug.record

Writes ``recorded.json`` into this folder: the loops' texts, the check that
detects each bug, and the bound on ε after each step.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from dpsgd_explorer.experiments.planted_bug_config import PlantedBugConfig
from dpsgd_explorer.training.planted_bug import PlantedBugExperiment
from dpsgd_explorer.training.planted_bugs.catalogue import CHECKS, LOOPS, PlantedBug
from dpsgd_explorer.training.planted_bugs.task import DELTA
from dpsgd_explorer.training.planted_bugs.trial import CONFIDENCE
from tools.record.files import write


def described(bug: PlantedBug) -> dict[str, Any]:
    """Returns the page's texts about a loop."""
    return {
        "title": bug.title,
        "wrong": bug.wrong,
        "at_fault": bug.at_fault,
        "why": bug.why,
        "source": bug.source,
    }


def tried(bug: PlantedBug) -> dict[str, Any]:
    """Returns the results of a loop, from the events of a run with the default seed."""
    config = PlantedBugConfig(loop=bug.name)
    events = list(PlantedBugExperiment(config).events())
    points = [e.data for e in events if e.kind == "evaluation"]
    end = events[-1].data
    return {
        "seen_by": end["seen_by"],
        "refused": events[0].data["refused"],
        "error": end["error"],
        "points": [
            {name: p[name] for name in ("step", "epsilon_lower", "epsilon_promised")}
            for p in points
        ],
    }


def promise() -> dict[str, Any]:
    """Returns the declared ε of every loop, and the settings of the audit."""
    phase = PlantedBugExperiment(PlantedBugConfig())._phase().data
    return {
        "epsilon": phase["epsilon_promised"],
        "delta": DELTA,
        "confidence": CONFIDENCE,
        "canaries": phase["canaries"],
        "steps": phase["steps"],
        "sample_rate": phase["sample_rate"],
    }


def main() -> int:
    """Runs all loops, which takes about a minute."""
    loops = {}
    for name, bug in LOOPS.items():
        loops[name] = described(bug) | tried(bug)
        print(name, loops[name]["seen_by"], loops[name]["points"][-1:], flush=True)
    stored = {"promise": promise(), "checks": CHECKS, "loops": loops}
    write("recorded", stored, folder=Path(__file__).parent)
    return 0


if __name__ == "__main__":
    sys.exit(main())

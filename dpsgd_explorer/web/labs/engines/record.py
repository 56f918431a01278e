"""Recording of the lab's default comparison of engines.

    python -m dpsgd_explorer.web.labs.engines.record

Writes ``recorded.json`` into this folder: settings and events.
"""

from __future__ import annotations

import sys
from pathlib import Path

from dpsgd_explorer.experiments.engines_config import EnginesConfig
from dpsgd_explorer.training.engine_comparison import EngineComparison
from dpsgd_explorer.training.rehearsal import warm_up
from tools.record.files import write


def main() -> int:
    """Measures once to warm up, as a worker process does, then measure and record."""
    config = EnginesConfig()
    warm_up("adult", "logistic")
    events = [
        {"kind": e.kind, "data": e.data} for e in EngineComparison(config).events()
    ]
    stored = {"config": config.model_dump(mode="json"), "events": events}
    write("recorded", stored, folder=Path(__file__).parent)
    print(config.model, events[-1]["data"])
    return 0


if __name__ == "__main__":
    sys.exit(main())

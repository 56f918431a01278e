"""Run the lab's default comparison of the engines and record its events.

    python -m tools.record_engines

Writes dpsgd_explorer/web/recorded/engines/transformer.json: settings and events.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from dpsgd_explorer.experiments.engines_config import EnginesConfig
from dpsgd_explorer.training.dp_sgd import warm_up
from dpsgd_explorer.training.engine_comparison import EngineComparison

FOLDER = Path(__file__).parents[1] / "dpsgd_explorer" / "web" / "recorded" / "engines"


def main() -> int:
    """Measure once to warm up, as the worker's process does, and once for the file."""
    config = EnginesConfig()
    warm_up("adult", "logistic")
    events = [
        {"kind": e.kind, "data": e.data} for e in EngineComparison(config).events()
    ]
    stored = {"config": config.model_dump(mode="json"), "events": events}
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / f"{config.model}.json"
    path.write_text(json.dumps(stored, allow_nan=False) + "\n", encoding="utf-8")
    print(path.name, events[-1]["data"])
    return 0


if __name__ == "__main__":
    sys.exit(main())

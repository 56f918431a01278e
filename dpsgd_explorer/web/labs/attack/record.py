"""Recording of the lab's default membership attack.

    python -m dpsgd_explorer.web.labs.attack.record

Writes ``recorded.json`` into this folder: settings and events.
"""

from __future__ import annotations

import sys
from pathlib import Path

from dpsgd_explorer.experiments.attack_config import AttackConfig
from dpsgd_explorer.training.attack import Attack
from tools.record.files import versions, write


def main() -> int:
    """Runs the attack and write its events."""
    config = AttackConfig()
    events = [{"kind": e.kind, "data": e.data} for e in Attack(config).events()]
    stored = {"config": config.model_dump(mode="json"), "events": events}
    write("recorded", stored | versions(), folder=Path(__file__).parent)
    print(config.dataset, events[-1]["data"])
    return 0


if __name__ == "__main__":
    sys.exit(main())

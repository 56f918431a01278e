"""Record the final models of the recorded twins without privacy.

    python -m tools.record.twin_models [SLUG ...]

Repeats the named runs, such as "adult-twin", or all runs of
dpsgd_explorer/web/recorded/*-twin.json, and writes
dpsgd_explorer/web/recorded/twins/<dataset>-<model>.json: the settings of the run, and
its first and last ``model`` event.
"""

from __future__ import annotations

import sys

from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.training.dp_sgd import train
from dpsgd_explorer.training.timing import one_thread
from dpsgd_explorer.web.recorded.files import FOLDER
from dpsgd_explorer.web.recorded.runs import recorded
from tools.record.files import versions, write


def main(slugs: list[str]) -> int:
    """Repeat the named twins, or all, and write their files."""
    one_thread()
    for slug in slugs or sorted(path.stem for path in FOLDER.glob("*-twin.json")):
        twin = recorded(slug).config.model_dump(exclude_none=True)
        config = TrainingConfig.parse(twin | {"evaluations": 1})
        events = list(train(config))
        name = f"twins/{config.dataset}-{config.model}"
        stored = {
            "config": config.model_dump(mode="json", exclude_none=True),
            "test_accuracy": events[-1].data["test_accuracy"],
            "models": [event.data for event in events if event.kind == "model"],
        }
        write(name, stored | versions())
        print(name, stored["test_accuracy"], flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

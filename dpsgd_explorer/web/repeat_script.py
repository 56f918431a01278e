"""The script that repeats a run with the library and compares its numbers."""

from __future__ import annotations

from string import Template

from dpsgd_explorer import __version__
from dpsgd_explorer.runs.records import Run
from dpsgd_explorer.training.config import TrainingConfig

COMPARED = ("epsilon", "delta", "test_accuracy", "test_loss")
SCRIPT = Template('''\
"""Repeats run $run_id of DP-SGD Explorer $version.

The same settings and seed give the same numbers on the same kind of machine.
A seed that is known voids the guarantee: repeat a run to check it, never to publish.
Start it where the package dpsgd_explorer can be imported.
"""

import sys

from dpsgd_explorer.training.config import TrainingConfig
from dpsgd_explorer.training.loop import train

CONFIG = TrainingConfig(
$settings
)

# $origin
RECORDED = $recorded


def main() -> int:
    """Train, print the curve, and return 1 if a recorded number is not repeated."""
    for event in train(CONFIG):
        if event.kind == "evaluation":
            print(event.data)
    repeated = {name: event.data[name] for name in RECORDED}
    print("recorded", RECORDED)
    print("repeated", repeated)
    return int(repeated != RECORDED)


if __name__ == "__main__":
    sys.exit(main())
''')


def repeat_script(run: Run) -> str:
    """Return Python source; it holds the run's settings and numbers, no free text."""
    settings, origin, recorded = parts(run)
    return SCRIPT.substitute(
        run_id=run.id,
        version=__version__,
        settings=settings,
        origin=origin,
        recorded=recorded,
    )


def parts(run: Run) -> tuple[str, str, str]:
    """Return the settings as arguments, where the numbers are from, and the numbers."""
    settings = "\n".join(
        f"    {name}={run.config[name]!r},"
        for name in TrainingConfig.model_fields
        if run.config.get(name) is not None
    )
    if run.state != "done":
        return (
            settings,
            f"Nothing to compare with: the recorded run is {run.state}.",
            "{}",
        )
    lines = [f'    "{name}": {run.summary[name]!r},' for name in COMPARED]
    return settings, "What the recorded run came to.", "\n".join(["{", *lines, "}"])

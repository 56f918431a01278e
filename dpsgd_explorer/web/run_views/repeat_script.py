"""The script that repeats a run with the library and compares its numbers."""

from __future__ import annotations

from string import Template

from dpsgd_explorer import __version__, experiments
from dpsgd_explorer.experiments.kinds import KINDS
from dpsgd_explorer.runs.store.records import Run

# In a checkout of the project; its wheel will do as well.
PUBLIC = experiments.__name__  # a path that stays when modules move
INSTALL = "python -m pip install ."
SCRIPT = Template('''\
"""Repeats run $run_id of DP-SGD Explorer $version.

It needs the package dpsgd_explorer $version, Python 3.11 or later. In a checkout of it:

    $install
    python THIS_FILE

The same settings and seed give the same numbers on the same kind of machine.
A seed that is known voids the guarantee: repeat a run to check it, never to publish.
"""

import sys

$imports

CONFIG = $settings

# $origin
RECORDED = $recorded


def main() -> int:
    """Carry it out, print the curve; 1: a recorded number was not repeated."""
    for event in start(CONFIG).events():
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
    return SCRIPT.substitute(
        parts(run), run_id=run.id, version=__version__, install=INSTALL
    )


def parts(run: Run) -> dict[str, str]:
    """Return the imports, the settings, where the numbers are from, and the numbers."""
    kind = KINDS[run.kind]
    config, measured = kind.config, ("epsilon", "delta", *kind.measured)
    settings = "\n".join(
        f"    {name}={run.config[name]!r},"
        for name in config.model_fields
        if run.config.get(name) is not None
    )
    origin, recorded = f"Nothing to compare with: the recorded run is {run.state}.", ""
    if run.state == "done":
        origin = "What the recorded run came to."
        recorded = "\n".join(
            f'    "{name}": {run.summary[name]!r},' for name in measured
        )
    return {
        "imports": f"from {PUBLIC} import {config.__name__}, start",
        "settings": f"{config.__name__}(\n{settings}\n)",
        "origin": origin,
        "recorded": f"{{\n{recorded}\n}}" if recorded else "{}",
    }

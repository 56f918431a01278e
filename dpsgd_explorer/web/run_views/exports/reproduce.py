"""A script and a notebook that repeat a run with the library and compare numbers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from string import Template
from typing import Any

from dpsgd_explorer import __version__, experiments
from dpsgd_explorer.experiments.events import Changes, changes_of
from dpsgd_explorer.experiments.kinds import KINDS, LAUNCHED
from dpsgd_explorer.experiments.own_table import is_own
from dpsgd_explorer.runs.store.records import Run

#: Data of a log's ``phase`` events, in order.
Phases = Sequence[Mapping[str, Any]]

# Works in a checkout of the project and with its wheel.
PUBLIC = experiments.__name__  # import path that does not change when modules move
INSTALL = "python -m pip install ."
SCRIPT = Template('''\
# In a checkout of DP-SGD Explorer $version, Python 3.11 or later: $install
"""Repeats run $run_id of DP-SGD Explorer $version: python THIS_FILE.

It needs the package dpsgd_explorer of that version, but not the site.$file

The same settings and seed give the same numbers on the same kind of machine.
A known seed voids the guarantee: repeat a run to check it, never to publish it.
"""

import sys

$imports

CONFIG = $settings
$log
# $origin
RECORDED = $recorded


def main() -> int:
    """Run it and print the curve; return 1 if a recorded number differs."""
    for event in start($arguments).events():
        if event.kind == "evaluation":
            print(event.data)
    repeated = {name: event.data[name] for name in RECORDED}
    print("recorded", RECORDED)
    print("repeated", repeated)
    return int(repeated != RECORDED)


if __name__ == "__main__":
    sys.exit(main())
''')
CARRY_OUT = """\
curve = []
for event in start($arguments).events():
    if event.kind == "evaluation":
        curve.append(event.data)
        print(event.data)"""
COMPARE = """\
REPEATED = {name: event.data[name] for name in RECORDED}
assert REPEATED == RECORDED, REPEATED
REPEATED"""


def script(run: Run, phases: Phases = ()) -> str:
    """Returns the Python script of a run; it contains no free text of the visitor.

    Args:
        run: The run.
        phases: Data of its log's ``phase`` events, with changes of settings.
    """
    return SCRIPT.substitute(
        _parts(run, phases), run_id=run.id, version=__version__, install=INSTALL
    )


def notebook(run: Run, phases: Phases = ()) -> str:
    """Returns a Jupyter notebook, format 4.5, without free text of the visitor."""
    parts = _parts(run, phases)
    title = (
        f"In a checkout of DP-SGD Explorer {__version__}, Python 3.11 or later: "
        f"`{INSTALL}`\n\n# Run {run.id} again\n\nIt needs the package dpsgd_explorer "
        f"of that version, but not the site.{parts['file']} The same settings and "
        "seed give the same numbers on the same kind of machine. A known seed voids "
        "the guarantee: repeat a run to check it, never to publish it."
    )
    code = (
        f"{parts['imports']}\n\nCONFIG = {parts['settings']}\n{parts['log']}",
        CARRY_OUT.replace("$arguments", parts["arguments"]),
        f"# {parts['origin']}\nRECORDED = {parts['recorded']}\n" + COMPARE,
    )
    cells = [("markdown", title), *(("code", source) for source in code)]
    return notebook_of(cells)


def notebook_of(cells: Sequence[tuple[str, str]]) -> str:
    """Returns a Jupyter notebook, format 4.5, with these cells of kind and source."""
    document = {
        "cells": [_cell(kind, text, i) for i, (kind, text) in enumerate(cells)],
        "metadata": {"language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(document, indent=1)


def _cell(kind: str, source: str, number: int) -> dict[str, object]:
    cell: dict[str, object] = {
        "cell_type": kind,
        "id": f"cell-{number}",
        "metadata": {},
        "source": source.splitlines(keepends=True),
    }
    return cell | ({"execution_count": None, "outputs": []} if kind == "code" else {})


def _parts(run: Run, phases: Phases) -> dict[str, str]:
    """Returns imports, settings, origin of the numbers, and the numbers."""
    changes = changes_of(phases)
    kind = KINDS[run.kind]
    config, measured = kind.config, ("epsilon", "delta", *kind.measured)
    settings = "\n".join(
        f"    {name}={run.config[name]!r},"
        for name in config.model_fields
        if run.config.get(name) is not None
    )
    origin, recorded = f"Nothing to compare with: the recorded run is {run.state}.", ""
    if run.state == "done":
        origin = "The results of the recorded run."
        recorded = "\n".join(
            f'    "{name}": {run.summary[name]!r},' for name in measured
        )
    return {
        "file": _file(run),
        "imports": f"from {PUBLIC} import {config.__name__}, start",
        "settings": f"{config.__name__}(\n{settings}\n)",
        "log": _changes(changes) + _measured(phases) + _retired(run.kind),
        "arguments": "CONFIG, changes=CHANGES" if changes else "CONFIG",
        "origin": origin,
        "recorded": f"{{\n{recorded}\n}}" if recorded else "{}",
    }


def _file(run: Run) -> str:
    """Returns a sentence on the file that a run on an own table reads, else ""."""
    name = run.config.get("dataset")
    if not is_own(name):
        return ""
    return (
        f"\nThe folder where you start it must hold the table: the same CSV file, "
        f"named\n{name}.csv."
    )


def _changes(changes: Changes) -> str:
    """Returns the lines with the changes of settings; "" without changes."""
    if not changes:
        return ""
    lines = "".join(f"    ({step}, {dict(values)!r}),\n" for step, values in changes)
    return (
        "# Steps done before each change that was made while the run trained.\n"
        f"CHANGES = [\n{lines}]\n"
    )


def _retired(kind: str) -> str:
    """Returns a note if this version no longer carries out runs of a kind."""
    if kind in LAUNCHED:
        return ""
    return f"# This version reads {KINDS[kind].noun} and cannot repeat it.\n"


def _measured(phases: Phases) -> str:
    """Returns a note if an earlier version chose norm methods by measuring them."""
    if not any(phase.get("norm_methods") for phase in phases):
        return ""
    return (
        "# The recorded run chose methods of computing norms by their time, which this "
        "version\n# does not: the last digits may differ.\n"
    )

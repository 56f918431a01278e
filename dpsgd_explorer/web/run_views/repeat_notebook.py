"""The notebook that repeats a run with the library and compares its numbers."""

from __future__ import annotations

import json

from dpsgd_explorer import __version__
from dpsgd_explorer.runs.store.records import Run
from dpsgd_explorer.web.run_views.repeat_script import INSTALL, parts

CARRY_OUT = """\
curve = []
for event in start(CONFIG).events():
    if event.kind == "evaluation":
        curve.append(event.data)
        print(event.data)"""
COMPARE = """\
REPEATED = {name: event.data[name] for name in RECORDED}
assert REPEATED == RECORDED, REPEATED
REPEATED"""


def repeat_notebook(run: Run) -> str:
    """Return a Jupyter notebook, format 4.5; it holds no free text of the visitor."""
    told = parts(run)
    title = (
        f"# Run {run.id} again\n\nMade by DP-SGD Explorer {__version__}. It needs the "
        "package dpsgd_explorer of that version, Python 3.11 or later; in a checkout "
        f"of it:\n\n    {INSTALL}\n\nThe same "
        "settings and seed give the same numbers on the same kind of machine. A seed "
        "that is known voids the guarantee: repeat a run to check it, never to publish."
    )
    code = (
        f"{told['imports']}\n\nCONFIG = {told['settings']}",
        CARRY_OUT,
        f"# {told['origin']}\nRECORDED = {told['recorded']}\n" + COMPARE,
    )
    cells = [_cell("markdown", title, 0)]
    cells += [_cell("code", source, i) for i, source in enumerate(code, start=1)]
    notebook = {
        "cells": cells,
        "metadata": {"language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(notebook, indent=1)


def _cell(kind: str, source: str, number: int) -> dict[str, object]:
    cell: dict[str, object] = {
        "cell_type": kind,
        "id": f"cell-{number}",
        "metadata": {},
        "source": source.splitlines(keepends=True),
    }
    return cell | ({"execution_count": None, "outputs": []} if kind == "code" else {})

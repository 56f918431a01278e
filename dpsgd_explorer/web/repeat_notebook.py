"""The notebook that repeats a run with the library and compares its numbers."""

from __future__ import annotations

import json

from dpsgd_explorer import __version__
from dpsgd_explorer.runs.records import Run
from dpsgd_explorer.web.repeat_script import parts

TRAIN = """\
from dpsgd_explorer.training.loop import train

curve = []
for event in train(CONFIG):
    if event.kind == "evaluation":
        curve.append(event.data)
        print(event.data)"""
COMPARE = """\
REPEATED = {name: event.data[name] for name in RECORDED}
assert REPEATED == RECORDED, REPEATED
REPEATED"""


def repeat_notebook(run: Run) -> str:
    """Return a Jupyter notebook, format 4.5; it holds no free text of the visitor."""
    settings, origin, recorded = parts(run)
    title = (
        f"# Run {run.id} again\n\nMade by DP-SGD Explorer {__version__}. The same "
        "settings and seed give the same numbers on the same kind of machine. A seed "
        "that is known voids the guarantee: repeat a run to check it, never to publish."
    )
    config = (
        "from dpsgd_explorer.training.config import TrainingConfig\n\n"
        f"CONFIG = TrainingConfig(\n{settings}\n)"
    )
    compare = f"# {origin}\nRECORDED = {recorded}\n" + COMPARE
    cells = [_cell("markdown", title, 0)]
    code = enumerate((config, TRAIN, compare), start=1)
    cells += [_cell("code", source, number) for number, source in code]
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

"""Record some misread pictures of the rare class, for the chapter on fairness.

    python -m tools.record.misread [--cache FOLDER]

Repeats the runs of ``tools.record.fairness`` with the rare class, for the first seed
and the rates that are best on average, and writes
dpsgd_explorer/web/recorded/fairness/misread.json: the first test pictures that ordinary
training reads right and the smallest ε misreads, with the answer of every level, and
how many test pictures of the class each level misreads.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dpsgd_explorer.training import inputs
from dpsgd_explorer.training.attack import shades
from dpsgd_explorer.training.cpu.threads import threads
from dpsgd_explorer.training.datasets import registry
from dpsgd_explorer.web.hub.widgets.rare_class.readings import tuned_factor
from tools.record.fairness import KEPT, LEVELS, RARE, SEEDS, train, used_rows
from tools.record.files import versions, write

SHOWN = 4  # number of pictures


def main() -> int:
    """Train, read the test pictures, and write the file."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cache", type=Path, help="folder for computed features")
    with threads(1):
        stored = _recorded(parser.parse_args().cache)
    write("fairness/misread", {**stored, **versions()}, indent=1)
    return 0


def _recorded(cache: Path | None) -> dict[str, Any]:
    data = inputs.load("mnist", "scattering_linear", cache)
    rows = used_rows(data.train_targets, KEPT)
    places = (data.test_targets == RARE).nonzero().squeeze(1)
    answers = {level: _answers(data, rows, places, level) for level in LEVELS}
    first, *_, last = answers.values()
    shown = ((first == RARE) & (last != RARE)).nonzero().squeeze(1)[:SHOWN]
    pictures = registry.load("mnist")[1].inputs
    return {
        "seed": SEEDS[0],
        "records": len(places),
        "misread": {
            level: int((answer != RARE).sum()) for level, answer in answers.items()
        },
        "pictures": [
            {
                "index": int(places[i]),
                "shades": "".join(shades(pictures[places[i]])),
                "answers": {level: int(answers[level][i]) for level in LEVELS},
            }
            for i in shown
        ],
    }


@torch.no_grad()
def _read(model: torch.nn.Module, pictures: Tensor) -> Tensor:
    answers: Tensor = model(pictures).argmax(dim=1)
    return answers


def _answers(data: inputs.Inputs, rows: Tensor, places: Tensor, level: str) -> Tensor:
    """Return the answers of one level's model for the test pictures of the class."""
    factor = float(tuned_factor("rare", level))
    model, _ = train(data, rows, LEVELS[level], SEEDS[0], factor)
    print(level, factor, flush=True)
    return _read(model, data.test[places])


if __name__ == "__main__":
    sys.exit(main())

"""Record the norm methods of each model, and the memory of its private step.

    python -m tools.record.model_cards

Writes dpsgd_explorer/web/recorded/choices/model_cards.json: for each data set and model
with its default widths, the norm method that the library chose for each layer in each
clipping mode, with the reason, and the peak memory that torch allocates during one
private step of ``BATCH`` records.
"""

from __future__ import annotations

import sys

import torch
from torch import Tensor

from dpsgd_explorer.dp.engines.norm_choice import CLIPPING_MODES, DEFAULT_MODE
from dpsgd_explorer.experiments.architecture import PRE_TRAINED
from dpsgd_explorer.experiments.catalogue import DATA_SETS, MODELS
from dpsgd_explorer.training import models
from dpsgd_explorer.training.timing import one_thread, peak_bytes, private_step
from tools.record.files import versions, write

BATCH = 512


def main() -> int:
    """Take a step of every model in every clipping mode, and write the file."""
    one_thread()
    cards = {
        f"{dataset}-{model}": {
            "norm_methods": norm_methods(dataset, model),
            "peak_bytes": peak(dataset, model),
        }
        for model in MODELS
        for dataset in MODELS[model].parameters
    }
    write("choices/model_cards", {"batch": BATCH, "cards": cards, **versions()})
    return 0


def norm_methods(dataset: str, model: str) -> dict[str, dict[str, list[str]]]:
    """Return method and reason of each layer, by clipping mode."""
    data, methods = _records(dataset, model, 2), {}
    for mode in CLIPPING_MODES:
        net = models.build(model, dataset, seed=0)
        engine, step = private_step(net, data, "hooks", mode)
        step.run()
        choices = reversed(engine.explain())
        methods[mode] = {x.layer: [x.norm_method, x.reason] for x in choices}
    return methods


def peak(dataset: str, model: str) -> int:
    """Return the peak memory that torch allocates during a private step, in bytes."""
    net = models.build(model, dataset, seed=0)
    data = _records(dataset, model, BATCH)
    _, step = private_step(net, data, "hooks", DEFAULT_MODE)
    return peak_bytes(step.run)


def _records(dataset: str, model: str, count: int) -> tuple[Tensor, Tensor]:
    """Return random records in the model's input format, with labels."""
    facts = DATA_SETS[dataset]
    generator = torch.Generator().manual_seed(1)
    shape = (count, *facts.input_shape)
    inputs = (
        torch.randint(facts.characters, shape, generator=generator)
        if facts.characters
        else torch.rand(shape, generator=generator)
    )
    if model in models.TRANSFORMS:
        inputs = models.TRANSFORMS[model](facts.input_shape)(inputs)
    # A model of texts predicts a label at each position.
    labelled = shape if model == PRE_TRAINED else (count,)
    return inputs, torch.randint(facts.classes, labelled, generator=generator)


if __name__ == "__main__":
    sys.exit(main())

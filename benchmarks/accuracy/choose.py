"""Compares the settings of a case on 10,000 training records that it holds out.

Run it as ``python -m benchmarks.accuracy.choose``.
"""

from __future__ import annotations

from statistics import mean

import torch

from benchmarks.accuracy.cases import CASES
from benchmarks.accuracy.training import examples_of, train
from dpsgd_explorer.training.timing import one_thread

HELD_OUT = 10_000
SEEDS = range(1000, 1003)


def main() -> None:
    """Prints the mean accuracy on held-out records for each setting."""
    one_thread()
    for case in CASES:
        print(f"{case.dataset}, {case.model}, ε = {case.epsilon:g}")
        examples, _ = examples_of(case)
        shuffled = torch.Generator().manual_seed(0)
        order = torch.randperm(len(examples.targets), generator=shuffled)
        held_out = examples.take(order[:HELD_OUT])
        kept = examples.take(order[HELD_OUT:])
        for settings in case.candidates:
            reached = [
                train(case, settings, kept, held_out, seed).accuracy for seed in SEEDS
            ]
            print(f"  {mean(reached):.2f} %  {settings}", flush=True)


if __name__ == "__main__":
    main()

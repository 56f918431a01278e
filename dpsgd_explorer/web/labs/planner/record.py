"""Recording of the grid of the map that the planner shows first.

    python -m dpsgd_explorer.web.labs.planner.record

Writes ``recorded.json`` into this folder: log ε on the grid of the default plan.
"""

from __future__ import annotations

import sys
from pathlib import Path

from dpsgd_explorer.web.labs.planner.budget_map import MapQuestion, compute_grid
from tools.record.files import write


def main() -> int:
    """Computes the grid, which takes about a second."""
    question = MapQuestion()
    grid = compute_grid(
        question.sample_size, question.expected_batch_size, question.delta
    )
    stored = {
        "sample_size": question.sample_size,
        "expected_batch_size": question.expected_batch_size,
        "delta": question.delta,
        "log_epsilon": [[float(f"{value:.9g}") for value in row] for row in grid],
    }
    write("recorded", stored, folder=Path(__file__).parent)
    return 0


if __name__ == "__main__":
    sys.exit(main())

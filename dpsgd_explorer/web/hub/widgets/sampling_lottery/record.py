"""Recording of the lottery's ε with random allocation, which takes seconds.

    python -m dpsgd_explorer.web.hub.widgets.sampling_lottery.record

Writes ``recorded.json`` into this folder: the settings, and ε after each epoch.
"""

from __future__ import annotations

import sys
from pathlib import Path

from dpsgd_explorer.accounting import random_allocation_epsilon
from dpsgd_explorer.web.hub.widgets.sampling_lottery.proofs import EPOCHS, SETTINGS
from tools.record.files import write


def main() -> int:
    """Computes ε after each epoch."""
    epsilons = [
        random_allocation_epsilon(epochs=epoch, **SETTINGS)
        for epoch in range(1, EPOCHS + 1)
    ]
    stored = {"settings": SETTINGS, "epsilons": epsilons}
    write("recorded", stored, folder=Path(__file__).parent)
    print(epsilons)
    return 0


if __name__ == "__main__":
    sys.exit(main())

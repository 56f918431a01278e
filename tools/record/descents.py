"""Record the noisy descents of the notebook's figures, many repetitions of each.

    python -m tools.record.descents

The same seed gives the same numbers on the same kind of machine.
"""

from __future__ import annotations

import itertools
import json
import sys

from dpsgd_explorer.experiments.california_housing.descents import (
    RECORDED,
    DescentSpec,
    as_entry,
    compute,
)
from dpsgd_explorer.regression.rates import RATES, RELEASED
from dpsgd_explorer.regression.spending import steps_within

EPSILON, DELTA = 2.0, 1e-6
NOISE = 500.0
FACTORS = (1.0, 10.0, 0.1)
REPETITIONS = 100


def specs() -> list[DescentSpec]:
    """Return the recorded descents: each rate, ten times it and a tenth of it."""
    return [
        DescentSpec(
            noise_multiplier=NOISE,
            steps=steps_within(EPSILON, NOISE, DELTA, rate == RELEASED),
            rate=rate,
            rate_factor=factor,
            repetitions=REPETITIONS,
        )
        for rate, factor in itertools.product(RATES, FACTORS)
    ]


def main() -> int:
    """Compute all descents and write the file."""
    entries = [as_entry(spec, compute(spec)) for spec in specs()]
    text = ",\n".join(json.dumps(entry, allow_nan=False) for entry in entries)
    RECORDED.write_text(f"[\n{text}\n]\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

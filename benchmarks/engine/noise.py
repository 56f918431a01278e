"""CPU time per normal number in nanoseconds: secure, seeded and torch's.

The generators alternate with torch's own, which draws normal numbers and adds them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from benchmarks import record
from dpsgd_explorer.dp.noise.secure import MAX_PAIRS, SecureNoise
from dpsgd_explorer.dp.noise.seeded import CHUNK_ENTRIES, SeededNoise
from dpsgd_explorer.training.timing import Step, time_in_turns

NUMBERS = (CHUNK_ENTRIES, 2 * MAX_PAIRS, 2**20)
SECONDS = 8.0  # CPU time per size
DEVIATION = 1.3

Add = Callable[[Tensor], None]


def generators() -> dict[str, Add]:
    """Return {name: function that adds noise in place}; ratios are to the first."""
    generator = torch.Generator().manual_seed(1)
    seeded, secure = SeededNoise(1), SecureNoise()

    def torch_normal(values: Tensor) -> None:
        draw = torch.empty_like(values)
        values.add_(draw.normal_(0.0, DEVIATION, generator=generator))

    def torch_normal_only(values: Tensor) -> None:
        values.normal_(0.0, DEVIATION, generator=generator)

    def add_seeded(values: Tensor) -> None:
        seeded.add_to(values, DEVIATION)

    def add_secure(values: Tensor) -> None:
        secure.add_to(values, DEVIATION)

    return {
        "torch normal_ and add_": torch_normal,
        "torch normal_ alone": torch_normal_only,
        "seeded": add_seeded,
        "secure": add_secure,
    }


def measure(numbers: int) -> dict[str, dict[str, float]]:
    """Return {generator: ns per number, and ratio to torch's with its quartiles}."""
    values = torch.zeros(numbers)
    steps = {name: Step(partial(add, values)) for name, add in generators().items()}
    return {
        name: {
            "nanoseconds": round(1e6 * timing.milliseconds / numbers, 3),
            "ratio": round(timing.ratio, 3),
            "ratio_low": round(timing.low, 3),
            "ratio_high": round(timing.high, 3),
        }
        for name, timing in time_in_turns(steps, SECONDS).items()
    }


def main() -> None:
    """Measure, print, and write the results."""
    results = {str(numbers): measure(numbers) for numbers in NUMBERS}
    for numbers, figures in results.items():
        print(f"{numbers} numbers at a time")
        for name, row in figures.items():
            print(f"  {name:24}{row['nanoseconds']:7.2f} ns  x {row['ratio']:.2f}")
    print(record.write("noise", {"numbers": results}))

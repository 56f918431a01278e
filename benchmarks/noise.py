"""What noise costs: CPU time, one thread, in nanoseconds a number.

    python -m benchmarks.noise

Sources take turns with torch's own generator, which draws normal numbers and adds them
as they do, so that what slows the machine down slows down all; each ratio is the median
over the rounds of the ratio within a round.
"""

from __future__ import annotations

import json
import platform
import statistics
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import torch
from torch import Tensor

from dpsgd_explorer.dp.noise.secure import PAIRS, SecureNoise
from dpsgd_explorer.dp.noise.seeded import PIECE, SeededNoise

RESULTS = Path(__file__).parent / "results" / "noise.json"
NUMBERS = (PIECE, 2 * PAIRS, 2**20)
ROUNDS = 41
NUMBERS_A_VISIT = 2**20
DEVIATION = 1.3
REFERENCE = "torch normal_ and add_"

Add = Callable[[Tensor], None]


def sources() -> dict[str, Add]:
    """Return {name: adds noise in place}; the first is the measure of the others."""
    generator = torch.Generator().manual_seed(1)
    seeded, secure = SeededNoise(1), SecureNoise()

    def torch_normal(values: Tensor) -> None:
        draw = torch.empty_like(values)
        values.add_(draw.normal_(0.0, DEVIATION, generator=generator))

    def torch_normal_only(values: Tensor) -> None:
        values.normal_(0.0, DEVIATION, generator=generator)

    return {
        REFERENCE: torch_normal,
        "torch normal_ alone": torch_normal_only,
        "seeded": lambda values: seeded.add_to(values, DEVIATION),
        "secure": lambda values: secure.add_to(values, DEVIATION),
    }


def measure(numbers: int) -> dict[str, dict[str, float]]:
    """Return {source: ns a number and ratio to the reference, medians}."""
    values, every = torch.zeros(numbers), sources()
    seen: dict[str, list[float]] = {name: [] for name in every}
    for add in every.values():
        add(values)
    for _ in range(ROUNDS):
        for name, add in every.items():
            seen[name].append(_visit(add, values))
    return {name: _summary(own, seen[REFERENCE]) for name, own in seen.items()}


def _visit(add: Add, values: Tensor) -> float:
    """Return CPU nanoseconds a number."""
    times = max(1, NUMBERS_A_VISIT // len(values))
    start = time.process_time_ns()
    for _ in range(times):
        add(values)
    return (time.process_time_ns() - start) / times / len(values)


def _summary(own: list[float], reference: list[float]) -> dict[str, float]:
    ratios = [a / b for a, b in zip(own, reference, strict=True)]
    low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive")
    return {
        "nanoseconds": round(statistics.median(own), 3),
        "ratio": round(middle, 3),
        "ratio_low": round(low, 3),
        "ratio_high": round(high, 3),
    }


def main() -> None:
    """Measure, print, and write the results."""
    torch.set_num_threads(1)
    results = {str(numbers): measure(numbers) for numbers in NUMBERS}
    machine = {
        "processor": _processor(),
        "torch": torch.__version__,
        "cryptography": version("cryptography"),
        "rounds": ROUNDS,
    }
    RESULTS.parent.mkdir(exist_ok=True)
    text = json.dumps({"machine": machine, "numbers": results}, indent=2)
    RESULTS.write_text(text + "\n", encoding="utf-8")
    for numbers, found in results.items():
        print(f"{numbers} numbers at a time")
        for name, own in found.items():
            print(f"  {name:24}{own['nanoseconds']:7.2f} ns  x {own['ratio']:.2f}")


def _processor() -> str:
    cpu = Path("/proc/cpuinfo")
    if not cpu.exists():
        return platform.processor()
    lines = cpu.read_text(encoding="utf-8").splitlines()
    return next((x.split(":")[1].strip() for x in lines if "model name" in x), "")


if __name__ == "__main__":
    main()

"""Gap, CPU time and memory of ε under random allocation, for a list of settings.

    python -m benchmarks random_allocation

Writes the table into docs/explanation/math.md.  Each setting is measured in its own
process.
"""

from __future__ import annotations

import json
import resource
import sys
from itertools import product
from pathlib import Path

from benchmarks.own_process import resident_mib, result_of
from dpsgd_explorer.accounting import random_allocation_interval
from tools.marked_text import markdown_table, put

PAGE = Path(__file__).parent.parent / "docs" / "explanation" / "math.md"
SIGMAS = (0.5, 0.7, 1.0, 2.0, 10.0)
SLOTS = (2, 30, 300, 10_000)
RUNS = ((1, 1e-5), (30, 1e-10), (300, 1e-3))  # epochs, δ
HEAD = ("σ", "narrow", "largest gap", "CPU time: median, largest", "largest memory")
GAP, LEAST_GAP = 1e-3, 1e-6  # relative to ε, and in units of ε

Measurement = dict[str, float]


def measure(sigma: float, slots: int, epochs: int, delta: float) -> Measurement:
    """Returns the bounds on ε, CPU seconds, and peak memory in MiB of this process."""
    before = _cpu_seconds()
    spent = random_allocation_interval(
        noise_multiplier=sigma, slots=slots, steps=slots * epochs, delta=delta
    )
    assert spent.lower is not None
    return {
        "lower": spent.lower,
        "upper": spent.value,
        "seconds": _cpu_seconds() - before,
        "mebibytes": resident_mib("VmHWM"),
    }


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def is_narrow(measured: Measurement) -> bool:
    """Returns True if the gap of the bounds is within the limits."""
    gap = measured["upper"] - measured["lower"]
    return gap <= max(GAP * measured["upper"], LEAST_GAP)


def table(measured: dict[float, list[Measurement]]) -> str:
    """Returns the table in Markdown, one line for each noise multiplier."""
    rows = []
    for sigma, found in measured.items():
        gap = max((x["upper"] - x["lower"]) / x["upper"] for x in found)
        seconds = sorted(x["seconds"] for x in found)
        rows.append(
            (
                f"{sigma:g}",
                f"{sum(map(is_narrow, found))} of {len(found)}",
                f"{gap:.1e}",
                f"{seconds[len(found) // 2]:.1f} s, {seconds[-1]:.1f} s",
                f"{max(x['mebibytes'] for x in found):.0f} MiB",
            )
        )
    return markdown_table(HEAD, rows)


def main() -> None:
    """Measures all settings, and writes the table."""
    measured: dict[float, list[Measurement]] = {}
    for sigma, slots, (epochs, delta) in product(SIGMAS, SLOTS, RUNS):
        setting = json.dumps([sigma, slots, epochs, delta])
        row: Measurement = result_of("benchmarks.random_allocation", setting)
        measured.setdefault(sigma, []).append(row)
        print(setting, row, flush=True)
    put(PAGE, "random allocation", table(measured))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(measure(*json.loads(sys.argv[1]))))
    else:
        main()

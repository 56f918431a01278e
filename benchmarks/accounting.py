"""CPU time of accountants, and the excess of their ε over the exact ε.

``excess`` is relative to the upper bound of our exact accountant, over the golden
settings with a sample rate below 1.  Libraries that are not installed are skipped.
"""

from __future__ import annotations

import importlib.util
import json
import statistics
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import record
from dpsgd_explorer import accounting
from dpsgd_explorer.training.timing import ROUNDS, cpu_seconds

ROOT = Path(__file__).parents[1]
GOLDEN = ROOT / "tests" / "golden" / "accounting.json"
LONG = 0.3  # seconds; slower values are measured only once
TOO_LONG = 5.0  # CPU seconds of a method; above, only every third setting is measured
CURVE_STEPS = range(10, 10_001, 10)
MNIST = (256 / 60_000, 1.1, 14_062, 1e-5)
TARGET = (2.0, 0.01, 10_000)  # ε, q, steps

Epsilon = Callable[[float, float, int, float], float]


def ours(name: str) -> Epsilon:
    """Return the ε of one of our accountants."""
    return lambda q, sigma, t, delta: accounting.epsilon(
        sample_rate=q, noise_multiplier=sigma, steps=t, delta=delta, accountant=name
    )


def dp_accounting(family: str, accountant: str, **options: float) -> Epsilon:
    """Return the pessimistic ε of one of dp-accounting's accountants."""

    def epsilon(q: float, sigma: float, t: int, delta: float) -> float:
        import dp_accounting as dp

        module = importlib.import_module(f"dp_accounting.{family}")
        composed = getattr(module, accountant)(**options)
        step = dp.PoissonSampledDpEvent(q, dp.GaussianDpEvent(sigma))
        composed.compose(dp.SelfComposedDpEvent(step, t))
        return float(composed.get_epsilon(delta))

    return epsilon


def pld(interval: float) -> Epsilon:
    """Return the pessimistic ε of dp-accounting's PLD."""
    return dp_accounting("pld", "PLDAccountant", value_discretization_interval=interval)


def prv(error: float) -> Epsilon:
    """Return the upper bound of prv-accountant."""

    def epsilon(q: float, sigma: float, t: int, delta: float) -> float:
        from prv_accountant import PoissonSubsampledGaussianMechanism, PRVAccountant

        step = PoissonSubsampledGaussianMechanism(
            sampling_probability=q, noise_multiplier=sigma
        )
        accountant = PRVAccountant(
            prvs=[step],
            max_self_compositions=[t],
            eps_error=error,
            delta_error=delta / 1000,
        )
        return float(accountant.compute_epsilon(delta, [t])[2])

    return epsilon


def opacus(mechanism: str) -> Epsilon:
    """Return the ε of an accountant of Opacus."""

    def epsilon(q: float, sigma: float, t: int, delta: float) -> float:
        from opacus.accountants import create_accountant

        accountant = create_accountant(mechanism)
        accountant.history = [(sigma, q, t)]
        return float(accountant.get_epsilon(delta))

    return epsilon


METHODS: dict[str, tuple[str, Epsilon]] = {
    "exact": ("", ours("exact")),
    "rdp": ("", ours("rdp")),
    "dp-accounting rdp": ("dp_accounting", dp_accounting("rdp", "RdpAccountant")),
    "dp-accounting pld 1e-3": ("dp_accounting", pld(1e-3)),
    "dp-accounting pld 1e-4": ("dp_accounting", pld(1e-4)),
    "opacus rdp": ("opacus", opacus("rdp")),
    "opacus prv": ("opacus", opacus("prv")),
    "prv-accountant 0.1": ("prv_accountant", prv(0.1)),
}


def installed(package: str) -> bool:
    """Return whether a package can be imported."""
    if package and importlib.util.find_spec(package) is None:
        return False
    try:
        return not package or bool(importlib.import_module(package))
    except ImportError:
        return False


def values(runs: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a row per method: time per value, and excesses."""
    truth = {name: ours("exact")(*_arguments(run)) for name, run in runs.items()}
    rows = []
    for name, (package, epsilon) in METHODS.items():
        row: dict[str, Any] = {"method": name}
        if installed(package):
            row |= _measured(epsilon, runs, truth)
        else:
            row["missing"] = f"{package} is not installed"
        print(row)
        rows.append(row)
    return rows


def _measured(
    epsilon: Epsilon, runs: dict[str, dict[str, Any]], truth: dict[str, float]
) -> dict[str, Any]:
    times, excesses, failed, total = [], [], [], 0.0
    for number, (name, run) in enumerate(runs.items()):
        if total > TOO_LONG and number % 3:
            continue
        arguments = _arguments(run)
        try:
            value = epsilon(*arguments)
            work = partial(epsilon, *arguments)
            times.append(cpu_seconds(work, long_s=LONG))
        except Exception as error:  # each library raises its own; the name is recorded
            failed.append(f"{name}: {type(error).__name__}")
            continue
        total += times[-1]
        excesses.append(value / truth[name] - 1)
    return {
        "settings": len(times),
        "median_ms": 1000 * statistics.median(times),
        "max_ms": 1000 * max(times),
        "median_excess": statistics.median(excesses),
        "min_excess": min(excesses),
        "max_excess": max(excesses),
        "failed": failed,
    }


def _arguments(run: dict[str, Any]) -> tuple[float, float, int, float]:
    return run["q"], run["sigma"], run["steps"], run["delta"]


def questions() -> dict[str, float]:
    """Return the median times of our accountant's queries, in milliseconds."""
    q, sigma, t, delta = MNIST
    target, rate, steps = TARGET
    return {
        f"{name}_ms": 1000 * cpu_seconds(work, long_s=LONG)
        for name, work in {
            "epsilon": lambda: accounting.epsilon(
                sample_rate=q, noise_multiplier=sigma, steps=t, delta=delta
            ),
            "epsilon_curve_of_1000_points": lambda: accounting.epsilon_curve(
                sample_rate=q, noise_multiplier=sigma, delta=delta, steps=CURVE_STEPS
            ),
            "delta": lambda: accounting.delta(
                sample_rate=q, noise_multiplier=sigma, steps=t, epsilon=2.0
            ),
            "noise_multiplier": lambda: accounting.noise_multiplier(
                target_epsilon=target, sample_rate=rate, steps=steps, delta=delta
            ),
            "steps": lambda: accounting.steps(
                target_epsilon=target,
                sample_rate=rate,
                noise_multiplier=2.0,
                delta=delta,
            ),
            "sample_rate": lambda: accounting.sample_rate(
                target_epsilon=target, noise_multiplier=2.0, steps=steps, delta=delta
            ),
        }.items()
    } | {"import_ms": 1000 * import_seconds()}


def import_seconds() -> float:
    """Return the CPU time of importing the package in a new process."""

    def spent(code: str) -> float:
        code += "; import time; print(time.process_time())"
        command = [sys.executable, "-c", code]
        runs = [
            float(subprocess.run(command, capture_output=True, cwd=ROOT).stdout)
            for _ in range(ROUNDS)
        ]
        return statistics.median(runs)

    return spent("import dpsgd_explorer.accounting") - spent("pass")


def main() -> None:
    """Measure, print and write the results."""
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))["settings"]
    runs = {name: run for name, run in golden.items() if run["q"] < 1}
    measured = {"questions": questions(), "values": values(runs)}
    print(json.dumps(measured["questions"], indent=1))
    print(record.write("accounting", measured))

"""Write the tables of docs/explanation/regression.md: measured and golden figures.

Run as ``python -m tools.write_regression_page``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from dpsgd_explorer.accounting import round_up
from dpsgd_explorer.experiments.california_housing import housing
from dpsgd_explorer.regression.bounds import Bounds
from dpsgd_explorer.regression.comparison import Spread
from dpsgd_explorer.regression.noisy_gd import Descent
from dpsgd_explorer.regression.perturbation import METHODS, Perturbation
from dpsgd_explorer.regression.rates import RATES, RELEASED, resolve_rate
from dpsgd_explorer.regression.spending import steps_within
from dpsgd_explorer.regression.statistics import Statistics
from tools.marked_text import write

PAGE = Path(__file__).parents[1] / "docs" / "explanation" / "regression.md"
GOLDEN = Path(__file__).parents[1] / "tests" / "golden" / "regression.json"
DELTA = 1e-6
TARGET = 2.0
RELEASES, DESCENTS = 20_000, 64
NAMES = {"ssp": "SSP", "adassp": "AdaSSP"}
BASELINES = """| method | ours | golden |
|---|---:|---:|
| least squares without privacy | {mse:.10f} | {golden_mse:.10f} |
| always the mean label | {trivial:.10f} | {golden_trivial:.10f} |
"""
OF_STATISTICS = f"""{RELEASES:,} releases; golden: 100,000, and 40,000 for AdaSSP tight.

| ε | method | scale | golden | ε | autodp's ε | notebook | golden | tight | golden |
|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|
"""
DESCENDED = f"""{DESCENTS} descents to ε = {TARGET:g}.

| σ | steps | golden | ε spent | learning rate | value | error | 5 – 95 % | golden |
|---:|---:|---:|---:|---|---:|---:|---:|---:|
"""


def parts() -> dict[str, str]:
    """Return the tables of the page by name, measured."""
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    prepared = housing.NOTEBOOK.apply(*housing.load())
    statistics = Statistics.of(prepared.X, prepared.y)
    baselines = BASELINES.format(
        mse=statistics.mse,
        golden_mse=golden["data"]["mse_nonprivate"],
        trivial=statistics.trivial_mse,
        golden_trivial=golden["data"]["mse_trivial"],
    )
    return {
        "baselines": baselines,
        "released": OF_STATISTICS + "".join(released_rows(statistics, golden)),
        "descended": DESCENDED + "".join(descended_rows(statistics, golden)),
    }


def released_rows(statistics: Statistics, golden: dict[str, Any]) -> Iterator[str]:
    """Yield a row for each ε and method."""
    tight = golden["adassp_variants_median_mse_40k_reps"]
    for text, at in golden["ssp"].items():
        for name in METHODS:
            known = at[NAMES[name]]
            budget = _method(name, "notebook").budget(float(text), DELTA)
            wanted = (
                tight[text]["no_lambda_min_and_half_offdiag"]
                if name == "adassp"
                else known["mse_100k_if_offdiagonal_noise_over_sqrt2"]["median"]
            )
            cells = [
                text,
                NAMES[name],
                f"{budget.noise_multipliers['xtx'] / 2:.9f}",
                f"{known['scale_exact']:.9f}",
                f"{budget.epsilon:.9f}",
                f"{known['eps_at_autodp_scale_exact']:.9f}",
                f"{median(statistics, name, 'notebook', float(text)):.4f}",
                f"{known['mse_100k_default_rng_12345']['median']:.4f}",
                f"{median(statistics, name, 'tight', float(text)):.4f}",
                f"{wanted:.4f}",
            ]
            yield f"| {' | '.join(cells)} |\n"


def descended_rows(statistics: Statistics, golden: dict[str, Any]) -> Iterator[str]:
    """Yield a row for each noise multiplier and learning rate."""
    for noise, key in ((500.0, "large_noise"), (50.0, "small_noise")):
        known = golden["noisygd"][key]
        for rate in RATES:
            descent = _descent(statistics, noise, rate)
            path = descent.run(statistics, np.random.default_rng(0), DESCENTS)
            end = Spread.of(path.mse[-1])
            wanted = known["final_mse"]["median"]
            cells = [
                f"{noise:g}",
                f"{descent.steps:,}",
                "–" if rate == RELEASED else f"{known['niter']:,}",
                round_up(path.epsilon, 6),
                rate,
                f"{np.median(path.learning_rate):.4g}",
                f"{end.median:.4f}",
                f"{end.low:.4f} – {end.high:.4f}",
                f"{wanted:.4f}" if rate == "notebook" else "–",
            ]
            yield f"| {' | '.join(cells)} |\n"


def _descent(statistics: Statistics, noise: float, rate: str) -> Descent:
    steps = steps_within(TARGET, noise, DELTA, rate == RELEASED)
    schedule = (noise, steps)
    return Descent(
        bounds=_bounds(),
        noise_multiplier=noise,
        steps=steps,
        learning_rate=resolve_rate(rate, statistics, _bounds(), schedule, statistics.n),
        delta=DELTA,
    )


def median(statistics: Statistics, name: str, variant: str, epsilon: float) -> float:
    """Return the median error of ``RELEASES`` releases."""
    method = _method(name, variant)
    thetas = method.release(
        statistics,
        method.budget(epsilon, DELTA),
        np.random.default_rng(0),
        RELEASES,
    )
    return float(np.median(statistics.mse_of(thetas)))


def _method(name: str, variant: str) -> Perturbation:
    return Perturbation(method=name, bounds=_bounds(), variant=variant)


def _bounds() -> Bounds:
    return Bounds(housing.NOTEBOOK.x_bound, housing.NOTEBOOK.y_bound)


if __name__ == "__main__":
    write(PAGE, parts())

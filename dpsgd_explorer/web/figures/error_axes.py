"""One description of a chart of errors against ε: axes, baselines, colours and words.

The server's drawings, the report's plotly figures and the script of a run's page all
follow it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from dpsgd_explorer.experiments.california_housing.descents import PreparedHousing
from dpsgd_explorer.web.figures.svg import round_ticks

HEADROOM = 1.12  # the axis of errors ends so far above the largest baseline
FOOTROOM = 0.06  # and begins so much of its length below the least
TICKS = 6
ERROR_NAME = "mean squared error"
# method to colour: the last part of the tokens --series-…, --text-… and --wash-…
COLOURS = {
    "adassp": "private",
    "ssp": "attack",
    "noisy_gd": "good",
    "large_noise": "good",
    "small_noise": "budget",
}
DASHES = {"large_noise": " dashed", "small_noise": " dotted"}


@dataclass(frozen=True)
class Baseline:
    """An error that no ε changes, as a horizontal line with its name."""

    error: float
    words: str
    colour: str
    is_at_end: bool = False


@dataclass(frozen=True)
class ErrorAxes:
    """Axes of a chart of errors against ε.

    Attributes:
        epsilon: Where the axis of ε ends; it begins at 0.
        error: Where the axis of errors begins and ends.
        ticks: Value and text of its ticks.
        baselines: Errors of no privacy and of no model.
    """

    epsilon: float
    error: tuple[float, float]
    ticks: list[tuple[float, str]]
    baselines: list[Baseline]

    @classmethod
    def of(cls, prepared: PreparedHousing, epsilon: float) -> ErrorAxes:
        """Return the axes for releases from housing data within bounds."""
        fit = prepared.evaluation_set.mse
        mean = prepared.evaluation_set.trivial_mse
        bounded = float(prepared.evaluation_set.mse_of(prepared.statistics.theta))
        low, high = min(fit, bounded), max(mean, bounded) * HEADROOM
        error = (low - FOOTROOM * (high - low), high)
        baselines = [
            Baseline(mean, "always the mean", "twin", is_at_end=True),
            Baseline(fit, "without privacy", "twin"),
        ]
        if bounded > fit + 0.01 * (error[1] - error[0]):
            baselines.append(Baseline(bounded, "bounds alone, no noise", "budget"))
        return cls(epsilon, error, round_ticks(error, TICKS), baselines)

    def for_script(self) -> dict[str, Any]:
        """Return the description for the page of a descent."""
        return asdict(self) | {"name": ERROR_NAME, "colour": COLOURS["noisy_gd"]}

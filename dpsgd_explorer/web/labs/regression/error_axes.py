"""Description of a chart of errors against ε: axes, baselines, colours and labels.

The server's charts, the report's plotly figures and the script of a run's page use it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from dpsgd_explorer.experiments.california_housing.descents import PreparedHousing
from dpsgd_explorer.web.figures.svg import round_ticks

HEADROOM = 1.12  # ratio of the upper end of the error axis to the largest baseline
FOOTROOM = 0.06  # share of the axis below the smallest baseline
TICKS = 6
ERROR_NAME = "mean squared error"
# {method: last part of the CSS tokens --series-…, --text-… and --wash-…}
COLOURS = {
    "adassp": "private",
    "ssp": "private",
    "noisy_gd": "good",
    "large_noise": "good",
    "small_noise": "good",
    # The descent at its rate, and at a tenth and ten times it.
    "": "good",
    "÷ 10": "good",
    "× 10": "good",
}
DASHES = {
    "ssp": " dotted",
    "noisy_gd": " dashed",
    "large_noise": " dashed",
    "small_noise": " dotted",
    "÷ 10": " dotted",
    "× 10": " dashed",
}


@dataclass(frozen=True)
class Baseline:
    """A horizontal line for an error that does not depend on ε."""

    error: float
    words: str
    colour: str
    is_at_end: bool = False


@dataclass(frozen=True)
class ErrorAxes:
    """Axes of a chart of errors against ε.

    Attributes:
        epsilon: Upper end of the ε axis, which starts at 0.
        error: Ends of the error axis.
        ticks: Value and text of each tick on the error axis.
        baselines: Errors without privacy and without a model.
    """

    epsilon: float
    error: tuple[float, float]
    ticks: list[tuple[float, str]]
    baselines: list[Baseline]

    @classmethod
    def of(cls, prepared: PreparedHousing, epsilon: float) -> ErrorAxes:
        """Returns the axes for releases from housing data with bounded records."""
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
            baselines.append(Baseline(bounded, "bounds alone, no noise", "twin"))
        return cls(epsilon, error, round_ticks(error, TICKS), baselines)

    def for_script(self) -> dict[str, Any]:
        """Returns the description as JSON for the script of a descent's page."""
        return asdict(self) | {"name": ERROR_NAME, "colour": COLOURS["noisy_gd"]}

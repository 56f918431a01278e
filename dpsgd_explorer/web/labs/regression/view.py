"""View of runs of kind "regression": lists, page and report."""

from __future__ import annotations

import math
from typing import Any

from dpsgd_explorer.experiments.events import NOT_PRIVATE
from dpsgd_explorer.experiments.regression_config import SPEND, RegressionConfig
from dpsgd_explorer.experiments.vocabulary import RELATIONS
from dpsgd_explorer.web.figures.exports.report_chart import PRINTED
from dpsgd_explorer.web.forms.fields import text_of
from dpsgd_explorer.web.labs.regression.error_axes import (
    COLOURS,
    ERROR_NAME,
    Baseline,
    ErrorAxes,
)
from dpsgd_explorer.web.labs.regression.results import mse
from dpsgd_explorer.web.questions.epsilon_axis import decimals_of
from dpsgd_explorer.web.questions.privacy import PrivacyTerms
from dpsgd_explorer.web.questions.rounding import limit
from dpsgd_explorer.web.run_views.base import (
    Points,
    RunView,
    Section,
    Settings,
    Summary,
    chart,
)


def status(learning_rate: float | str) -> str:
    """Returns the status of a run's ε; a learning rate from the data voids it."""
    return NOT_PRIVATE if learning_rate == "notebook" else "exact"


def lab_query(config: RegressionConfig) -> dict[str, str]:
    """Returns the lab's query for the descent of a run."""
    query = config.model_dump(
        exclude={"kind", "repetitions", "evaluations"}, exclude_none=True
    )
    [solved] = (name for name in SPEND if name not in query)
    if isinstance(config.learning_rate, str):
        query["rate"] = query.pop("learning_rate")
    return {name: text_of(value) for name, value in query.items()} | {"solve": solved}


def _band(points: Points, colour: str) -> list[dict[str, Any]]:
    """Returns the edges of the band, with the area between them filled."""
    edge = {"type": "scatter", "mode": "lines", "line": {"width": 0}}
    x = [point["epsilon"] for point in points]
    low, high = ([point[name] for point in points] for name in ("mse_low", "mse_high"))
    filled = {"fill": "tonexty", "fillcolor": f"{colour}26"}
    shared = edge | {"x": x, "hoverinfo": "skip", "showlegend": False}
    return [shared | {"y": low}, shared | {"y": high} | filled]


def _baseline(line: Baseline) -> dict[str, Any]:
    """Returns a baseline with its label as a shape of plotly's layout."""
    return {
        "type": "line",
        "xref": "paper",
        "x0": 0,
        "x1": 1,
        "y0": line.error,
        "y1": line.error,
        "line": {"color": PRINTED[line.colour], "width": 1.25, "dash": "dash"},
        "label": {
            "text": line.words,
            "textposition": "end" if line.is_at_end else "start",
        },
    }


class RegressionView(RunView):
    """View of runs of kind "regression"."""

    template = "runs/regression.html"
    config = RegressionConfig
    claims = None
    diagnostics = ("diverged", "theta_norm", "noise_std")
    columns = (
        ("mse_median", "MSE, median", "{:.4f}"),
        ("mse_low", "5 %", "{:.4f}"),
        ("mse_high", "95 %", "{:.4f}"),
    )
    titled = frozenset({"kind", "steps", "noise_multiplier", "target_epsilon"})

    def title(self, config: Settings) -> str:
        regression = RegressionConfig.parse(config)
        noise, steps = regression.schedule
        return f"Noisy descent, {steps:,} steps, σ = {text_of(float(f'{noise:.4g}'))}"

    def subject(self, _config: Settings) -> str:
        return "Linear regression by noisy gradient descent on California housing"

    def result(self, summary: Summary) -> str:
        if "mse_median" not in summary:
            return ""
        median = summary["mse_median"]
        return f"MSE {mse(math.inf if median is None else median)}"

    def terms(self, config: Settings) -> PrivacyTerms:
        """Returns the terms of its ε; all steps together form one Gaussian."""
        return PrivacyTerms(
            delta=config["delta"],
            neighboring_relation=config["neighboring_relation"],
            sampling="none",
            accountant="gaussian",
            status=status(config["learning_rate"]),
        )

    def page(self, config: RegressionConfig) -> dict[str, Any]:
        epsilon_status = status(config.learning_rate)
        return {
            "query": lab_query(config),
            "delta": text_of(config.delta),
            "relation": RELATIONS[config.neighboring_relation],
            "truth": (epsilon_status.replace(" ", "-"), epsilon_status, "private"),
        }

    def page_data(self, config: RegressionConfig) -> dict[str, Any]:
        noise, steps = config.schedule
        evaluation_set = config.prepared_housing.evaluation_set
        return {
            "plan": {
                "private": True,
                "running": self.kind.running,
                "status": status(config.learning_rate),
                "steps": steps,
                "last_step": steps,
                "delta": config.delta,
                "noise_multiplier": noise,
                "epsilon": config.epsilon,
                "epsilon_text": limit(config.epsilon),
                "digits": decimals_of(config.epsilon),
                "first_epsilon": config.spent(1),
                "relation": RELATIONS[config.neighboring_relation],
                "repetitions": config.repetitions,
                "axes": ErrorAxes.of(
                    config.prepared_housing, config.epsilon
                ).for_script(),
                "nonprivate_mse": evaluation_set.mse,
                "trivial_mse": evaluation_set.trivial_mse,
            }
        }

    def sections(
        self, config: RegressionConfig, _steps: Points, evaluations: Points
    ) -> list[Section]:
        axes = ErrorAxes.of(config.prepared_housing, config.epsilon)
        colour = COLOURS["noisy_gd"]
        figure = chart(
            x=[point["epsilon"] for point in evaluations],
            y=[point["mse_median"] for point in evaluations],
            x_title="ε spent",
            y_title=f"{ERROR_NAME}, median",
            colour=colour,
        )
        figure["data"] = [*_band(evaluations, PRINTED[colour]), *figure["data"]]
        figure["layout"]["yaxis"] |= {"range": axes.error}
        figure["layout"]["shapes"] = [_baseline(line) for line in axes.baselines]
        note = "Median and 5 to 95 % band of the repetitions, computed from the data."
        return [Section("Error as the budget is spent", note, figure)]


VIEW = RegressionView()

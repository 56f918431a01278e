"""All charts of a run's panel, shown before its script runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.web.charts.run_charts import RUN_CHARTS
from dpsgd_explorer.web.figures.run_charts.accuracy import Line, accuracy_svg
from dpsgd_explorer.web.figures.run_charts.diagnostics import norms_svg, series_svg

Data = dict[str, Any]


def standing(
    config: TrainingConfig,
    plan: Data | None,
    lines: Sequence[Line],
    *,
    steps: Sequence[Data] = (),
    edges: Sequence[float] = (),
) -> dict[str, Markup]:
    """Returns the charts of settings or of a run, by name; {} without a plan.

    Args:
        config: The settings.
        plan: Answer of /api/v1/privacy/plan for the settings, with the curve of ε.
        lines: Evaluations to draw.
        steps: Data of the run's step events.
        edges: Edges of the bins of gradient norms, () before the run logs them.
    """
    if plan is None:
        return {}
    logged = next((line.evaluations for line in lines if line.is_run), ())
    events = {"step": steps, "evaluation": logged}
    return {
        "accuracy": accuracy_svg(config, plan, lines),
        "norms": norms_svg(config, edges, steps),
        **{chart.name: series_svg(chart, plan, events) for chart in RUN_CHARTS},
    }

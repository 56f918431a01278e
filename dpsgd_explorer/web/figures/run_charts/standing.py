"""All charts of a panel before its script."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.web.figures.run_charts.accuracy import Line, accuracy_svg
from dpsgd_explorer.web.figures.run_charts.diagnostics import norms_svg, series_svg
from dpsgd_explorer.web.questions.run_charts import RUN_CHARTS

Data = dict[str, Any]


def standing(
    config: TrainingConfig,
    plan: Data | None,
    lines: Sequence[Line],
    *,
    steps: Sequence[Data] = (),
    edges: Sequence[float] = (),
) -> dict[str, Markup]:
    """Return the charts of a set-up or of a run, by name; none without a plan.

    Args:
        config: The settings.
        plan: What /api/v1/privacy/plan answers for them, with the curve of ε.
        lines: Evaluations to draw.
        steps: Data of the run's step events.
        edges: Edges of the bins of gradient norms, once the run says them.
    """
    if plan is None:
        return {}
    own = next((line.evaluations for line in lines if line.is_run), ())
    events = {"step": steps, "evaluation": own}
    return {
        "accuracy": accuracy_svg(config, plan, lines),
        "norms": norms_svg(config, edges, steps),
        **{chart.name: series_svg(chart, plan, events) for chart in RUN_CHARTS},
    }

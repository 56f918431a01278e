"""All charts of a panel as they stand before its script."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.web.figures.run_charts.accuracy import Line, accuracy_svg
from dpsgd_explorer.web.figures.run_charts.diagnostics import loss_svg, norms_svg

Data = dict[str, Any]
WIDE, NARROW, SIDE = (518, 310), (358, 310), (248, 186)  # of the boxes, px


@dataclass(frozen=True)
class Standing:
    """One chart, drawn for wide pages and for a telephone."""

    wide: Markup
    narrow: Markup


def standing(
    config: TrainingConfig,
    plan: Data | None,
    lines: Sequence[Line],
    *,
    steps: Sequence[Data] = (),
    edges: Sequence[float] = (),
) -> dict[str, Standing]:
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
    return {
        "accuracy": Standing(
            accuracy_svg(config, plan, lines, WIDE),
            accuracy_svg(config, plan, lines, NARROW),
        ),
        "norms": Standing(
            norms_svg(config, edges, steps, SIDE),
            norms_svg(config, edges, steps, NARROW),
        ),
        "loss": Standing(
            loss_svg(config, plan, steps, own, SIDE),
            loss_svg(config, plan, steps, own, NARROW),
        ),
    }

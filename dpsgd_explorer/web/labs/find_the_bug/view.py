"""View of runs of kind "planted_bug": lists, page and report."""

from __future__ import annotations

from typing import Any

from dpsgd_explorer.experiments.kinds import KINDS
from dpsgd_explorer.experiments.planted_bug_config import PlantedBugConfig
from dpsgd_explorer.web.figures.exports.report_chart import PRINTED
from dpsgd_explorer.web.labs.find_the_bug.exhibits import checks, exhibits, promise
from dpsgd_explorer.web.questions.rounding import limit, proven
from dpsgd_explorer.web.run_views.base import (
    Points,
    RunView,
    Section,
    Settings,
    Summary,
    chart,
)


def plan_of(config: PlantedBugConfig) -> dict[str, Any]:
    """Returns the declared ε of the loop, and its texts for the page."""
    exhibit = exhibits()[config.loop]
    return {
        "private": False,
        "running": KINDS[config.kind].running,
        "steps": config.planned_steps,
        "last_step": config.planned_steps,
        "promise": promise(),
        "checks": checks(),
        "why": exhibit.why,
    }


class PlantedBugView(RunView):
    """View of runs of kind "planted_bug"."""

    template = "runs/planted_bug.html"
    config = PlantedBugConfig
    claims = None
    columns = (
        ("epsilon_lower", "proven ε, at least", "{}"),
        ("epsilon_promised", "promised ε", "{}"),
    )
    more = ("epsilon_lower", "epsilon_promised")
    missing = "–"
    titled = frozenset({"kind", "loop"})

    def title(self, config: Settings) -> str:
        return f"Loop audited: {exhibits()[config['loop']].title}"

    def subject(self, config: Settings) -> str:
        return f"The audit of a training loop: {exhibits()[config['loop']].title}"

    def result(self, summary: Summary) -> str:
        """Returns the proven and the declared ε."""
        lower, promised = (
            summary.get(name) for name in ("epsilon_lower", "epsilon_promised")
        )
        if lower is None or promised is None:
            return ""
        return f"ε ≥ {proven(lower)} of {limit(promised)}"

    def page(self, config: PlantedBugConfig) -> dict[str, Any]:
        """Returns the variables of the template."""
        return {"exhibit": exhibits()[config.loop], "terms": promise()}

    def page_data(self, config: PlantedBugConfig) -> dict[str, Any]:
        """Returns the data of the chart before the first bound."""
        return {"plan": plan_of(config)}

    def sections(
        self, _config: PlantedBugConfig, _steps: Points, evaluations: Points
    ) -> list[Section]:
        """Returns the chart of the ε that the canaries prove, with the declared ε."""
        figure = chart(
            x=[point["step"] for point in evaluations],
            y=[point["epsilon_lower"] for point in evaluations],
            x_title="step",
            y_title="ε",
            colour="attack",
        )
        promised = [point["epsilon_promised"] for point in evaluations]
        line = {"color": PRINTED["budget"]}
        shared = {"type": "scatter", "mode": "lines", "line": line}
        steps = [point["step"] for point in evaluations]
        figure["data"].append(shared | {"x": steps, "y": promised})
        return [
            Section(
                "Bound that the canaries prove",
                "Lower bound on ε at 95 %, and the ε that the loop promises.",
                figure,
            )
        ]


VIEW = PlantedBugView()

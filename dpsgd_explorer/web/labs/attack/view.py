"""View of runs of kind "attack": lists, page and report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from markupsafe import Markup

from dpsgd_explorer.experiments.attack_config import DELTA, POOL, AttackConfig
from dpsgd_explorer.experiments.kinds import KINDS
from dpsgd_explorer.web.figures.exports.report_chart import PRINTED
from dpsgd_explorer.web.figures.svg import Picture
from dpsgd_explorer.web.forms.form import to_query
from dpsgd_explorer.web.labs.attack.grey_picture import grey_picture
from dpsgd_explorer.web.labs.attack.record_figure import record_name, record_picture
from dpsgd_explorer.web.labs.attack.roc_figure import (
    ATTACKS,
    HEADLINE,
    TARGETS,
    roc_picture,
)
from dpsgd_explorer.web.questions.privacy import PrivacyTerms
from dpsgd_explorer.web.questions.rounding import limit, nearest, percent
from dpsgd_explorer.web.run_views.base import (
    Points,
    RunView,
    Section,
    Settings,
    Summary,
)


@dataclass(frozen=True)
class ScoredRecord:
    """The visitor's record with its scores in each attack.

    Attributes:
        name: Number, label, planted label and membership of the record.
        picture: The record, if it is an image.
        scores: Rows with the attack and, for the ordinary and the private model, the
            score and the share of non-members with at least this score.
    """

    name: str
    picture: Markup | None
    scores: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, record: Settings, evaluations: Points) -> Self:
        """Returns the record of a ``phase`` event with the scores of its attacks."""
        scored = {(e["target"], e["attack"]): e["record"] for e in evaluations}
        was = "was in" if record["joined"] else "was not in"
        name, rows = record_name(record), record.get("picture")
        return cls(
            name=f"{name} {was}",
            picture=grey_picture(rows, name) if rows else None,
            scores=tuple(
                (
                    label,
                    *(
                        text
                        for target in TARGETS
                        for text in (
                            nearest(scored[target, attack]["score"]),
                            f"{percent(scored[target, attack]['reached_by'], 0)} %",
                        )
                    ),
                )
                for attack, label in ATTACKS.items()
            ),
        )


@dataclass(frozen=True)
class AttackResults:
    """Results of an attack, for the lab and for the page of a run.

    Attributes:
        roc: ROC curves of all attacks, with the limit.
        record: Figure of the visitor's record.
        scored: The visitor's record with its scores.
        numbers: Names and values of the key numbers.
    """

    roc: Picture
    record: Picture
    scored: ScoredRecord
    numbers: tuple[tuple[str, str], ...]

    def measured(self) -> Self:
        """Returns the results with figures marked as a visitor's run."""
        return replace(
            self,
            roc=replace(self.roc, kind="measured"),
            record=replace(self.record, kind="measured"),
        )


def results_of(read: Callable[[str], Points]) -> AttackResults | None:
    """Returns the results of an ended run, None before its end.

    Args:
        read: Returns the data of all events of a kind, in order.
    """
    ends, phases, evaluations = (read(kind) for kind in ("end", "phase", "evaluation"))
    if not ends:
        return None
    phase, end = phases[0], ends[0]
    epsilon = limit(end["epsilon"])
    accuracy = {
        step["diagnostics"]["private"]: step["diagnostics"]["test_accuracy"]
        for step in read("step")
        if step["diagnostics"]["shadow"] == 0
    }
    return AttackResults(
        roc=roc_picture(phase, evaluations, end["epsilon"], end["delta"]),
        record=record_picture(phase, evaluations, end),
        scored=ScoredRecord.of(phase["record"], evaluations),
        numbers=(
            (f"ε of the private model, δ = {_exponential(end['delta'])}", epsilon),
            ("Noise multiplier σ", nearest(phase["noise_multiplier"])),
            ("Test accuracy, private", f"{percent(accuracy[True])} %"),
            ("Test accuracy, ordinary", f"{percent(accuracy[False])} %"),
        ),
    )


def _exponential(delta: float) -> str:
    """Returns a power of ten such as 1e-4, for the status bar."""
    return f"{delta:.0e}".replace("e-0", "e-")


def plan_of(config: AttackConfig) -> dict[str, Any]:
    """Returns the data of the status bar before the first event."""
    return {
        "private": True,
        "delta": config.delta,
        "running": KINDS[config.kind].running,
        "unit": "training",
        "steps": config.planned_steps,
        "last_step": config.planned_steps,
        "budget": config.target_epsilon,
        "budget_text": limit(config.target_epsilon),
    }


class AttackView(RunView):
    """View of runs of kind "attack"."""

    template = "runs/attack.html"
    config = AttackConfig
    claims = None
    diagnostics = ("shadow", "private", "test_accuracy")
    columns = (
        ("target", "model", "{}"),
        ("attack", "attack", "{}"),
        ("area", "area below the curve", "{:.3f}"),
        ("above", "thresholds above the ceiling", "{}"),
        ("beyond", "of these not by chance", "{}"),
    )
    more = ("target", "attack", "area", "above", "beyond")
    missing = "–"
    titled = frozenset({"kind", "dataset", "target_epsilon"})

    def title(self, config: Settings) -> str:
        label = AttackConfig.parse(config).data_set.label
        return f"Attack, {label}, ε = {config['target_epsilon']:g}"

    def subject(self, config: Settings) -> str:
        label = AttackConfig.parse(config).data_set.label
        return f"Attack on membership in {POOL} records of {label}"

    def result(self, summary: Summary) -> str:
        """Returns the AUC of the attack on the private model."""
        area = summary.get("area")
        return "" if area is None else f"area {area:.2f}"

    def terms(self, config: Settings) -> PrivacyTerms:
        """Returns the terms of the ε of the private target."""
        return PrivacyTerms.of("exact", config.get("delta", DELTA))

    def page(self, config: AttackConfig) -> dict[str, Any]:
        """Returns the lab's address with these settings."""
        return {"query": to_query(config), "truth": ("exact", "exact")}

    def page_data(self, config: AttackConfig) -> dict[str, Any]:
        """Returns the data of the status bar before the first event."""
        return {"plan": plan_of(config)}

    def standing(
        self, _config: AttackConfig, read: Callable[[str], Points]
    ) -> dict[str, Any]:
        """Returns the results of an ended run."""
        results = results_of(read)
        return {"results": results.measured() if results else None}

    def sections(
        self, _config: AttackConfig, _steps: Points, evaluations: Points
    ) -> list[Section]:
        """Returns the ROC curve of the likelihood ratio attack on each model."""
        return [
            Section(
                f"True against false positives, {name}",
                "Likelihood ratio with its 95 % interval. Scores come from the records "
                "themselves: not private.",
                _curve(evaluations, target),
            )
            for target, name in TARGETS.items()
        ]


VIEW = AttackView()


def _curve(evaluations: Sequence[dict[str, Any]], target: str) -> dict[str, Any]:
    points = [
        point
        for evaluation in evaluations
        if (evaluation["target"], evaluation["attack"]) == (target, HEADLINE)
        for point in evaluation["points"]
    ]
    line = {"type": "scatter", "mode": "lines", "line": {"color": PRINTED["private"]}}
    axis = {"gridcolor": "#d9dee3", "zeroline": False, "range": [0, 1]}
    return {
        "data": [
            line
            | {
                "name": name,
                "x": [point["false_positive_rate"] for point in points],
                "y": [point[name] for point in points],
            }
            for name in ("low", "high", "true_positive_rate")
        ],
        "layout": {
            "xaxis": axis | {"title": {"text": "false positive rate"}},
            "yaxis": axis | {"title": {"text": "true positive rate"}},
            "margin": {"l": 70, "r": 20, "t": 20, "b": 60},
            "plot_bgcolor": "white",
        },
    }

"""Runs of kind "training" as they are listed, shown and reported."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Self

from dpsgd_explorer.accounting.spending import FILTER
from dpsgd_explorer.experiments.catalogue import MODELS
from dpsgd_explorer.experiments.events import NOT_PRIVATE
from dpsgd_explorer.experiments.own_table import label_of
from dpsgd_explorer.experiments.presets import PRESETS
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.runs.store.records import Run
from dpsgd_explorer.web.figures.run_charts.accuracy import Line, epsilon_axis
from dpsgd_explorer.web.figures.run_charts.standing import Standing, standing
from dpsgd_explorer.web.forms.fields import text_of
from dpsgd_explorer.web.forms.form import to_query
from dpsgd_explorer.web.questions.plan_preview import (
    VIEWS,
    catalogue_with,
    plan_of,
    plan_texts,
    truth_of,
)
from dpsgd_explorer.web.questions.privacy import PrivacyTerms
from dpsgd_explorer.web.questions.rounding import limit, percent, proven, whole
from dpsgd_explorer.web.run_views.base import (
    PRINTED,
    Points,
    RunView,
    Section,
    Settings,
    Summary,
    chart,
)


@cache
def preset_settings() -> list[Settings]:
    """Return the whole configuration of each preset, the defaults first."""
    configs = [{}, *(preset.config for preset in PRESETS)]
    return [TrainingConfig.parse(config).model_dump(mode="json") for config in configs]


def accuracy_figure(
    points: Points, budget: float | None = None, axis: str = "ε spent"
) -> dict[str, Any]:
    """Return test accuracy against epsilon; against steps without a guarantee.

    Args:
        points: The evaluations of a run.
        budget: What the run may spend; a wall stands there.
        axis: What the ε of its evaluations is.
    """
    private = all(point["epsilon"] is not None for point in points)
    name, words = ("epsilon", axis) if private else ("step", "step")
    figure = chart(
        x=[point[name] for point in points],
        y=[round(100 * point["test_accuracy"], 4) for point in points],
        x_title=words,
        y_title="test accuracy, %",
    )
    if private and budget is not None:
        figure["layout"]["shapes"] = [
            {
                "type": "line",
                "yref": "paper",
                "x0": budget,
                "x1": budget,
                "y0": 0,
                "y1": 1,
                "line": {"color": PRINTED["budget"], "width": 2.25},
                "label": {"text": f"budget ε = {limit(budget)}"},
            }
        ]
    return figure


def _privacy_in_short(config: Settings) -> str:
    if not config["private"]:
        return "without privacy"
    if config["target_epsilon"] is not None:
        return f"ε = {text_of(config['target_epsilon'])}"
    return f"σ = {text_of(config['noise_multiplier'])}"


CHANGING = ("linear", "cosine", "exponential")
# Settings that only have an effect where another one has one of these values.
READ_WITH = {
    "noise_end": ("noise_schedule", CHANGING),
    "clipping_end": ("clipping_schedule", CHANGING),
    "target_quantile": ("clipping_schedule", ("adaptive",)),
    "bound_rate": ("clipping_schedule", ("adaptive",)),
    "learning_rate_end": ("learning_rate_schedule", CHANGING),
}
#: Method of an audit that assumes nothing of the scores, as results name it.
ASSUMES_NOTHING = "one run"
OWN_TEST = "Computed on rows of one’s own table and outside the guarantee: not private."


class TrainingView(RunView):
    """Runs of kind "training"."""

    template = "runs/training.html"
    config: type[TrainingConfig] = TrainingConfig
    diagnostics: ClassVar[tuple[str, ...]] = (
        "loss",
        "clipped_fraction",
        "noise_to_signal",
        "batch_size",
        "non_finite",
    )
    columns: tuple[tuple[str, str, str], ...] = (
        ("test_accuracy", "test accuracy", "{:.2%}"),
        ("test_loss", "test loss", "{:.4f}"),
    )

    titled = frozenset(
        {
            "kind",
            "dataset",
            "model",
            "private",
            "target_epsilon",
            "noise_multiplier",
            "evaluations",
        }
    )

    def title(self, config: Settings) -> str:
        """Return what it trains on, with a model that is unusual there, and its ε."""
        parts = [label_of(config)]
        usual = next(
            (s["model"] for s in self.starts if s["dataset"] == config["dataset"]), ""
        )
        if config["model"] != usual:
            label = MODELS[config["model"]].label.partition(" (")[0]
            parts.append(label[:1].lower() + label[1:])
        return ", ".join([*parts, _privacy_in_short(config)])

    @property
    def starts(self) -> list[Settings]:
        """The presets, the defaults among them."""
        return preset_settings()

    def counts(self, name: str, config: Settings) -> bool:
        """Return whether it has an effect: those of privacy need privacy."""
        if not config["private"] and self.fields[name].private_only:
            return False
        if name == "accountant" and config.get("filter_epsilon") is not None:
            return False  # a filter counts instead
        schedule, shapes = READ_WITH.get(name, ("", ()))
        return not schedule or config.get(schedule) in shapes

    def subject(self, config: Settings) -> str:
        """Return what is trained on what."""
        return f"{MODELS[config['model']].label} on {label_of(config)}"

    def result(self, summary: Summary) -> str:
        """Return the test accuracy in percent."""
        accuracy = summary.get("test_accuracy")
        return "" if accuracy is None else f"{100 * accuracy:.1f} %"

    def terms(self, config: Settings) -> PrivacyTerms:
        """Return what its accountant's answers are to be read with."""
        noisy = config["private"] and config["noise_multiplier"] != 0
        status = "" if noisy else NOT_PRIVATE
        if noisy and config.get("filter_epsilon") is not None:
            return PrivacyTerms.of_counter(FILTER, config["delta"])
        return PrivacyTerms.of(config["accountant"], config["delta"], status=status)

    def page(self, config: TrainingConfig) -> dict[str, Any]:
        """Return what the page says of the plan."""
        plan = plan_of(config)
        return {
            "query": to_query(config),
            "plan": plan_texts(plan),
            "truth": truth_of(plan),
            "views": VIEWS,
        }

    def standing(
        self, config: TrainingConfig, read: Callable[[str], Points]
    ) -> dict[str, Standing]:
        """Return accuracy, gradient norms and losses as far as they were logged."""
        css = "s-private" if config.plan.is_private else "s-twin dashed"
        words = "private" if config.plan.is_private else "without privacy"
        line = Line(read("evaluation"), words, css, is_run=True)
        edges = next((p.get("norm_edges") for p in reversed(read("phase"))), None) or []
        return standing(
            config, plan_of(config), [line], steps=read("step"), edges=edges
        )

    def page_data(self, config: TrainingConfig) -> dict[str, Any]:
        """Return what the charts need."""
        tables = [] if config.table is None else [config.table]
        return {"plan": plan_of(config), "catalogue": catalogue_with(tables)}

    def sections(
        self, config: TrainingConfig, steps: Points, evaluations: Points
    ) -> list[Section]:
        """Return accuracy against what was spent, and the loss along the steps."""
        note = "" if config.table is None else OWN_TEST
        return [
            Section(
                "Test accuracy",
                note,
                accuracy_figure(evaluations, config.wall, epsilon_axis(config)),
            ),
            Section(
                "Training loss",
                "Computed on the training records and outside the guarantee.",
                chart(
                    x=[point["step"] for point in steps],
                    y=[point["diagnostics"]["loss"] for point in steps],
                    x_title="step",
                    y_title="training loss (not private)",
                ),
            ),
        ]


@dataclass(frozen=True, kw_only=True)
class AuditWords:
    """The audit of one run, its numbers as printed.

    Attributes:
        lower: Proven ε, rounded down; "" if nothing is proven.
        promised: ε of the run, rounded up.
        counted: ε of the exact accountant for the canaries' steps, rounded up.
        steps: Steps that the canaries went through.
        is_whole: Whether these are all steps of the run.
        unscored: Which steps they did not go through, and why; "" where the run was
            recorded before canaries went on after a change of plan.
        canaries: How many there were.
        confidence: In percent.
        exceeds: Whether more is proven than was promised.
        assumption_free: Proven ε by the bound that assumes nothing of the scores.
    """

    lower: str
    promised: str
    counted: str
    steps: str
    is_whole: bool
    unscored: str
    canaries: str
    confidence: str
    exceeds: bool
    assumption_free: str

    @classmethod
    def of(cls, run: Run) -> Self | None:
        """Return the words of a run that has an audit; None without one."""
        audit: Mapping[str, Any] | None = run.summary.get("audit")
        if audit is None:
            return None
        lower = proven(audit["epsilon_lower"])
        return cls(
            lower=lower if float(lower) else "",
            promised=limit(run.summary["epsilon"]),
            counted=limit(audit["epsilon_promised"]),
            steps=whole(audit["steps"]),
            is_whole=audit["steps"] == run.summary["steps"],
            unscored=", ".join(
                f"{whole(part['steps'])} steps {part['reason']}"
                for part in audit.get("unscored", ())
            ),
            canaries=whole(audit["canaries"]),
            confidence=percent(audit["confidence"], 0),
            exceeds=audit["epsilon_lower"] > audit["epsilon_promised"],
            assumption_free=proven(audit["others"].get(ASSUMES_NOTHING, 0.0)),
        )

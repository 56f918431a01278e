"""View of runs of kind "training": lists, page and report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, ClassVar

from markupsafe import Markup

from dpsgd_explorer.accounting.sampling_schemes import POISSON
from dpsgd_explorer.accounting.spending import FILTER
from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.experiments.accountant_words import CYCLIC_POISSON
from dpsgd_explorer.experiments.attack_config import AttackConfig
from dpsgd_explorer.experiments.catalogue import MODELS
from dpsgd_explorer.experiments.events import NOT_PRIVATE, changes_of
from dpsgd_explorer.experiments.own_table import is_own, label_of
from dpsgd_explorer.experiments.presets import PRESETS
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.runs.store.records import Run
from dpsgd_explorer.web.charts.run_charts import RUN_CHARTS, RunChart
from dpsgd_explorer.web.figures.exports.report_chart import PRINTED
from dpsgd_explorer.web.figures.exports.share_card import Card
from dpsgd_explorer.web.figures.run_charts.accuracy import Line, epsilon_axis
from dpsgd_explorer.web.figures.run_charts.standing import standing
from dpsgd_explorer.web.forms.fields import text_of
from dpsgd_explorer.web.forms.form import to_query
from dpsgd_explorer.web.questions.looked_at import LookedAt
from dpsgd_explorer.web.questions.odds import Limits
from dpsgd_explorer.web.questions.plan_preview import (
    VIEWS,
    catalogue_with,
    plan_of,
    plan_texts,
    truth_of,
)
from dpsgd_explorer.web.questions.privacy import Epsilon, PrivacyTerms
from dpsgd_explorer.web.questions.rounding import limit, percent
from dpsgd_explorer.web.run_views.audit_words import AuditWords
from dpsgd_explorer.web.run_views.base import (
    Claims,
    Points,
    RunView,
    Section,
    Settings,
    Summary,
    chart,
)
from dpsgd_explorer.web.run_views.statement import sources, statement, steps_done


@cache
def preset_settings() -> list[Settings]:
    """Returns the full configuration of each preset, the defaults first."""
    configs = [{}, *(preset.config for preset in PRESETS)]
    return [TrainingConfig.parse(config).model_dump(mode="json") for config in configs]


def accuracy_figure(
    points: Points, budget: float | None = None, axis: str = "ε spent"
) -> dict[str, Any]:
    """Returns a figure of test accuracy by ε, or by step without a guarantee.

    Args:
        points: Evaluations of a run.
        budget: ε at which a wall is drawn, None for no wall.
        axis: Label of the ε axis.
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
# Settings that have an effect only for some values of another setting.
READ_WITH = {
    "noise_end": ("noise_schedule", CHANGING),
    "clipping_end": ("clipping_schedule", CHANGING),
    "target_quantile": ("clipping_schedule", ("adaptive",)),
    "bound_rate": ("clipping_schedule", ("adaptive",)),
    "learning_rate_end": ("learning_rate_schedule", CHANGING),
}
OWN_TEST = "Computed on rows of one’s own table and outside the guarantee: not private."


class TrainingClaims(Claims):
    """Claims about a training run."""

    def statement(self, run: Run, spent: Epsilon | None, phases: Points) -> str:
        return statement(run, spent, phases)

    def sources(self, run: Run, spent: Epsilon | None) -> list[str]:
        return sources(run, spent)

    def has_card(self, run: Run) -> bool:
        """Returns whether the run has ended."""
        return run.has_ended and bool(run.summary)

    def card(
        self,
        run: Run,
        spent: Epsilon,
        title: str,
        evaluations: Iterable[dict[str, Any]],
        phases: Points,
    ) -> Card:
        """Returns a picture of its accuracy and of the limits on attackers."""
        config = TrainingConfig.parse(run.config)
        is_private = spent.epsilon is not None
        axis = "epsilon" if is_private else "step"
        points = [
            (point[axis], point["test_accuracy"])
            for point in evaluations
            if point[axis] is not None
        ]
        accuracy = run.summary.get("test_accuracy")
        budget = config.wall or spent.epsilon
        return Card(
            title=title,
            accuracy="" if accuracy is None else f"{percent(accuracy)} %",
            epsilon=spent.epsilon_text,
            spent=spent.epsilon,
            delta=spent.delta,
            status=spent.status,
            points=points,
            budget=budget if is_private else None,
            is_own=is_own(config.dataset),
            axis=epsilon_axis(config),
            choice="chosen while looking" if changes_of(phases) else "",
            audit=_audited(run),
            limits=_limits(run, config, spent, phases),
        )

    def looked_at(self, run: Run, phases: Points) -> LookedAt:
        """Returns its steps, and whether its own audit refuted them."""
        run_looked_at = LookedAt.of(
            run.config, phases, run.step, run_id=run.id, parent=run.parent
        )
        return run_looked_at.refuted() if run.is_refuted else run_looked_at


def _limits(
    run: Run,
    config: TrainingConfig,
    spent: Epsilon,
    phases: Sequence[Mapping[str, Any]],
) -> str:
    """Returns both limits on attackers as text; "" without them.

    There are no limits without noise, or with a budget for changes: if a visitor chose
    steps after looking at earlier ones, the trade-off curve of the run does not apply.
    """
    if spent.epsilon is None or config.is_filtered:
        return ""
    steps_taken = steps_done(run, config, phases)
    return str(Limits.of(steps_taken, spent.epsilon, spent.delta))


def _audited(run: Run) -> str:
    """Returns a line on what a run's own audit proves; "" if nothing."""
    audit = AuditWords.of(run)
    if audit is None or not audit.lower:
        return ""
    return f"its own audit proves ε ≥ {audit.lower}, at {audit.confidence} % confidence"


def _sampling_law(config: Settings) -> str:
    """Returns the sampling of a private run from stored settings, also of old runs."""
    if config.get("noise_bands", 1) > 1:
        return CYCLIC_POISSON
    return str(config.get("sampling", POISSON))


class TrainingView(RunView):
    """View of runs of kind "training"."""

    template = "runs/training.html"
    config: type[TrainingConfig] = TrainingConfig
    claims: Claims = TrainingClaims()
    diagnostics: ClassVar[tuple[str, ...]] = (
        "loss",
        "clipped_fraction",
        "noise_to_signal",
        "batch_size",
        "non_finite",
    )
    has_receipt = True
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
        """Returns its data set, its model if it is not the default, and its ε."""
        parts = [label_of(config)]
        default_model = next(
            (s["model"] for s in self.starts if s["dataset"] == config["dataset"]), ""
        )
        if config["model"] != default_model:
            label = MODELS[config["model"]].label.partition(" (")[0]
            parts.append(label[:1].lower() + label[1:])
        return ", ".join([*parts, _privacy_in_short(config)])

    @property
    def starts(self) -> list[Settings]:
        return preset_settings()

    def counts(self, name: str, config: Settings) -> bool:
        """Returns whether a setting has an effect; privacy settings need privacy."""
        if not config["private"] and self.fields[name].private_only:
            return False
        if name == "accountant" and config.get("filter_epsilon") is not None:
            return False  # the filter counts instead
        schedule, shapes = READ_WITH.get(name, ("", ()))
        return not schedule or config.get(schedule) in shapes

    def subject(self, config: Settings) -> str:
        return f"{MODELS[config['model']].label} on {label_of(config)}"

    def result(self, summary: Summary) -> str:
        """Returns the test accuracy in percent."""
        accuracy = summary.get("test_accuracy")
        return "" if accuracy is None else f"{100 * accuracy:.1f} %"

    def terms(self, config: Settings) -> PrivacyTerms:
        noisy = config["private"] and config["noise_multiplier"] != 0
        status = "" if noisy else NOT_PRIVATE
        if noisy and config.get("filter_epsilon") is not None:
            return PrivacyTerms.of_counter(FILTER, config["delta"])
        return PrivacyTerms.of(
            config["accountant"],
            config["delta"],
            status=status,
            sampling=_sampling_law(config),
        )

    def page(self, config: TrainingConfig) -> dict[str, Any]:
        plan = plan_of(config)
        return {
            "query": to_query(config),
            "plan": plan_texts(plan),
            "truth": truth_of(plan),
            "views": VIEWS,
            "run_charts": RUN_CHARTS,
            "can_be_attacked": _can_be_attacked(config),
        }

    def standing(
        self, config: TrainingConfig, read: Callable[[str], Points]
    ) -> dict[str, Markup]:
        """Returns accuracy, gradient norms and losses as far as they are logged."""
        css = "s-private" if config.plan.is_private else "s-twin dashed"
        words = "private" if config.plan.is_private else "without privacy"
        line = Line(read("evaluation"), words, css, is_run=True)
        edges = next((p.get("norm_edges") for p in reversed(read("phase"))), None) or []
        return standing(
            config, plan_of(config), [line], steps=read("step"), edges=edges
        )

    def page_data(self, config: TrainingConfig) -> dict[str, Any]:
        tables = [] if config.table is None else [config.table]
        return {"plan": plan_of(config), "catalogue": catalogue_with(tables)}

    def sections(
        self, config: TrainingConfig, steps: Points, evaluations: Points
    ) -> list[Section]:
        note = "" if config.table is None else OWN_TEST
        return [
            Section(
                "Test accuracy",
                note,
                accuracy_figure(evaluations, config.wall, epsilon_axis(config)),
            ),
            *(_along_steps(described, steps) for described in RUN_CHARTS),
        ]


def _can_be_attacked(config: TrainingConfig) -> bool:
    """Returns whether the attack lab accepts the run."""
    try:
        AttackConfig.of_run(config)
    except ConfigError:
        return False
    return True


def _along_steps(described: RunChart, steps: Points) -> Section:
    """Returns the section of a chart along the steps: its first line."""
    series = described.series[0]
    points = series.points(steps)
    figure = chart(
        x=[step for step, _ in points],
        y=[value for _, value in points],
        x_title="step",
        y_title=f"{series.head.lower()} (not private)",
    )
    return Section(series.head, described.note, figure)


VIEW = TrainingView()

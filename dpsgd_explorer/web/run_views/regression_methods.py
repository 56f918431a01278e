"""View of runs of kind "regression_methods": lists, page and report."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dpsgd_explorer.experiments.own_table import label_of
from dpsgd_explorer.experiments.regression_methods_config import (
    ALL,
    METHOD_NAMES,
    RegressionMethodsConfig,
)
from dpsgd_explorer.experiments.vocabulary import RELATIONS
from dpsgd_explorer.web.figures.exports.report_chart import PRINTED
from dpsgd_explorer.web.forms.fields import text_of
from dpsgd_explorer.web.questions.privacy import PrivacyTerms
from dpsgd_explorer.web.questions.rounding import limit, significant, whole
from dpsgd_explorer.web.run_views.base import (
    Points,
    RunView,
    Section,
    Settings,
    Summary,
)

DIGITS = 4  # significant digits of errors and coefficients
NONPRIVATE = "Least squares"
MEAN = "Always the mean"


def results_of(
    config: RegressionMethodsConfig, read: Callable[[str], Points]
) -> dict[str, Any]:
    """Returns the tables of errors and of coefficients, as texts.

    Args:
        config: The settings.
        read: Returns the data of all events of a kind, in order.
    """
    phases, evaluations = read("phase"), read("evaluation")
    if not phases:
        return {"errors": []}
    phase = phases[0]
    released = [(METHOD_NAMES[one["method"]], one) for one in evaluations]
    columns = [one["coefficients"] for _, one in released]
    columns.append(phase["not_private_coefficients"])
    return {
        "rows": whole(phase["sample_size"]),
        "test_rows": whole(phase["test_size"]),
        "target": config.table_schema.predicted.name,
        "errors": [
            (name, limit(one["epsilon_alone"]), _text(one["not_private_rmse"]))
            for name, one in released
        ],
        "not_private": [
            (NONPRIVATE, _text(phase["not_private_rmse"])),
            (MEAN, _text(phase["not_private_mean_rmse"])),
        ],
        "heads": [name for name, _ in released],
        "coefficients": _coefficients(columns),
    }


def _sum_alone(config: RegressionMethodsConfig) -> str:
    """Returns the sum of the ε of the methods, each counted alone."""
    return limit(sum(share.epsilon for share in config.budget.shares))


def _coefficients(columns: list[dict[str, Any] | None]) -> list[tuple[str, ...]]:
    """Returns a row per coefficient: its name, then its value by each method."""
    known = next((column for column in columns if column is not None), None)
    if known is None:
        return []
    intercepts = [None if c is None else c["intercept"] for c in columns]
    return [
        ("intercept", *map(_text, intercepts)),
        *(
            (name, *(_text(None if c is None else c["slopes"][name]) for c in columns))
            for name in known["slopes"]
        ),
    ]


def _text(value: float | None) -> str:
    """Returns a number with a typographic minus sign; "∞" for a diverged one."""
    if value is None:
        return "∞"
    return significant(value, DIGITS).replace("-", "−")


class RegressionMethodsView(RunView):
    """View of runs of kind "regression_methods"."""

    template = "runs/regression_methods.html"
    results = "runs/_regression_methods.html"
    config = RegressionMethodsConfig
    claims = None
    has_receipt = True
    columns = (
        ("method", "method", "{}"),
        ("epsilon_alone", "ε of it alone", "{:.4f}"),
        ("not_private_rmse", "typical error (not private)", "{:.4g}"),
    )
    more = ("method", "epsilon_alone", "coefficients")
    titled = frozenset({"kind", "dataset", "target_epsilon", "methods"})

    def title(self, config: Settings) -> str:
        chosen = config["methods"]
        methods = "" if chosen == ALL else f", {METHOD_NAMES[chosen]}"
        epsilon = text_of(config["target_epsilon"])
        return f"Private regression, {label_of(config)}{methods}, ε = {epsilon}"

    def subject(self, config: Settings) -> str:
        return f"Private linear regression on {label_of(config)}"

    def result(self, summary: Summary) -> str:
        """Returns the number of released methods, as their errors are not private."""
        released = summary.get("steps", 0)
        return f"{released} method{'s' * (released > 1)} released" if released else ""

    def terms(self, config: Settings) -> PrivacyTerms:
        """Returns the terms of its ε; all releases together form one Gaussian."""
        bounds = RegressionMethodsConfig.parse(config).bounds
        return PrivacyTerms(
            delta=config["delta"],
            neighboring_relation=bounds.neighboring_relation,
            sampling="none",
            accountant="gaussian",
            status="exact",
        )

    def page(self, config: RegressionMethodsConfig) -> dict[str, Any]:
        return {
            "delta": text_of(config.delta),
            "relation": RELATIONS[config.bounds.neighboring_relation],
            "truth": ("exact", "exact"),
            "sum_alone": _sum_alone(config),
        }

    def page_data(self, _config: RegressionMethodsConfig) -> dict[str, Any]:
        """Returns {}, since the server draws the tables."""
        return {}

    def standing(
        self, config: RegressionMethodsConfig, read: Callable[[str], Points]
    ) -> dict[str, Any]:
        """Returns the tables of the methods released so far."""
        return results_of(config, read)

    def sections(
        self, _config: RegressionMethodsConfig, _steps: Points, evaluations: Points
    ) -> list[Section]:
        """Returns a bar chart of the typical errors."""
        drawn = [p for p in evaluations if p["not_private_rmse"] is not None]
        note = "Root mean square error on held-out rows: not private."
        return [Section("Typical error", note, _bars(drawn))]


def _bars(evaluations: Points) -> dict[str, Any]:
    names = [METHOD_NAMES[point["method"]] for point in evaluations]
    errors = [point["not_private_rmse"] for point in evaluations]
    bar = {"type": "bar", "x": names, "y": errors}
    axis = {"title": {"text": "typical error"}, "rangemode": "tozero"}
    return {
        "data": [bar | {"marker": {"color": [PRINTED["private"]] * len(names)}}],
        "layout": {
            "yaxis": axis | {"gridcolor": "#d9dee3"},
            "margin": {"l": 70, "r": 20, "t": 20, "b": 60},
            "plot_bgcolor": "white",
        },
    }


VIEW = RegressionMethodsView()

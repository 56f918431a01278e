"""Runs of kind "search" as they are listed, shown and reported."""

from __future__ import annotations

from typing import Any

from dpsgd_explorer.experiments.search_config import SEARCHED, SearchConfig, values_name
from dpsgd_explorer.web.forms.form import to_query
from dpsgd_explorer.web.questions.plan_preview import catalogue_with, plan_of
from dpsgd_explorer.web.questions.privacy import PrivacyTerms
from dpsgd_explorer.web.questions.search_price import (
    SELECTION_ACCOUNTANT,
    search_price,
)
from dpsgd_explorer.web.run_views.base import (
    Points,
    Section,
    Settings,
    chart,
)
from dpsgd_explorer.web.run_views.training import TrainingView

TEST_RECORDS = "Counted on test records, which the guarantee does not cover."


class SearchView(TrainingView):
    """Runs of kind "search": a training's settings, and what of them is tried."""

    template = "runs/search.html"
    config = SearchConfig
    diagnostics = ()
    columns = (
        ("trained", "step of the winner", "{}"),
        ("test_accuracy", "test accuracy", "{:.2%}"),
        ("test_loss", "test loss", "{:.4f}"),
    )
    more = ("trained",)
    missing = "–"
    titled = TrainingView.titled | {"learning_rate"}

    @property
    def starts(self) -> list[Settings]:
        """The presets with the usual search."""
        usual = SearchConfig.parse({}).model_dump(mode="json")
        return [usual | start | {"kind": usual["kind"]} for start in super().starts]

    def title(self, config: Settings) -> str:
        """Return what is searched on what."""
        return f"Blind search, {super().title(config)} per trial"

    def subject(self, config: Settings) -> str:
        """Return what is searched on what."""
        return f"Blind search: {super().subject(config)}"

    def counts(self, name: str, config: Settings) -> bool:
        """Return whether it has an effect: a setting that is searched has none."""
        searched = name in SEARCHED and config.get(values_name(name)) is not None
        return not searched and super().counts(name, config)

    def terms(self, config: Settings) -> PrivacyTerms:
        """Return what the price of a selection is to be read with."""
        return PrivacyTerms.of(SELECTION_ACCOUNTANT, config["delta"], status="bound")

    def page(self, config: Any) -> dict[str, Any]:
        """Return the price, and where one trial can be set up."""
        return {"query": to_query(config.base), "price": search_price(config)}

    def page_data(self, config: Any) -> dict[str, Any]:
        """Return what the panel needs before the winner is released."""
        labels = {name: self.fields[name] for name in config.searched}
        return {
            "plan": plan_of(config.first_trial),
            "catalogue": catalogue_with([]),
            "price": search_price(config).model_dump(mode="json"),
            "searched": {
                name: {"label": field.label, "symbol": field.symbol}
                for name, field in labels.items()
            },
        }

    def standing(self, _config: Any, _read: Any) -> dict[str, Any]:
        """Return nothing: before the end there is nothing to draw."""
        return {}

    def sections(
        self, _config: Any, _steps: Points, evaluations: Points
    ) -> list[Section]:
        """Return the winner's accuracy along its steps."""
        return [
            Section(
                "The winner’s test accuracy",
                TEST_RECORDS,
                chart(
                    x=[point["trained"] for point in evaluations],
                    y=[round(100 * point["test_accuracy"], 4) for point in evaluations],
                    x_title="step of the winner’s training",
                    y_title="test accuracy, %",
                ),
            )
        ]

"""Stored runs of kind "search", which can no longer be launched."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from dpsgd_explorer.accounting.sampling_schemes import POISSON
from dpsgd_explorer.experiments.catalogue import MODELS
from dpsgd_explorer.experiments.search_config import SearchConfig, values_name
from dpsgd_explorer.runs.store.records import Run
from dpsgd_explorer.web.figures.exports.share_card import Card
from dpsgd_explorer.web.figures.svg import small
from dpsgd_explorer.web.questions.looked_at import LookedAt
from dpsgd_explorer.web.questions.privacy import Epsilon, PrivacyTerms, counter_label
from dpsgd_explorer.web.questions.rounding import percent
from dpsgd_explorer.web.run_views.base import (
    Claims,
    Points,
    Section,
    Settings,
    chart,
)
from dpsgd_explorer.web.run_views.statement import (
    RELATIONS,
    SAMPLED,
    STATUS,
    clipping_words,
    label_words,
    noise_words,
    sampling_words,
)
from dpsgd_explorer.web.run_views.training import TrainingView

SELECTION_ACCOUNTANT = "rdp"
USUAL_VALUES = "2 4 8 16"
TEST_RECORDS = "Counted on test records, which the guarantee does not cover."


class SearchClaims(Claims):
    """Claims about the winner of a blind search."""

    def statement(self, run: Run, spent: Epsilon | None, _phases: Points) -> str:
        """Returns the statement on the winner, "" before its release."""
        return _statement(run, spent)

    def sources(self, _run: Run, _spent: Epsilon | None) -> list[str]:
        """Returns the keys of the references for the selection, DP-SGD first."""
        return ["abadi", "papernot", "mironov2017", "mironov2019", *SAMPLED[POISSON]]

    def has_card(self, run: Run) -> bool:
        """Returns True if the search has a winner."""
        return run.has_ended and run.summary.get("test_accuracy") is not None

    def card(
        self,
        run: Run,
        spent: Epsilon,
        title: str,
        evaluations: Iterable[dict[str, Any]],
        _phases: Points,
    ) -> Card:
        """Returns a card with the accuracy of the winner."""
        return Card(
            title=title,
            accuracy=f"{percent(run.summary['test_accuracy'])} %",
            epsilon=spent.epsilon_text,
            spent=spent.epsilon,
            delta=spent.delta,
            status=spent.status,
            points=[
                (point["trained"], point["test_accuracy"]) for point in evaluations
            ],
            budget=None,
            axis="step of the winner",
            choice="including the choice",
        )

    def looked_at(self, run: Run, _phases: Points) -> LookedAt:
        """Returns the privacy cost of the search, once the winner is released."""
        released = bool(run.summary.get("epsilon"))
        return LookedAt.of_search(run.config, is_released=released)


def _statement(run: Run, spent: Epsilon | None) -> str:
    """Returns the privacy statement on the winner of a blind search.

    "" before the winner is released, and without a winner.
    """
    if spent is None or not run.has_ended or not spent.epsilon:
        return ""
    config = SearchConfig.parse(run.config)
    done = config.plan.phases
    clipping = clipping_words(config)
    if "max_grad_norm" in config.searched:
        clipping = "the gradient of each record has L2 norm at most the bound it drew"
    return " ".join(
        (
            f"{MODELS[config.model].label} was trained on {config.data.label} "
            f"({config.sample_size:,} records) with DP-SGD, with settings that a blind "
            "search chose.",
            "The choice and the winner together are (ε, δ)-differentially private with "
            f"ε = {spent.epsilon_text} and δ = {small(spent.delta)}.",
            f"Unit: one training record; {RELATIONS[spent.neighboring_relation]}.",
            "Search: the number of trials is drawn from the Poisson distribution of "
            f"mean {config.mean_trials:g}; each draws at random one of "
            f"{config.combinations} combinations ({_lists(config)}); the one with the "
            "highest test accuracy is released, the others and their number are not.",
            f"Sampling of a trial: {sampling_words(done)}, independently of all "
            "others.",
            f"Mechanism of a trial: {clipping}; Gaussian noise is added to their sum, "
            f"in all {noise_words(done)} times the sensitivity.",
            f"Accountant: {counter_label(spent.accountant)}; ε is "
            f"{STATUS[spent.status]}.",
            "Not covered: the choice of the other settings and any other run on these "
            f"records; the {config.data.test_size:,} test records.",
            f"Noise, number of trials and losers follow from seed {config.seed}: "
            "anyone who knows the seed can repeat them. A model that is released needs "
            "both drawn in secret.",
        )
    )


def _lists(config: SearchConfig) -> str:
    """Returns the settings that were searched with their values."""
    return "; ".join(
        f"{label_words(name)} {', '.join(values)}"
        for name, values in config.searched.items()
    )


class SearchView(TrainingView):
    """View of runs of kind "search": settings of a training, with lists of values."""

    template = "runs/search.html"
    config = SearchConfig
    claims = SearchClaims()
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
        """The presets with the default search."""
        usual = SearchConfig(learning_rate_values=USUAL_VALUES).model_dump(mode="json")
        return [usual | start | {"kind": usual["kind"]} for start in super().starts]

    def title(self, config: Settings) -> str:
        return f"Blind search, {super().title(config)} per trial"

    def subject(self, config: Settings) -> str:
        return f"Blind search: {super().subject(config)}"

    def counts(self, name: str, config: Settings) -> bool:
        """Returns True if a setting has an effect; settings with a list have none."""
        has_list = config.get(values_name(name)) is not None
        return name != "audit" and not has_list and super().counts(name, config)

    def terms(self, config: Settings) -> PrivacyTerms:
        """Returns the terms of the ε of a selection."""
        return PrivacyTerms.of(SELECTION_ACCOUNTANT, config["delta"], status="bound")

    def page(self, _config: Any) -> dict[str, Any]:
        """Returns {}: the template needs no further variables."""
        return {}

    def page_data(self, _config: Any) -> dict[str, Any]:
        """Returns {}: the page has no chart."""
        return {}

    def standing(self, config: Any, read: Callable[[str], Points]) -> dict[str, Any]:
        """Returns the settings of the winner by label, and its evaluations."""
        settings = next((end["winner"] for end in read("end")), None) or {}
        winner = {self.fields[name].label: settings[name] for name in settings}
        return {"winner": winner, "evaluations": read("evaluation")}

    def sections(
        self, _config: Any, _steps: Points, evaluations: Points
    ) -> list[Section]:
        """Returns the winner's accuracy along its steps."""
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


VIEW = SearchView()

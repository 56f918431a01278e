"""Information on a run before it starts: its plan, and the ranges of its charts.

Axis ranges are fixed before the first point arrives, so that the chart does not jump.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

from dpsgd_explorer import accounting
from dpsgd_explorer.accounting import ACCOUNTANTS, FilteredRun, Phase, Plan
from dpsgd_explorer.accounting.core.phase import first_steps
from dpsgd_explorer.accounting.registry import accountant_for
from dpsgd_explorer.accounting.released_counts import gradient_noise, usual_count_noise
from dpsgd_explorer.accounting.spending import FILTER
from dpsgd_explorer.experiments import own_table
from dpsgd_explorer.experiments.accountant_words import SAMPLING_WORDS
from dpsgd_explorer.experiments.architecture import feature_shape
from dpsgd_explorer.experiments.catalogue import DATA_SETS, MODELS, DataSet, Model
from dpsgd_explorer.experiments.own_table import OwnTable
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.web.charts.run_charts import axis_ends
from dpsgd_explorer.web.forms.fields import text_of
from dpsgd_explorer.web.questions.epsilon_axis import planned_axis
from dpsgd_explorer.web.questions.model_card import card_of
from dpsgd_explorer.web.questions.odds import THIS_RUN, Limits
from dpsgd_explorer.web.questions.previews import Preview, preview
from dpsgd_explorer.web.questions.privacy import (
    Curve,
    EnclosedEpsilon,
    Epsilon,
    LayerAnswer,
    PlanAnswer,
    PrivacyTerms,
    claim_words,
    counter_label,
    epsilons_of_phases,
)
from dpsgd_explorer.web.questions.quick_searches import (
    preliminary_plan,
    quick_steps_within,
)
from dpsgd_explorer.web.questions.rounding import need
from dpsgd_explorer.web.recorded.runs import rates_without_privacy

CURVE_POINTS = 101
PLANS = 256
FEW_POINTS = 9  # maximum number of points of a preliminary answer
SPARED = 5e-3  # share of ε that preliminary noise may spend less than the final noise
UNKNOWN = ("", "")  # norm method and reason of a layer that chooses at its first step
WHOLE_RANGE = 0.0, 99.5  # percent, of accuracies on an axis of errors, on a log scale
VIEWS = {
    "accuracy": "Accuracy",
    "gradients": "Gradients",
    "loss": "Loss",
    "model": "Model",
}
PLAN_TEXTS: dict[str, Callable[[dict[str, Any]], str]] = {
    "epsilon": lambda plan: str(plan["epsilon_text"]),
    "delta": lambda plan: text_of(plan["delta"]),
    "noise_multiplier": lambda plan: noise_text(plan),
    "sample_rate": lambda plan: f"{plan['sample_rate']:.3g}",
    "sampling": lambda plan: str(plan["sampling_words"]),
    "batches": lambda plan: str(plan["batch_words"]),
    "steps": lambda plan: f"{plan['steps']:,}",
    "epochs": lambda plan: f"{float(format(plan['epochs'], '.3g')):,g}",
    "accountant": lambda plan: counter_label(plan["accountant"]),
}
cached_preview = lru_cache(maxsize=128)(preview)
CLOSE = 0.7  # with a larger majority class, guessing is close to a model's accuracy


@lru_cache(maxsize=PLANS)
def plan_of(config: TrainingConfig) -> dict[str, Any]:
    """Return the answer of /api/v1/privacy/plan, with the curve of ε.

    Raises:
        ConfigError: no noise reaches the target.
    """
    return planned(config, CURVE_POINTS).model_dump(mode="json")


def plan_texts(plan: dict[str, Any] | None) -> dict[str, str]:
    """Return each value of a plan as text; a dash without a plan."""
    if plan is None:
        return dict.fromkeys(PLAN_TEXTS, "–")
    return {name: write(plan) for name, write in PLAN_TEXTS.items()}


def noise_text(plan: dict[str, Any]) -> str:
    """Return σ, or σ of the first and last step if they differ."""
    if not plan["private"]:
        return "0"
    first, last = plan["noise_multiplier"], plan["last_noise_multiplier"]
    return need(first) if first == last else f"{need(first)} to {need(last)}"


def truth_of(plan: dict[str, Any] | None) -> tuple[str, str, str]:
    """Return class and text of the badge next to an ε, and the terms that apply.

    The terms are "private", "open" (no noise) or "unknown" (no plan).
    """
    if plan is None:
        return "not-private", "", "unknown"
    if not plan["private"]:
        return "not-private", "not private", "open"
    return plan["status"], claim_words(plan["accountant"], plan["status"]), "private"


def planned(
    config: TrainingConfig, points: int | None, *, preliminary: bool = False
) -> PlanAnswer:
    """Return the plan of a run, with a curve of at most ``points`` points.

    A preliminary answer takes at most 0.1 s of CPU time with Poisson sampling. With
    random allocation it usually takes a second, and half a minute at worst.
    """
    plan = preliminary_plan(config) if preliminary else config.plan
    if config.is_filtered:
        return _planned_by_filter(config, plan, points, preliminary=preliminary)
    target = config.target_epsilon if preliminary and plan.is_private else None
    last_step, maximum = plan.steps, target
    if plan.is_private and config.stop_at_epsilon is not None:
        maximum = config.stop_at_epsilon
        within = maximum * (1 - SPARED) if target is not None else maximum
        within_steps = quick_steps_within if preliminary else Plan.steps_within
        last_step = within_steps(plan, within)
    last_round = -(-last_step // plan.bands)  # a round of one band is a step
    run = first_steps(plan.phases, last_round)
    if preliminary and points is not None:
        points = min(points, FEW_POINTS)
    rounds = [last_round] if points is None else Curve.steps_up_to(last_round, points)
    epsilons = cached_preview(
        tuple(run),
        tuple(rounds),
        plan.delta,
        plan.accountant,
        quick=preliminary,
        most=None if target is None or maximum is None else min(target, maximum),
    )
    line = None if points is None else _line(epsilons, plan.bands, last_step)
    spent = EnclosedEpsilon.between(
        epsilons.spent, plan.accountant, plan.delta, config.sampling_law
    )
    return PlanAnswer(
        **spent.model_dump(),
        accountants=[
            name for name in accounting.NAMES if not accountant_for(name).why_not(run)
        ],
        epsilons=epsilons_of_phases(plan.accountant, run, plan.delta),
        last_step=last_step,
        curve=line,
        noise_is_bound=target is not None,
        run_odds=None if preliminary else _run_odds(run, epsilons.spent.value, plan),
        epsilon_axis=planned_axis(
            config,
            spent.epsilon if plan.is_private else None,
            stops_early=last_step < plan.steps,
        ),
        **_plan_values(config, plan),
    )


def _line(rounds: Preview, bands: int, last_step: int) -> Curve:
    """Return the curve of ε, which rises with the first step of each round."""
    steps = [(number - 1) * bands + 1 if number else 0 for number in rounds.steps]
    epsilons = list(rounds.epsilons)
    if steps[-1] < last_step:
        steps, epsilons = [*steps, last_step], [*epsilons, epsilons[-1]]
    return Curve.through(steps, epsilons)


def _run_odds(run: Sequence[Phase], epsilon: float, plan: Plan) -> str | None:
    """Return the limit of this run in percent, None without noise."""
    if not plan.is_private:
        return None
    return Limits.of(run, epsilon, plan.delta).percents[THIS_RUN]


def _planned_by_filter(
    config: TrainingConfig, plan: Plan, points: int | None, *, preliminary: bool
) -> PlanAnswer:
    """Return the plan of a run with a budget for changes, if nothing is changed.

    The whole budget is guaranteed; the curve is the ε that the filter counts.
    """
    budget, [run] = config.filter_epsilon or 0.0, plan.phases
    filtered = FilteredRun.planned(budget, plan.delta, run)
    last_step = filtered.steps_within([], run)
    line = None
    if points is not None:
        steps = Curve.steps_up_to(last_step, points)
        line = Curve.through(steps, filtered.counted([run], steps))
    terms = PrivacyTerms.of_counter(FILTER, plan.delta)
    return PlanAnswer(
        **Epsilon.spent(budget, terms).model_dump(),
        lower=None,
        upper=budget,
        accountants=["exact", "all"],
        epsilons=None,
        last_step=last_step,
        curve=line,
        noise_is_bound=preliminary and config.target_epsilon is not None,
        run_odds=None,
        epsilon_axis=planned_axis(config, budget, stops_early=last_step < plan.steps),
        **_plan_values(config, plan),
    )


def _plan_values(config: TrainingConfig, plan: Plan) -> dict[str, Any]:
    """Return the values of a plan that do not depend on the accountant or filter."""
    card = card_of(config)
    return {
        "private": plan.is_private,
        "sample_size": plan.sample_size,
        "expected_batch_size": plan.expected_batch_size,
        "sample_rate": plan.sample_rate,
        "noise_multiplier": plan.noise_multiplier,
        "last_noise_multiplier": plan.phases[-1].noise_multiplier,
        "gradient_noise_multiplier": _gradient_noise(config, plan),
        "steps": plan.steps,
        "epochs": plan.steps * plan.sample_rate,
        "parameters": config.parameters,
        "layers": layer_answers(config),
        "step_bytes": card.step_bytes if card else None,
        "step_records": card.step_records if card else None,
        "axes": axis_ends(config),
        "sampling_words": SAMPLING_WORDS[config.sampling_law],
        "batch_words": _batch_words(plan),
    }


def _batch_words(plan: Plan) -> str:
    """Return how the records of a batch are drawn, with the plan's numbers."""
    rate = f"{plan.sample_rate * plan.bands:.3g}"
    if plan.bands > 1:
        return (
            f"each record is in one of {plan.bands} groups, which take turns; a step "
            f"draws each record of its group with probability {rate}"
        )
    if plan.slots is None:
        return f"each record is drawn independently with probability q = {rate}"
    return f"each record is in one of the t = {plan.slots:,} batches of an epoch"


def layer_answers(config: TrainingConfig) -> list[LayerAnswer]:
    """Return the layers of the model, with the starts of the clipping groups."""
    names = [layer.name for layer in config.layers]
    groups = config.clipping_groups
    first_layers = groups if isinstance(groups, list) else names[:1]
    if groups in ("layer-wise", "param-wise"):
        first_layers = names
    card = card_of(config)
    methods = card.norm_methods if card else {}
    return [
        LayerAnswer(
            name=layer.name,
            kind=layer.kind,
            output_shape=list(layer.output_shape),
            parameters=layer.parameters,
            begins_group=config.private and layer.name in first_layers,
            norm_method=methods.get(layer.name, UNKNOWN)[0],
            reason=methods.get(layer.name, UNKNOWN)[1],
        )
        for layer in config.layers
    ]


def _gradient_noise(config: TrainingConfig, plan: Plan) -> float:
    count = usual_count_noise(plan) if config.is_adaptive else 0.0
    return gradient_noise(plan.noise_multiplier, count)


@cache
def chart_catalogue() -> dict[str, Any]:
    """Return the charts' data beyond a plan: data sets, models, accountants."""
    return {
        "data_sets": {name: _data_set(name, data) for name, data in DATA_SETS.items()},
        "models": {name: _model(name, model) for name, model in MODELS.items()},
        "accountants": {name: counter_label(name) for name in (*ACCOUNTANTS, FILTER)},
        "claims": {name: accountant.status for name, accountant in ACCOUNTANTS.items()},
    }


def catalogue_with(
    tables: Sequence[OwnTable], to_do: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return the chart catalogue with a visitor's own tables.

    Args:
        tables: The tables.
        to_do: Notes on data sets that are missing on the machine.
    """
    catalogue = chart_catalogue()
    data_sets: dict[str, dict[str, Any]] = dict(catalogue["data_sets"])
    for name, text in (to_do or {}).items():
        data_sets[name] = data_sets[name] | {
            "note": f"{data_sets[name]['note']} {text}"
        }
    own_sets = {table.name: _own_data_set(table) for table in tables}
    return catalogue | {"data_sets": data_sets | own_sets}


def accuracy_range(data: DataSet) -> tuple[float, float]:
    """Return the range of the accuracy axis in percent.

    A range from 0 is drawn as errors on a log scale; otherwise the axis shows the
    accuracies of working runs only.
    """
    if data.majority < CLOSE:
        return WHOLE_RANGE
    guessing = math.floor(20 * data.majority) / 20  # first steps may be below guessing
    return (
        float(round(100 * (guessing - 0.1))),
        min(float(round(100 * (guessing + 0.15))), WHOLE_RANGE[1]),
    )


def _own_data_set(table: OwnTable) -> dict[str, Any]:
    return _facts(table.facts, WHOLE_RANGE) | {
        "models": list(own_table.MODELS),
        "guesses": True,  # the baseline is not computed from the data
    }


def fitting_models() -> dict[str, list[str]]:
    """Return the models that can be trained on each data set."""
    return {
        dataset: [name for name, model in MODELS.items() if dataset in model.parameters]
        for dataset in DATA_SETS
    }


def _data_set(name: str, data: DataSet) -> dict[str, Any]:
    return _facts(data, accuracy_range(data)) | {"models": fitting_models()[name]}


def _facts(data: DataSet, accuracies: tuple[float, float]) -> dict[str, Any]:
    return {
        "label": data.label,
        "sample_size": data.train_size,
        "classes": data.classes,
        "labels": list(data.labels),
        "input_shape": list(data.input_shape),
        "baseline": data.majority,
        "accuracy_range": accuracies,
        "note": data_note(data),
    }


def data_note(data: DataSet) -> str:
    """Return the sentence below the choice of the data set."""
    sizes = f"{data.train_size:,} records to learn from, {data.test_size:,} to test."
    return f"{data.note} {sizes}"


def _model(name: str, model: Model) -> dict[str, Any]:
    notes = {dataset: model_note(model, dataset) for dataset in model.parameters}
    features = {
        dataset: shape
        for dataset in model.parameters
        if (shape := feature_shape(name, DATA_SETS[dataset].input_shape))
    }
    unclipped = {
        dataset: rate_note(name, dataset)
        for dataset in rates_without_privacy().get(name, {})
    }
    texts = {"label": model.label, "notes": notes, "unclipped": unclipped}
    return texts | {"features": features}


def model_note(model: Model, dataset: str) -> str:
    """Return the sentence below the choice of the model."""
    return f"{model.note} {model.parameters[dataset]:,} parameters."


def rate_note(model: str, dataset: str) -> str:
    """Return the sentence below the choice of privacy, "" without a recording."""
    rate = rates_without_privacy().get(model, {}).get(dataset)
    if rate is None:
        return ""
    return f"Nothing is clipped: the recorded run without privacy uses η = {rate:g}."

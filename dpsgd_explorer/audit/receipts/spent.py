"""The ε of a receipt, recomputed by the accountants from its steps."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from dpsgd_explorer.accounting import (
    NAMES,
    FilteredRun,
    Odometer,
    Phase,
    RdpCurve,
    RenyiFilter,
    gaussian_epsilon,
    padded_selection,
)
from dpsgd_explorer.accounting.core.phase import joined, phase_of
from dpsgd_explorer.accounting.spending import FILTER
from dpsgd_explorer.audit.receipts.findings import Findings
from dpsgd_explorer.audit.receipts.steps import Steps

#: End of a receipt's note on sampling or loss that has no guarantee.
UNCOVERED = "no epsilon"
NO_EFFECT = "ε does not depend on it, because the receipt has no ε or no steps"


def check_epsilon(findings: Findings, receipt: Mapping[str, Any], steps: Steps) -> None:
    """Computes ε from the steps, or the filter's order and sum.

    Args:
        findings: Result of the check; figures are added to it.
        receipt: The whole receipt of an engine.
        steps: The steps of the last plan.
    """
    told = receipt["told"]
    if "filter" in receipt:
        _check_filter(findings, receipt, steps)
        return
    exists = told["accountant"] in NAMES
    findings.require("told.accountant", told["accountant"], "an accountant", exists)
    if not _is_covered(receipt):
        findings.compare("epsilon", receipt["epsilon"], None)
        findings.compare("epsilons", receipt["epsilons"], None)
        findings.leave("told.delta", NO_EFFECT)
        return
    if receipt["epsilon"] in (None, 0):
        findings.leave("told.delta", NO_EFFECT)
        findings.leave("told.noise_multiplier", NO_EFFECT)
    findings.recompute(
        "epsilon",
        receipt["epsilon"],
        lambda: _finite(
            _odometer(receipt, steps).epsilon(told["delta"], told["accountant"])
        ),
    )
    if receipt["epsilons"] is not None:
        findings.recompute(
            "epsilons",
            receipt["epsilons"],
            lambda: {
                name: value
                for name, value in _odometer(receipt, steps)
                .epsilons(told["delta"])
                .items()
                if math.isfinite(value)
            },
        )


def check_earlier(
    findings: Findings, receipt: Mapping[str, Any], before: Sequence[Steps]
) -> None:
    """Compares the steps of earlier engines with their lines, if there are any."""
    if "before" in receipt:
        findings.recompute(
            "earlier",
            _joined(phases_of(receipt["earlier"])),
            lambda: _joined([phase for steps in before for phase in steps.phases()]),
        )
    elif receipt["earlier"]:
        findings.leave("earlier", "see the receipts of the earlier engines")


def check_selection(
    findings: Findings, selection: Mapping[str, Any], trial: Sequence[Phase] | None
) -> None:
    """Computes the price of a search from the steps of its best trial.

    Args:
        findings: Result of the check; figures are added to it.
        selection: The selection in the receipt.
        trial: Steps of a trial; None if no trial won.
    """
    for name, words in (
        ("law", "poisson"),
        ("status", "bound"),
        ("chosen_by", "test accuracy; test records are not covered"),
    ):
        findings.compare(f"selection.{name}", selection[name], words)
    if trial is None:
        for name in ("mean_trials", "trainings", "epsilon", "delta"):
            findings.leave(
                f"selection.{name}",
                "the receipt does not contain the steps of any trial",
            )
        return

    def price() -> dict[str, float]:
        mean, delta = selection["mean_trials"], selection["delta"]
        total = padded_selection(RdpCurve.of(trial), mean_trials=mean, delta=delta)
        return {"epsilon": total.epsilon, "trainings": total.trainings}

    stated = {name: selection[name] for name in ("epsilon", "trainings")}
    findings.recompute("selection", stated, price)


def check_releases(findings: Findings, receipt: Mapping[str, Any]) -> None:
    """Computes ε of each method, and of all methods together, from their noise.

    Args:
        findings: Result of the check; figures are added to it.
        receipt: The receipt of a regression by several methods.
    """
    delta, all_releases = receipt["delta"], []
    for i, release in enumerate(receipt["releases"]):
        place, mechanisms = f"releases[{i}].", release["mechanisms"]
        all_releases += mechanisms
        findings.leave(f"{place}method", "a name")
        findings.recompute(
            f"{place}epsilon_alone",
            release["epsilon_alone"],
            partial(_epsilon_of, mechanisms, delta),
        )
        for j in range(len(mechanisms)):
            findings.leave(f"{place}mechanisms[{j}].released", "a name")
    if not receipt["releases"]:
        findings.require("releases", [], "at least one release", False)
    findings.recompute(
        "epsilon", receipt["epsilon"], partial(_epsilon_of, all_releases, delta)
    )
    findings.require("delta", delta, "above 0, below 1", 0 < delta < 1)
    target = receipt["target_epsilon"]
    fits = receipt["epsilon"] <= target
    findings.require("target_epsilon", target, "at least epsilon", fits)


def _epsilon_of(mechanisms: Sequence[Mapping[str, Any]], delta: float) -> float:
    """Returns the exact ε of Gaussian mechanisms: their 1/σ² add up.

    Raises:
        ValueError: there is no mechanism, so that ε has nothing to follow from.
    """
    if not mechanisms:
        raise ValueError("no release states a mechanism with noise.")
    precision = math.fsum(m["times"] / m["noise_multiplier"] ** 2 for m in mechanisms)
    return gaussian_epsilon(delta=delta, noise_multiplier=1 / math.sqrt(precision))


def phases_of(values: Sequence[Mapping[str, Any]]) -> list[Phase]:
    """Returns the phases of JSON values.

    Raises:
        AccountingError: a number is outside its domain.
    """
    return [phase_of(value) for value in values]


def _check_filter(findings: Findings, receipt: Mapping[str, Any], steps: Steps) -> None:
    told, stated = receipt["told"], receipt["filter"]
    findings.compare("told.accountant", told["accountant"], FILTER)
    findings.compare("epsilon", receipt["epsilon"], stated["epsilon"])
    findings.compare("epsilons", receipt["epsilons"], None)
    findings.compare("filter.status", stated["status"], RenyiFilter.status)
    findings.compare("filter.delta", stated["delta"], told["delta"])
    budget = (stated["epsilon"], stated["delta"])
    first = receipt["before"][0]["told"] if receipt.get("before") else told
    findings.recompute(
        "filter.order",
        stated["order"],
        lambda: (
            FilteredRun.planned(
                *budget, Phase(first["sample_rate"], first["noise_multiplier"], 1)
            ).order
        ),
    )

    def is_within() -> bool:
        counting = FilteredRun(*budget, stated["order"])
        done = [*phases_of(receipt["earlier"]), *steps.phases()]
        return counting.spent(done) <= counting.budget

    findings.recompute("filter: all steps are within the budget", True, is_within)


def _is_covered(receipt: Mapping[str, Any]) -> bool:
    """Returns True if sampling and loss have a guarantee, or need none."""
    told = receipt["told"]
    is_unused = not told["noise_multiplier"] or not told["steps"]
    loss = is_unused or not receipt["loss"].endswith(UNCOVERED)
    return loss and not receipt["sampling"].endswith(UNCOVERED)


def _odometer(receipt: Mapping[str, Any], steps: Steps) -> Odometer:
    odometer = Odometer()
    for phase in [*phases_of(receipt["earlier"]), *steps.phases()]:
        if phase.steps:
            odometer.add_steps(phase)
    return odometer


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _joined(phases: Sequence[Phase]) -> list[dict[str, Any]]:
    return [vars(phase) for phase in joined(phases)]

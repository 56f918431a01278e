"""The audit in a receipt: its bounds, from scores and coins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from dpsgd_explorer.accounting.auditing.audit import AuditResult, audit
from dpsgd_explorer.accounting.auditing.evidence import Evidence
from dpsgd_explorer.accounting.core.neighboring_relation import NeighboringRelation
from dpsgd_explorer.accounting.core.phase import Phase
from dpsgd_explorer.accounting.released_counts import joint_noise
from dpsgd_explorer.audit.receipts.findings import Findings, same
from dpsgd_explorer.audit.receipts.spent import phases_of
from dpsgd_explorer.errors import AccountingError

#: What follows from the scores.
BOUNDS = ("epsilon_lower", "epsilon_promised", "steps", "method", "others")


def check_audit(
    findings: Findings, stated: Mapping[str, Any], receipt: Mapping[str, Any]
) -> None:
    """Compute all bounds again, and compare the canaries' steps with the run's.

    Args:
        findings: Where the figures go.
        stated: The part of the canaries.
        receipt: Of the engine.
    """
    findings.compare("audit.delta", stated["delta"], receipt["told"]["delta"])
    _check_steps(findings, stated, receipt)
    try:
        evidence = Evidence.from_data(
            stated["scores"], stated["joined"], stated["canaries"]
        )
        found = _audited(stated, evidence, receipt["done"])
    except AccountingError as error:
        place = f"audit.{error.field or 'epsilon_lower'}"
        findings.require(place, "…", f"cannot be computed: {error}", False)
        return
    findings.compare("audit.canaries", stated["canaries"], len(evidence.values))
    for name in BOUNDS:
        findings.compare(f"audit.{name}", stated[name], asdict(found)[name])
    findings.leave("audit.scores", "whether they are this run’s, only the run knows")
    findings.leave("audit.joined", "whether they are this run’s, only the run knows")
    findings.leave(
        "audit.neighboring_relation",
        "of the user’s choice; the bounds are computed for it",
    )
    findings.leave(
        "audit.confidence", "of the user’s choice; the bounds are computed at it"
    )


def _audited(
    stated: Mapping[str, Any], evidence: Evidence, done: Sequence[Mapping[str, Any]]
) -> AuditResult:
    """Return the audit of these scores; counts are part of what was promised."""
    phases = phases_of(stated["phases"])
    counted = max((x.get("count_noise_multiplier", 0.0) for x in done), default=0.0)
    promised = [
        replace(x, noise_multiplier=joint_noise(x.noise_multiplier, counted))
        for x in phases
    ]
    return audit(
        evidence.scores,
        phases,
        stated["delta"],
        stated["confidence"],
        promised=promised,
        relation=NeighboringRelation.of(stated["neighboring_relation"]),
    )


def _check_steps(
    findings: Findings, stated: Mapping[str, Any], receipt: Mapping[str, Any]
) -> None:
    """Compare the canaries' steps with those done; lost ones had none."""
    names = ("sample_rate", "noise_multiplier", "steps")
    done = [{name: line[name] for name in names} for line in receipt["done"]]
    lost = receipt["lost_steps"]
    if not lost:
        findings.recompute(
            "audit.phases", _plain(stated["phases"]), lambda: _plain(done)
        )
        return
    steps = sum(phase["steps"] for phase in stated["phases"])
    total = sum(line["steps"] for line in done)
    findings.compare("audit.phases", steps, total - lost)
    findings.leave("audit.phases", "which of the steps were lost is not in the receipt")


def _plain(phases: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the phases, those in a row with the same settings as one.

    What was measured at each step differs from the plan by rounding.
    """
    found: list[Phase] = []
    for phase in phases_of(phases):
        settings = asdict(phase)
        if found and same(asdict(found[-1]) | {"steps": phase.steps}, settings):
            found[-1] = replace(found[-1], steps=found[-1].steps + phase.steps)
        else:
            found.append(phase)
    return [asdict(phase) for phase in found]

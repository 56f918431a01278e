"""The audit in a receipt: its bounds, from scores and coins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from dpsgd_explorer.accounting.auditing.audit import audit
from dpsgd_explorer.accounting.auditing.changed_run import PlanScores
from dpsgd_explorer.accounting.auditing.evidence import Evidence
from dpsgd_explorer.accounting.core.neighboring_relation import NeighboringRelation
from dpsgd_explorer.audit.receipts.audited_steps import AuditedSteps
from dpsgd_explorer.audit.receipts.findings import Findings
from dpsgd_explorer.errors import AccountingError

#: Figures that follow from the scores.
BOUNDS = ("epsilon_lower", "epsilon_promised", "steps", "method", "others")


def check_audit(
    findings: Findings, stated: Mapping[str, Any], receipt: Mapping[str, Any]
) -> None:
    """Recomputes all bounds, and compares the canaries' steps with the run's steps.

    Args:
        findings: Result of the check; figures are added to it.
        stated: The audit in the receipt.
        receipt: The whole receipt of the engine.
    """
    findings.compare("audit.delta", stated["delta"], receipt["told"]["delta"])
    steps = AuditedSteps(stated, receipt)
    try:
        steps.check(findings)
        plans = steps.plans
        evidence = Evidence.from_data(
            stated["scores"], stated["joined"], stated["canaries"], max(1, len(plans))
        )
        pairs = zip(evidence.plan_scores, plans, strict=False)
        result = audit(
            evidence.scores,
            steps.phases,
            stated["delta"],
            stated["confidence"],
            promised=steps.promised(),
            relation=NeighboringRelation.of(stated["neighboring_relation"]),
            plans=[PlanScores(*pair) for pair in pairs],
        )
    except AccountingError as error:
        place = f"audit.{error.field or 'epsilon_lower'}"
        findings.require(place, "…", f"cannot be computed: {error}", False)
        return
    findings.compare("audit.canaries", stated["canaries"], evidence.values.shape[1])
    for name in BOUNDS:
        findings.compare(f"audit.{name}", stated[name], asdict(result)[name])
    findings.leave("audit.scores", "whether they are this run’s, only the run knows")
    findings.leave("audit.joined", "whether they are this run’s, only the run knows")
    findings.leave(
        "audit.neighboring_relation",
        "chosen by the user; the bounds are computed for it",
    )
    findings.leave(
        "audit.confidence", "chosen by the user; the bounds are computed at it"
    )

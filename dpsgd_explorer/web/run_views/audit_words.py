"""Texts on the audit of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from dpsgd_explorer.runs.store.records import Run
from dpsgd_explorer.web.questions.rounding import limit, percent, proven, whole

#: Name of the audit method that makes no assumption on the scores.
ASSUMES_NOTHING = "one run"


@dataclass(frozen=True, kw_only=True)
class AuditWords:
    """The audit of one run, with its numbers as text.

    Attributes:
        lower: Proven lower bound on ε, rounded down; "" if nothing is proven.
        promised: ε of the run, rounded up.
        counted: ε of the exact accountant for the canaries' steps, rounded up.
        steps: Number of steps with canaries.
        is_whole: If True, all steps of the run had canaries.
        unscored: Steps without canaries and the reason; "" for runs recorded before
            canaries continued after a change of plan.
        canaries: Number of canaries.
        confidence: Confidence level in percent.
        exceeds: If True, the proven ε exceeds the promised ε.
        assumption_free: Proven ε by the method without assumptions on the scores.
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
        """Returns the texts on a run with an audit; None without an audit."""
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
                f"{whole(skipped['steps'])} steps {skipped['reason']}"
                for skipped in audit.get("unscored", ())
            ),
            canaries=whole(audit["canaries"]),
            confidence=percent(audit["confidence"], 0),
            exceeds=audit["epsilon_lower"] > audit["epsilon_promised"],
            assumption_free=proven(audit["others"].get(ASSUMES_NOTHING, 0.0)),
        )

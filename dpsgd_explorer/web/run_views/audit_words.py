"""The audit of a run in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from dpsgd_explorer.runs.store.records import Run
from dpsgd_explorer.web.questions.rounding import limit, percent, proven, whole

#: Method of an audit that assumes nothing of the scores, as results name it.
ASSUMES_NOTHING = "one run"


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

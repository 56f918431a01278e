"""The check of the steps with canaries against the steps in the ledger of a receipt.

The canaries of a run continue from one engine to the next.  A receipt contains the
lines of the last engine's ledger.  If one run had several engines, ``before`` contains
the lines of the earlier engines, and ``earlier`` contains the steps of the earlier
engines as the accountant counts them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import cached_property
from typing import Any

from dpsgd_explorer.accounting.auditing.changed_run import MAX_PLANS
from dpsgd_explorer.accounting.core.phase import Phase
from dpsgd_explorer.accounting.released_counts import joint_noise
from dpsgd_explorer.audit.receipts.findings import Findings, are_equal
from dpsgd_explorer.audit.receipts.spent import phases_of

SETTINGS = ("sample_rate", "noise_multiplier", "steps")
COUNTS_UNKNOWN = (
    "the receipts of earlier engines contain the counts that these engines released"
)
LOST_STEPS_UNKNOWN = "the receipt does not show which steps were lost"
PLAN_ENDS_UNKNOWN = "the receipts of the single engines show the end of each engine"
REPORTED_BY_RUN = "the run itself gave the reason why steps had no canaries"


class AuditedSteps:
    """The steps with canaries.

    Args:
        stated: The audit in the receipt.
        receipt: The whole receipt of the engine.
    """

    def __init__(self, stated: Mapping[str, Any], receipt: Mapping[str, Any]) -> None:
        self._stated, self._receipt = stated, receipt

    @cached_property
    def phases(self) -> list[Phase]:
        """The steps, with the noise along a canary's coordinate.

        Raises:
            AccountingError: a number is outside its domain.
        """
        return phases_of(self._stated["phases"])

    @property
    def plans(self) -> list[list[Phase]]:
        """The steps with canaries, one list per plan."""
        rest, plans = self.phases, []
        for steps in self._stated.get("plans", []):
            plan, rest = _split(rest, steps)
            plans.append(plan)
        return plans

    def promised(self) -> list[Phase]:
        """Returns the steps with canaries as the accountant counts them.

        Raises:
            AccountingError: a number is outside its domain.
        """
        done = self._receipt["done"]
        counted = max((x.get("count_noise_multiplier", 0.0) for x in done), default=0.0)
        before, last = _split(self.phases, self._earlier_steps)
        earlier = phases_of(self._receipt["earlier"])
        if _steps(earlier) >= _steps(before):
            before = _last(earlier, _steps(before))
        joint = (
            replace(x, noise_multiplier=joint_noise(x.noise_multiplier, counted))
            for x in last
        )
        return [*before, *joint]

    def check(self, findings: Findings) -> None:
        """Compares the steps with canaries with the steps that were done."""
        unscored = self._stated.get("unscored")
        if unscored is not None:
            total = self._last_steps + _steps(phases_of(self._receipt["earlier"]))
            left_out = sum(entry["steps"] for entry in unscored)
            findings.compare("audit.unscored", left_out, total - self._scored)
            for i in range(len(unscored)):
                findings.leave(f"audit.unscored[{i}].reason", REPORTED_BY_RUN)
        self._check_plans(findings)
        if self._receipt["lost_steps"]:
            scored = self._scored - self._earlier_steps
            expected = self._last_steps - self._receipt["lost_steps"]
            findings.compare("audit.phases", scored, expected)
            findings.leave("audit.phases", LOST_STEPS_UNKNOWN)
            return
        findings.recompute("audit.phases", _plain(self.phases), self._expected)
        if self._earlier_steps and "before" not in self._receipt:
            findings.recompute("audit.phases", *self._rates_of_earlier())
            findings.leave("audit.phases", COUNTS_UNKNOWN)

    def _check_plans(self, findings: Findings) -> None:
        """Compares the steps of each plan with the engines' steps, where known."""
        plans = self._stated.get("plans")
        if plans is None:
            return
        findings.compare("audit.plans", sum(plans), self._scored)
        engines = [*self._receipt.get("before", []), self._receipt]
        if len(engines) == 1 and self._receipt["earlier"]:
            findings.leave("audit.plans", PLAN_ENDS_UNKNOWN)
        elif len(engines) == 1:
            expected = [self._scored] if self._scored else []
            findings.compare("audit.plans", plans, expected)
        else:
            counts = [sum(line["steps"] for line in x["done"]) for x in engines]
            counts = [steps for steps in counts if steps]
            last = sum(counts[MAX_PLANS - 1 :])
            expected = [*counts[: MAX_PLANS - 1], *([last] if last else [])]
            findings.compare("audit.plans", plans, expected)

    def _expected(self) -> list[dict[str, Any]]:
        """Returns the last steps that were done, one for each scored step."""
        before = self._receipt.get("before", [])
        earlier = [line for engine in before for line in engine["done"]]
        last, first = _of_lines(self._receipt["done"]), _of_lines(earlier)
        if not before:
            # Released counts make the accountant's noise smaller than the noise along
            # the canaries, so the stated phases are used for earlier engines.
            first, _ = _split(self.phases, self._earlier_steps)
        return _plain(_last([*first, *last], self._scored))

    def _rates_of_earlier(
        self,
    ) -> tuple[list[dict[str, Any]], Callable[[], list[dict[str, Any]]]]:
        """Returns rates and steps of earlier engines as stated, and as counted."""
        count = self._earlier_steps
        stated, _ = _split(self.phases, count)

        def counted() -> list[dict[str, Any]]:
            return _rates(_last(phases_of(self._receipt["earlier"]), count))

        return _rates(stated), counted

    @property
    def _scored(self) -> int:
        return _steps(self.phases)

    @property
    def _last_steps(self) -> int:
        """Number of steps of the last engine, with lost steps."""
        return sum(int(line["steps"]) for line in self._receipt["done"])

    @property
    def _earlier_steps(self) -> int:
        """Number of steps of earlier engines with canaries."""
        lost = int(self._receipt["lost_steps"])
        return max(0, self._scored - self._last_steps + lost)


def _of_lines(lines: Iterable[Mapping[str, Any]]) -> list[Phase]:
    return phases_of([{name: line[name] for name in SETTINGS} for line in lines])


def _steps(phases: Iterable[Phase]) -> int:
    return sum(phase.steps for phase in phases)


def _split(phases: Sequence[Phase], first: int) -> tuple[list[Phase], list[Phase]]:
    """Returns the first ``first`` steps, and the steps after them."""
    before: list[Phase] = []
    after: list[Phase] = []
    for phase in phases:
        steps = min(phase.steps, first)
        first -= steps
        before += [replace(phase, steps=steps)] if steps else []
        rest = phase.steps - steps
        after += [replace(phase, steps=rest)] if rest else []
    return before, after


def _last(phases: Sequence[Phase], steps: int) -> list[Phase]:
    """Returns the last ``steps`` steps; all if there are fewer."""
    return _split(phases, max(0, _steps(phases) - steps))[1]


def _rates(phases: Iterable[Phase]) -> list[dict[str, Any]]:
    """Returns the phases as ``_plain`` does, without regard to their noise."""
    return _plain(replace(phase, noise_multiplier=1.0) for phase in phases)


def _plain(phases: Iterable[Phase]) -> list[dict[str, Any]]:
    """Returns the phases as JSON values, consecutive ones with equal settings merged.

    The values measured at each step differ from the plan by rounding.
    """
    merged: list[Phase] = []
    for phase in phases:
        settings = asdict(phase)
        if merged and are_equal(asdict(merged[-1]) | {"steps": phase.steps}, settings):
            merged[-1] = replace(merged[-1], steps=merged[-1].steps + phase.steps)
        else:
            merged.append(phase)
    return [asdict(phase) for phase in merged]

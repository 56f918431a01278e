"""The steps that canaries went through, against those that the receipt says were done.

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

from dpsgd_explorer.accounting.auditing.changed_run import MOST_PLANS
from dpsgd_explorer.accounting.core.phase import Phase
from dpsgd_explorer.accounting.released_counts import joint_noise
from dpsgd_explorer.audit.receipts.findings import Findings, same
from dpsgd_explorer.audit.receipts.spent import phases_of

SETTINGS = ("sample_rate", "noise_multiplier", "steps")
UNKNOWN_COUNTS = (
    "the receipts of earlier engines contain the counts that these engines released"
)
WHICH_LOST = "the receipt does not show which steps were lost"
WHICH_PLAN = "the receipts of the single engines show the end of each engine"
SAID = "the run itself gave the reason why steps had no canaries"


class AuditedSteps:
    """The steps that canaries went through.

    Args:
        stated: The part of the canaries.
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
        """The same steps, one list per plan."""
        rest, found = self.phases, []
        for steps in self._stated.get("plans", []):
            own, rest = _split(rest, steps)
            found.append(own)
        return found

    def promised(self) -> list[Phase]:
        """Return the same steps as the accountant counts them.

        Raises:
            AccountingError: a number is outside its domain.
        """
        done = self._receipt["done"]
        counted = max((x.get("count_noise_multiplier", 0.0) for x in done), default=0.0)
        before, own = _split(self.phases, self._of_earlier)
        earlier = phases_of(self._receipt["earlier"])
        if _steps(earlier) >= _steps(before):
            before = _last(earlier, _steps(before))
        joint = (
            replace(x, noise_multiplier=joint_noise(x.noise_multiplier, counted))
            for x in own
        )
        return [*before, *joint]

    def check(self, findings: Findings) -> None:
        """Compare the steps with those done."""
        unscored = self._stated.get("unscored")
        if unscored is not None:
            total = self._own + _steps(phases_of(self._receipt["earlier"]))
            left_out = sum(entry["steps"] for entry in unscored)
            findings.compare("audit.unscored", left_out, total - self._scored)
            for i in range(len(unscored)):
                findings.leave(f"audit.unscored[{i}].reason", SAID)
        self._check_plans(findings)
        if self._receipt["lost_steps"]:
            own = self._scored - self._of_earlier
            expected = self._own - self._receipt["lost_steps"]
            findings.compare("audit.phases", own, expected)
            findings.leave("audit.phases", WHICH_LOST)
            return
        findings.recompute("audit.phases", _plain(self.phases), self._expected)
        if self._of_earlier and "before" not in self._receipt:
            findings.recompute("audit.phases", *self._rates_of_earlier())
            findings.leave("audit.phases", UNKNOWN_COUNTS)

    def _check_plans(self, findings: Findings) -> None:
        """Compare the steps of each plan with the engines' steps, where known."""
        plans = self._stated.get("plans")
        if plans is None:
            return
        findings.compare("audit.plans", sum(plans), self._scored)
        engines = [*self._receipt.get("before", []), self._receipt]
        if len(engines) == 1 and self._receipt["earlier"]:
            findings.leave("audit.plans", WHICH_PLAN)
        elif len(engines) == 1:
            one = [self._scored] if self._scored else []
            findings.compare("audit.plans", plans, one)
        else:
            made = [sum(line["steps"] for line in x["done"]) for x in engines]
            made = [steps for steps in made if steps]
            last = sum(made[MOST_PLANS - 1 :])
            expected = [*made[: MOST_PLANS - 1], *([last] if last else [])]
            findings.compare("audit.plans", plans, expected)

    def _expected(self) -> list[dict[str, Any]]:
        """Return the last steps that were done, one for each scored step."""
        before = self._receipt.get("before", [])
        earlier = [line for engine in before for line in engine["done"]]
        own, first = _of_lines(self._receipt["done"]), _of_lines(earlier)
        if not before:
            # Counts made the accountant's noise smaller than the canaries' own.
            first, _ = _split(self.phases, self._of_earlier)
        return _plain(_last([*first, *own], self._scored))

    def _rates_of_earlier(
        self,
    ) -> tuple[list[dict[str, Any]], Callable[[], list[dict[str, Any]]]]:
        """Return rates and steps of earlier engines as stated, and as counted."""
        count = self._of_earlier
        stated, _ = _split(self.phases, count)

        def counted() -> list[dict[str, Any]]:
            return _rates(_last(phases_of(self._receipt["earlier"]), count))

        return _rates(stated), counted

    @property
    def _scored(self) -> int:
        return _steps(self.phases)

    @property
    def _own(self) -> int:
        """Steps of the last engine, lost ones among them."""
        return sum(int(line["steps"]) for line in self._receipt["done"])

    @property
    def _of_earlier(self) -> int:
        """Steps of earlier engines that the canaries went through."""
        return max(0, self._scored - self._own + int(self._receipt["lost_steps"]))


def _of_lines(lines: Iterable[Mapping[str, Any]]) -> list[Phase]:
    return phases_of([{name: line[name] for name in SETTINGS} for line in lines])


def _steps(phases: Iterable[Phase]) -> int:
    return sum(phase.steps for phase in phases)


def _split(phases: Sequence[Phase], first: int) -> tuple[list[Phase], list[Phase]]:
    """Return the first ``first`` steps, and the steps after them."""
    before: list[Phase] = []
    after: list[Phase] = []
    for phase in phases:
        here = min(phase.steps, first)
        first -= here
        before += [replace(phase, steps=here)] if here else []
        rest = phase.steps - here
        after += [replace(phase, steps=rest)] if rest else []
    return before, after


def _last(phases: Sequence[Phase], steps: int) -> list[Phase]:
    """Return the last ``steps`` steps; all if there are fewer."""
    return _split(phases, max(0, _steps(phases) - steps))[1]


def _rates(phases: Iterable[Phase]) -> list[dict[str, Any]]:
    """Return the phases as ``_plain``, whatever their noise."""
    return _plain(replace(phase, noise_multiplier=1.0) for phase in phases)


def _plain(phases: Iterable[Phase]) -> list[dict[str, Any]]:
    """Return the phases as JSON values, those in a row with the same settings as one.

    The values measured at each step differ from the plan by rounding.
    """
    found: list[Phase] = []
    for phase in phases:
        settings = asdict(phase)
        if found and same(asdict(found[-1]) | {"steps": phase.steps}, settings):
            found[-1] = replace(found[-1], steps=found[-1].steps + phase.steps)
        else:
            found.append(phase)
    return [asdict(phase) for phase in found]

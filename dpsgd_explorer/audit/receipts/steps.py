"""The steps of a receipt: the accountant's count against the lines of the ledger."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

from dpsgd_explorer.accounting import Phase
from dpsgd_explorer.accounting.batch_sizes import is_likely_sum
from dpsgd_explorer.accounting.core.neighboring_relation import NeighboringRelation
from dpsgd_explorer.accounting.core.phase import phase_with
from dpsgd_explorer.accounting.plan import Plan
from dpsgd_explorer.accounting.released_counts import (
    COUNT_SENSITIVITY,
    gradient_noise,
    usual_count_noise,
)
from dpsgd_explorer.accounting.schedules import (
    SCHEDULES,
    Schedule,
    scheduled_phases,
)
from dpsgd_explorer.audit.receipts.correlation import (
    FIXED_SLOTS,
    check_bounds,
    check_columns,
    fixed_slots_of,
    is_correlated,
)
from dpsgd_explorer.audit.receipts.findings import Findings, are_equal
from dpsgd_explorer.errors import ConfigError, ReceiptError

ADAPTIVE = "adaptive"
#: Largest number of steps with a schedule: their values are compared one by one.
MAX_SCHEDULED_STEPS = 1_000_000
CHOSEN_BY_RUN = (
    "the bound follows counts of gradients, which the receipt does not contain"
)
NO_NOISE = "no noise was added to them"
PLANNED = "the run may end early; only the steps that were done are counted"


@dataclass(frozen=True)
class Steps:
    """The steps of one plan.

    Attributes:
        path: Place in the receipt, "" or "before[0].".
        told: Settings and number of steps that the accountant received.
        done: Lines of the ledger.
        options: Options of the engine; {} where the receipt does not contain them.
        chosen: First step and factor of each clipping bound chosen between steps.
    """

    path: str
    told: Mapping[str, Any]
    done: Sequence[Mapping[str, Any]]
    options: Mapping[str, Any]
    chosen: Sequence[Any]

    @property
    def count(self) -> int:
        """Number of steps in all lines."""
        return sum(line["steps"] for line in self.done)

    def phases(self) -> list[Phase]:
        """Returns the steps as the accountant counts them.

        Raises:
            ReceiptError: a schedule is unknown to this program.
            AccountingError: a number is outside its domain.
        """
        told, steps = self.told, self.told["steps"]
        rate, noise = told["sample_rate"], told["noise_multiplier"]
        slots = told.get("slots")
        schedule = self._schedule("noise_schedule")
        has_slots = told["sampling"] == FIXED_SLOTS
        if schedule is not None and (has_slots or is_correlated(told)):
            raise ReceiptError("options.noise_schedule", "must be left out.")
        if has_slots:
            return [fixed_slots_of(told)]
        if schedule is None or not steps:
            return [phase_with(rate, noise, steps, slots, self._bands)]
        self._limit_steps()
        planned = told["planned_steps"] or steps
        factors = [schedule.factor(step, planned) for step in range(steps)]
        return scheduled_phases(rate, noise, factors, slots)

    @property
    def _bands(self) -> int:
        """Bands of correlated noise; 1 for independent noise."""
        return len(self.told.get("noise_correlation") or [1])

    def check(self, findings: Findings) -> None:
        """Compares all lines with the settings that the accountant received."""
        self._check_told(findings)
        noise, bound = self._noise(findings), self._bound(findings)
        first = 0
        for i, line in enumerate(self.done):
            place = f"{self.path}done[{i}]."
            self._check_line(findings, place, line)
            last = first + line["steps"] - 1
            plans = {"noise_multiplier": noise, "max_grad_norm": bound}
            for name, planned in plans.items():
                if planned is not None:
                    stated = line[name], planned
                    _compare_steps(findings, place + name, *stated, first, last)
            first = last + 1

    def _check_told(self, findings: Findings) -> None:
        told, path = self.told, f"{self.path}told."
        size, batch, rate = (
            told[name] for name in ("sample_size", "expected_batch_size", "sample_rate")
        )
        slots = told.get("slots")
        if slots is not None:
            expected = -(-size // batch) if batch else None
            findings.compare(f"{path}slots", slots, expected)
        planned_rate = batch / size if size else None
        if slots:
            planned_rate = 1 / slots
        findings.compare(f"{path}sample_rate", rate, planned_rate)
        findings.compare(f"{path}steps", told["steps"], self.count)
        planned = told["planned_steps"]
        if planned is not None:
            fits = planned >= told["steps"]
            findings.require(
                f"{path}planned_steps", planned, f"at least {told['steps']}", fits
            )
        findings.leave(f"{path}planned_steps", PLANNED)
        findings.require(
            f"{path}delta",
            told["delta"],
            f"above 0, below 1/{size}",
            0 < told["delta"] * size < 1,
        )
        law = "Poisson" if slots is None else "random allocation"
        if slots is not None and told["sampling"] == FIXED_SLOTS:
            law = FIXED_SLOTS
        most = size // batch if batch else 0
        if law == FIXED_SLOTS:
            most = told["planned_steps"] or 0
        elif "noise_correlation" in told:
            law = "cyclic Poisson"
        check_columns(findings, path, told, most)
        check_bounds(findings, self.path, told, self.chosen)
        findings.compare(f"{path}sampling", told["sampling"], law)
        findings.require(
            f"{path}neighboring_relation",
            told["neighboring_relation"],
            "add_or_remove_one",
            told["neighboring_relation"] == NeighboringRelation.of("add_or_remove_one"),
        )
        if self.options:
            self._check_options(findings)

    def _check_options(self, findings: Findings) -> None:
        told, options = self.told, self.options
        bounds = options.get("max_grad_norm")
        bounds = bounds if isinstance(bounds, list) else [bounds]
        is_mean = options.get("loss_reduction") == "mean"
        mean = float(told["expected_batch_size"])
        if told.get("slots"):
            mean = told["sample_size"] / told["slots"]
        divisor = mean if is_mean else 1.0
        reduction = options.get("loss_reduction")
        findings.require(
            "options.loss_reduction",
            reduction,
            "mean or sum",
            reduction in ("mean", "sum"),
        )
        findings.compare("told.divisor", told["divisor"], divisor)
        findings.recompute(
            "told.max_grad_norm", told["max_grad_norm"], lambda: _length(bounds)
        )

    def _check_line(
        self, findings: Findings, place: str, line: Mapping[str, Any]
    ) -> None:
        told, steps = self.told, line["steps"]
        draws = steps if told["noise_multiplier"] else 0
        numbers = line["noise_draws"] * line["parameters"]
        for name, expected in (
            ("sample_rate", told["sample_rate"]),
            ("noise_draws", draws),
            ("noise_numbers", numbers),
            ("parameters", self.done[0]["parameters"]),
            ("divisor", told["divisor"]),
        ):
            findings.compare(place + name, line[name], expected)
        findings.require(f"{place}steps", steps, "at least 1", steps >= 1)
        if not draws:
            findings.leave(f"{place}parameters", NO_NOISE)

    def _noise(self, findings: Findings) -> Callable[[int], float] | None:
        """Returns the planned noise multiplier of each step; None if it is unknown."""
        told = self.told
        try:
            schedule, counts = self._schedule("noise_schedule"), self._count_noise()
        except (ReceiptError, ConfigError, ValueError, TypeError) as error:
            findings.require("options", "a schedule", str(error), False)
            return None
        for i, line in enumerate(self.done):
            counted = line.get("count_noise_multiplier", 0.0)
            findings.compare(
                f"{self.path}done[{i}].count_noise_multiplier", counted, counts
            )
        multiplier = told["noise_multiplier"]
        if schedule is None:
            return lambda _: gradient_noise(multiplier, counts)
        steps = told["planned_steps"] or max(self.count, 1)
        return lambda step: gradient_noise(
            multiplier * schedule.factor(step, steps), counts
        )

    def _bound(self, findings: Findings) -> Callable[[int], float] | None:
        """Returns the planned clipping bound of each step; None if it is unknown."""
        told, name = self.told, "clipping_schedule"
        if _is_adaptive(self.options.get(name)):
            for option in ("quantile", "learning_rate"):
                findings.leave(f"options.{name}.{option}", CHOSEN_BY_RUN)
            for i in range(len(self.done)):
                findings.leave(f"{self.path}done[{i}].max_grad_norm", CHOSEN_BY_RUN)
            return None
        try:
            schedule, chosen = self._schedule(name), _choices(self.chosen)
        except (ReceiptError, ConfigError, ValueError, TypeError) as error:
            findings.require(f"options.{name}", "a schedule", str(error), False)
            return None
        steps = told["planned_steps"] or max(self.count, 1)

        def bound(step: int) -> float:
            planned = 1.0 if schedule is None else schedule.factor(step, steps)
            later = (factor for first, factor in reversed(chosen) if first <= step)
            return float(told["max_grad_norm"] * planned * next(later, 1.0))

        return bound

    def _count_noise(self) -> float:
        """Returns the planned noise multiplier of released counts; 0 without counts."""
        clipping = self.options.get("clipping_schedule")
        if not _is_adaptive(clipping) or not self.told["noise_multiplier"]:
            return 0.0
        count_noise = clipping["count_noise"]
        if count_noise is not None:
            return float(count_noise / COUNT_SENSITIVITY)
        told = self.told
        plan = Plan(
            sample_size=told["sample_size"],
            expected_batch_size=told["expected_batch_size"],
            steps=told["planned_steps"] or max(told["steps"], 1),
            noise_multiplier=told["noise_multiplier"],
            delta=told["delta"],
            noise_schedule=self._schedule("noise_schedule"),
            sampling="poisson" if told.get("slots") is None else "random_allocation",
        )
        return usual_count_noise(plan)

    def _schedule(self, name: str) -> Schedule | None:
        data = self.options.get(name)
        if data is None:
            return None
        self._limit_steps()
        return _schedule_of(f"options.{name}", data)

    def _limit_steps(self) -> None:
        most = max(self.told["planned_steps"] or 0, self.told["steps"], self.count)
        if most > MAX_SCHEDULED_STEPS:
            raise ReceiptError(
                "told.steps", f"must be at most {MAX_SCHEDULED_STEPS} with a schedule."
            )


def _compare_steps(
    findings: Findings,
    path: str,
    stated: float,
    planned: Callable[[int], float],
    first: int,
    last: int,
) -> None:
    """Compares the value of a line with the planned value of each of its steps."""
    is_long = last - first >= MAX_SCHEDULED_STEPS
    values = map(planned, [first, last] if is_long else range(first, last + 1))
    different = next((x for x in values if not are_equal(stated, x)), stated)
    findings.compare(path, stated, different)


def _length(bounds: Sequence[Any]) -> float:
    if not all(isinstance(x, int | float) for x in bounds):
        raise ReceiptError("options.max_grad_norm", "must be numbers.")
    return math.hypot(*bounds)


def _is_adaptive(clipping: object) -> TypeGuard[Mapping[str, Any]]:
    return isinstance(clipping, Mapping) and clipping.get("name") == ADAPTIVE


def _choices(pairs: Sequence[Any]) -> list[tuple[int, float]]:
    return [(int(first), float(factor)) for first, factor in pairs]


def _schedule_of(path: str, data: object) -> Schedule:
    """Returns the schedule of JSON values.

    Raises:
        ReceiptError: no schedule has this name, or the values do not fit it.
    """
    if not isinstance(data, Mapping) or data.get("name") not in SCHEDULES:
        raise ReceiptError(path, "must be a schedule of this program.")
    values = {
        name: _schedule_of(path, value) if isinstance(value, Mapping) else value
        for name, value in data.items()
        if name != "name"
    }
    try:
        return SCHEDULES[data["name"]](**values)
    except TypeError as error:
        raise ReceiptError(path, f"must be a schedule: {error}.") from None


def check_batch_sizes(
    findings: Findings, sizes: Mapping[str, Any], told: Mapping[str, Any], drawn: int
) -> None:
    """Compares the sizes of batches with each other and with the sampling.

    Args:
        findings: Result of the check; figures are added to it.
        sizes: Sizes in the receipt.
        told: Settings that the accountant received.
        drawn: Number of batches that were drawn; other steps were lost.
    """
    path = "not_private.batch_sizes."
    findings.compare(f"{path}batches", sizes["batches"], drawn)
    low, high = sizes["smallest"], sizes["largest"]
    within = (low or 0) * drawn <= sizes["samples"] <= (high or 0) * drawn
    likely = is_likely_sum(
        sizes["samples"],
        drawn,
        sample_size=told["sample_size"],
        sample_rate=told["sample_rate"],
        # Lost steps leave epochs incomplete.
        slots=(told.get("slots") or None) if drawn == told["steps"] else None,
    )
    findings.require(
        f"{path}samples",
        sizes["samples"],
        "between smallest and largest times the number of batches, and likely",
        within and likely,
    )
    has_empty = sizes["empty"] > 0
    fits = sizes["empty"] <= drawn and (not drawn or has_empty == (low == 0))
    findings.require(f"{path}empty", sizes["empty"], "consistent with smallest", fits)
    for name in ("samples", "smallest", "largest", "empty"):
        findings.leave(path + name, "the receipt does not contain single batches")

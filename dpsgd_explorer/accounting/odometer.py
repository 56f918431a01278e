"""A privacy odometer: ε of all mechanisms that ran on the same records.

| mechanism | as a phase |
|---|---|
| DP-SGD | steps of its sample rate and noise multiplier |
| DP-SGD with random allocation | steps of its slots and noise multiplier |
| a Gaussian query | one step on all records |
| SSP, AdaSSP: several Gaussians | one step on all records for each |

The entries are plain data; δ and the accountant are arguments of each query.  A
decision that depends on the reported ε is not covered by it (Rogers et al. 2016,
arXiv:1605.08294).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

from dpsgd_explorer.accounting import calibration
from dpsgd_explorer.accounting.core import validation
from dpsgd_explorer.accounting.core.accountant import Phase
from dpsgd_explorer.accounting.core.intervals import Interval
from dpsgd_explorer.accounting.core.neighboring_relation import (
    ADD_OR_REMOVE_ONE,
    NeighboringRelation,
)
from dpsgd_explorer.accounting.core.phase import (
    AllocationPhase,
    is_continued_by,
    phase_of,
)
from dpsgd_explorer.accounting.privacy_loss_distribution import PrivacyLossDistribution
from dpsgd_explorer.accounting.queries import (
    all_answers,
    delta_interval,
    epsilon_interval,
)
from dpsgd_explorer.accounting.rdp.curve import RdpCurve
from dpsgd_explorer.accounting.registry import ACCOUNTANTS, accountant_and_relation
from dpsgd_explorer.accounting.sampling_schemes import RANDOM_ALLOCATION
from dpsgd_explorer.accounting.trade_off_curves import trade_off_intervals
from dpsgd_explorer.errors import AccountingError

#: Version of the stored JSON.
VERSION = 1
DP_SGD, GAUSSIAN = "dp_sgd", "gaussian"
MECHANISMS = (DP_SGD, GAUSSIAN, RANDOM_ALLOCATION)


@dataclass(frozen=True)
class Entry:
    """One mechanism that ran.

    Attributes:
        label: Name for display.
        mechanism: One of MECHANISMS.
        phase: Steps of the mechanism, as an accountant counts them.

    Raises:
        AccountingError: the mechanism is unknown, or is not that of the phase.
    """

    label: str
    mechanism: str
    phase: Phase

    def __post_init__(self) -> None:
        if self.mechanism not in MECHANISMS:
            rule = f"one of {', '.join(MECHANISMS)}"
            validation.refuse("mechanism", rule, self.mechanism)
        if self.mechanism == GAUSSIAN and self.phase.sample_rate != 1:
            rule = "1 for a Gaussian query"
            validation.refuse("sample_rate", rule, self.phase.sample_rate)
        has_slots = isinstance(self.phase, AllocationPhase)
        if has_slots != (self.mechanism == RANDOM_ALLOCATION):
            rule = f"{RANDOM_ALLOCATION!r} for a phase with slots, and only for it"
            validation.refuse("mechanism", rule, self.mechanism)


class Odometer:
    """Composes mechanisms, in any order.

    >>> ledger = Odometer()
    >>> ledger.add_dp_sgd(0.01, 1.1, 1000)
    >>> ledger.add_gaussian(10.0)
    >>> round(ledger.epsilon(1e-5), 4), ledger
    (1.5649, Odometer(entries=2, steps=1001))

    Attributes:
        entries: Mechanisms so far.  Further steps with the label and settings of the
            last entry are added to that entry.

    Source: Rogers et al. (2016), arXiv:1605.08294.
    """

    def __init__(self, entries: Sequence[Entry] = ()) -> None:
        self.entries: list[Entry] = list(entries)

    def __repr__(self) -> str:
        """Returns the numbers of entries and steps."""
        steps = sum(phase.steps for phase in self.phases)
        return f"Odometer(entries={len(self.entries)}, steps={steps})"

    @property
    def phases(self) -> list[Phase]:
        """Phases of the entries."""
        return [entry.phase for entry in self.entries]

    def add_dp_sgd(
        self,
        sample_rate: float,
        noise_multiplier: float,
        steps: int,
        label: str = "DP-SGD",
    ) -> None:
        """Adds steps of DP-SGD."""
        self._add(Entry(label, DP_SGD, Phase(sample_rate, noise_multiplier, steps)))

    def add_random_allocation(
        self,
        slots: int,
        noise_multiplier: float,
        steps: int,
        label: str = "DP-SGD",
    ) -> None:
        """Adds steps of DP-SGD with random allocation.

        The steps begin with an epoch; the last epoch may be incomplete.

        >>> ledger = Odometer()
        >>> ledger.add_random_allocation(100, 1.1, 1000)
        >>> ledger.add_gaussian(10.0)
        >>> round(ledger.epsilon(1e-5), 3)
        1.475

        Args:
            slots: Steps of an epoch t; each record draws one of them per epoch.
            noise_multiplier: Noise std over the sensitivity.
            steps: Number of steps.
            label: Name for display.
        """
        phase = AllocationPhase(
            slots=slots, noise_multiplier=noise_multiplier, steps=steps
        )
        self.add_steps(phase, label)

    def add_steps(self, phase: Phase, label: str = "DP-SGD") -> None:
        """Adds steps of DP-SGD with the sampling of a phase."""
        has_slots = isinstance(phase, AllocationPhase)
        mechanism = RANDOM_ALLOCATION if has_slots else DP_SGD
        self._add(Entry(label, mechanism, phase))

    def add_gaussian(self, noise_multiplier: float, label: str = "query") -> None:
        """Adds one Gaussian query of all records.

        Args:
            noise_multiplier: Noise std over the sensitivity of the query.
            label: Name for display.
        """
        self._add(Entry(label, GAUSSIAN, Phase(1.0, noise_multiplier, 1)))

    def add_gaussians(self, noise_multipliers: Sequence[float], label: str) -> None:
        """Adds a mechanism of several Gaussian releases, such as SSP."""
        for noise in noise_multipliers:
            self.add_gaussian(noise, label)

    def _add(self, entry: Entry) -> None:
        if self.entries:
            last = self.entries[-1]
            is_alike = (last.label, last.mechanism) == (entry.label, entry.mechanism)
            if is_alike and is_continued_by(last.phase, entry.phase):
                total = last.phase.steps + entry.phase.steps
                further = replace(entry.phase, steps=total)
                self.entries[-1] = replace(last, phase=further)
                return
        self.entries.append(entry)

    def epsilon(
        self,
        delta: float,
        accountant: str = "exact",
        neighboring_relation: str = ADD_OR_REMOVE_ONE,
    ) -> float:
        """Returns ε of all entries.

        Raises:
            AccountingError: an argument is outside its domain, or the accountant does
                not apply to the entries.
        """
        chosen, relation = accountant_and_relation(accountant, neighboring_relation)
        delta = validation.delta(delta)
        if not self.entries:
            return 0.0
        total = sum(phase.steps for phase in self.phases)
        spent = chosen.epsilons(self.phases, [total], delta, relation)
        return float(spent[0])

    def epsilon_interval(
        self,
        delta: float,
        accountant: str = "exact",
        neighboring_relation: str = ADD_OR_REMOVE_ONE,
    ) -> Interval:
        """Returns the interval of ε of all entries.

        Raises:
            AccountingError: as ``epsilon``.
        """
        terms = (delta, accountant, neighboring_relation)
        return epsilon_interval(self.phases, *terms)

    def delta(
        self,
        epsilon: float,
        accountant: str = "exact",
        neighboring_relation: str = ADD_OR_REMOVE_ONE,
    ) -> float:
        """Returns δ of all entries at epsilon >= 0.

        >>> ledger = Odometer()
        >>> ledger.add_gaussian(4.0)
        >>> ledger
        Odometer(entries=1, steps=1)
        >>> f"{ledger.delta(1.0):.3g}"
        '2.92e-06'

        Raises:
            AccountingError: as ``epsilon``.
        """
        terms = (epsilon, accountant, neighboring_relation)
        return delta_interval(self.phases, *terms).value

    def epsilons(
        self, delta: float, neighboring_relation: str = ADD_OR_REMOVE_ONE
    ) -> dict[str, float]:
        """Returns ε of all entries, by the name of each accountant.

        An accountant that does not apply, such as zCDP to sampled steps, is left out.
        An ε with status "approximation" may be below the true ε.

        Raises:
            AccountingError: an argument is outside its domain.
        """
        relation = NeighboringRelation.of(neighboring_relation)
        delta = validation.delta(delta)
        if not self.entries:
            return dict.fromkeys(ACCOUNTANTS, 0.0)
        answers = all_answers(self.phases, delta, neighboring_relation=relation)
        return {
            name: answer.epsilon
            for name, answer in answers.items()
            if answer.epsilon is not None
        }

    def noise_multiplier(
        self,
        *,
        target_epsilon: float,
        sample_rate: float,
        steps: int,
        delta: float,
        accountant: str = "exact",
        neighboring_relation: str = ADD_OR_REMOVE_ONE,
    ) -> float:
        """Returns the least noise multiplier of further steps that meets the target.

        Raises:
            AccountingError: an argument is outside its domain, or no noise reaches the
                target, for example because the entries exceed it alone.
        """
        return calibration.noise_multiplier(
            target_epsilon=target_epsilon,
            sample_rate=sample_rate,
            steps=steps,
            delta=delta,
            accountant=accountant,
            neighboring_relation=neighboring_relation,
            before=self.phases,
        )

    def sample_rate(
        self,
        *,
        target_epsilon: float,
        noise_multiplier: float,
        steps: int,
        delta: float,
        accountant: str = "exact",
        neighboring_relation: str = ADD_OR_REMOVE_ONE,
    ) -> float:
        """Returns the largest sample rate of further steps that meets the target.

        Raises:
            AccountingError: as ``noise_multiplier``.
        """
        return calibration.sample_rate(
            target_epsilon=target_epsilon,
            noise_multiplier=noise_multiplier,
            steps=steps,
            delta=delta,
            accountant=accountant,
            neighboring_relation=neighboring_relation,
            before=self.phases,
        )

    def steps(
        self,
        *,
        target_epsilon: float,
        sample_rate: float,
        noise_multiplier: float,
        delta: float,
        accountant: str = "exact",
        neighboring_relation: str = ADD_OR_REMOVE_ONE,
    ) -> int:
        """Returns the largest number of further steps that meets the target, or 0.

        Raises:
            AccountingError: an argument is outside its domain.
        """
        return calibration.steps(
            target_epsilon=target_epsilon,
            sample_rate=sample_rate,
            noise_multiplier=noise_multiplier,
            delta=delta,
            accountant=accountant,
            neighboring_relation=neighboring_relation,
            before=self.phases,
        )

    def privacy_loss_distribution(
        self,
        neighboring_relation: str = ADD_OR_REMOVE_ONE,
        interval: float | None = None,
    ) -> PrivacyLossDistribution:
        """Returns the privacy loss distribution of all entries."""
        return PrivacyLossDistribution.of(self.phases, neighboring_relation, interval)

    def rdp_curve(self, neighboring_relation: str = ADD_OR_REMOVE_ONE) -> RdpCurve:
        """Returns bounds on the Rényi divergences of all entries."""
        return RdpCurve.of(self.phases, neighboring_relation)

    def trade_off(
        self,
        false_positive_rates: Sequence[float] | float,
        accountant: str = "exact",
        neighboring_relation: str = ADD_OR_REMOVE_ONE,
    ) -> list[Interval]:
        """Returns the interval of the largest true positive rate at each rate.

        The attack is the best one on all entries together.

        Raises:
            AccountingError: as ``epsilon``.
        """
        terms = (accountant, neighboring_relation)
        return trade_off_intervals(self.phases, false_positive_rates, *terms)

    def to_json(self) -> str:
        """Returns a checkpoint as JSON."""
        entries = [asdict(entry) for entry in self.entries]
        return json.dumps({"version": VERSION, "entries": entries}, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Returns the odometer of a checkpoint that ``to_json`` returned.

        Raises:
            AccountingError: the text is no such checkpoint.
        """
        try:
            data: dict[str, Any] = json.loads(text)
            if data["version"] != VERSION or data["version"] is True:
                validation.refuse("version", f"{VERSION}", data["version"])
            if unknown := data.keys() - {"version", "entries"}:
                raise KeyError(*unknown)
            return cls(
                [
                    Entry(**{**entry, "phase": phase_of(entry["phase"])})
                    for entry in data["entries"]
                ]
            )
        except (KeyError, TypeError, json.JSONDecodeError) as error:
            raise AccountingError(
                f"odometer must be a checkpoint of an odometer, got {text[:80]!r}. "
                "Pass the text that to_json returned.",
                field="odometer",
            ) from error

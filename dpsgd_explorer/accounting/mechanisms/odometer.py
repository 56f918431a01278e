"""A privacy odometer: ε of all mechanisms that ran on the same records.

| mechanism | as a phase |
|---|---|
| DP-SGD | steps of its sample rate and noise multiplier |
| DP-SGD with random allocation | steps of its slots and noise multiplier |
| a Gaussian query | one step on all records |
| SSP, AdaSSP: several Gaussians | one step on all records for each |

Other mechanisms, such as Laplace noise, are composed with all phases in
``mechanisms.composition``.

The entries are plain data; δ and the accountant are arguments of each query.  A
decision that depends on the reported ε is not covered by it (Rogers et al. 2016,
arXiv:1605.08294).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np

from dpsgd_explorer.accounting import calibration
from dpsgd_explorer.accounting.core import validation
from dpsgd_explorer.accounting.core.accountant import Phase
from dpsgd_explorer.accounting.core.intervals import Interval
from dpsgd_explorer.accounting.core.neighboring_relation import (
    ADD_OR_REMOVE_ONE,
    NeighboringRelation,
)
from dpsgd_explorer.accounting.core.phase import AllocationPhase, is_continued_by
from dpsgd_explorer.accounting.core.root_finding import unreachable
from dpsgd_explorer.accounting.mechanisms.composition import Composition
from dpsgd_explorer.accounting.mechanisms.entries import (
    DP_SGD,
    GAUSSIAN,
    Entry,
    MechanismEntry,
    entries_of,
    json_of,
)
from dpsgd_explorer.accounting.mechanisms.noise import FixedSizeSteps, Mechanism
from dpsgd_explorer.accounting.mechanisms.searches import (
    most_steps_within,
    nearest_within,
)
from dpsgd_explorer.accounting.plan import Plan
from dpsgd_explorer.accounting.privacy_loss_distribution import PrivacyLossDistribution
from dpsgd_explorer.accounting.queries import (
    all_answers,
    delta_interval,
    epsilon_interval,
)
from dpsgd_explorer.accounting.rdp.curve import RdpCurve
from dpsgd_explorer.accounting.registry import (
    ACCOUNTANTS,
    accountant_and_relation,
    deciding_name,
)
from dpsgd_explorer.accounting.sampling_schemes import RANDOM_ALLOCATION
from dpsgd_explorer.accounting.trade_off_curves import (
    checked_rates,
    trade_off_intervals,
)
from dpsgd_explorer.errors import AccountingError

#: Name of the accountant that composes other mechanisms.
EXACT = "exact"


class Odometer:
    """Composes mechanisms, in any order.

    >>> ledger = Odometer()
    >>> ledger.add_dp_sgd(0.01, 1.1, 1000)
    >>> ledger.add_gaussian(10.0)
    >>> round(ledger.epsilon(1e-5), 4), ledger
    (1.5649, Odometer(entries=2, steps=1001))

    Other mechanisms have a two-sided answer too:

    >>> from dpsgd_explorer.accounting import LaplaceMechanism
    >>> ledger.add(LaplaceMechanism(scale=2.0), label="count")
    >>> spent = ledger.epsilon_interval(1e-5)
    >>> spent.status, round(spent.lower, 3), round(spent.upper, 3)
    ('exact', 1.994, 1.994)

    Attributes:
        entries: Mechanisms so far.  Further steps with the label and settings of the
            last entry are added to that entry.

    Source: Rogers et al. (2016), arXiv:1605.08294.
    """

    def __init__(self, entries: Sequence[Entry | MechanismEntry] = ()) -> None:
        self.entries: list[Entry | MechanismEntry] = list(entries)

    def __repr__(self) -> str:
        """Returns the numbers of entries and steps."""
        steps = sum(phase.steps for phase in self.phases)
        for mechanism, count in self.mechanisms:
            if isinstance(mechanism, FixedSizeSteps):
                steps += count * mechanism.steps
        return f"Odometer(entries={len(self.entries)}, steps={steps})"

    @classmethod
    def of(cls, plan: Plan, label: str = "DP-SGD") -> Self:
        """Returns an odometer with all steps of a plan, whatever their sampling.

        Every question about the run has a method of the odometer:

        >>> plan = Plan.create(
        ...     sample_size=60_000,
        ...     expected_batch_size=600,
        ...     epochs=10,
        ...     noise_multiplier=1.1,
        ...     delta=1e-6,
        ... )
        >>> run = Odometer.of(plan)
        >>> round(run.epsilon(1e-6), 3), f"{run.delta(1.0):.3g}"
        (1.753, '0.000767')
        >>> round(run.trade_off(0.1)[0].value, 3)
        0.179
        >>> round(run.privacy_loss_distribution().epsilon(1e-6), 3)
        1.753
        >>> round(run.rdp_curve().epsilon(1e-6), 3)
        1.977

        Args:
            plan: The plan.
            label: Name for display.
        """
        ledger = cls()
        for phase in plan.phases:
            ledger.add_steps(phase, label)
        return ledger

    @property
    def phases(self) -> list[Phase]:
        """Phases of the entries that are steps."""
        return [entry.phase for entry in self.entries if isinstance(entry, Entry)]

    @property
    def mechanisms(self) -> list[tuple[Mechanism | PrivacyLossDistribution, int]]:
        """Other mechanisms of the entries, and how often each of them ran."""
        others = (entry for entry in self.entries if isinstance(entry, MechanismEntry))
        return [(entry.mechanism, entry.count) for entry in others]

    def add(
        self,
        mechanism: Mechanism | PrivacyLossDistribution,
        label: str = "query",
        count: int = 1,
    ) -> None:
        """Adds a mechanism other than Gaussian noise.

        Args:
            mechanism: ``LaplaceMechanism``, ``DiscreteGaussianMechanism``,
                ``RandomizedResponse``, ``FixedSizeSteps``, ``EpsilonDelta`` or
                ``PrivacyLossDistribution``.  The last two are upper bounds, and count
                as 0 in lower bounds.
            label: Name for display.
            count: How often it ran, each time with new noise.

        Raises:
            AccountingError: an argument is outside its domain.
        """
        self.entries.append(MechanismEntry(label, mechanism, count))

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

    def add_fixed_size(
        self,
        sample_rate: float,
        noise_multiplier: float,
        steps: int,
        label: str = "DP-SGD",
    ) -> None:
        """Adds steps of DP-SGD on batches of fixed size.

        The answer is two-sided, for one replaced record:

        >>> ledger = Odometer()
        >>> ledger.add_dp_sgd(0.02, 1.5, 50)
        >>> ledger.add_fixed_size(0.02, 1.5, 50)
        >>> spent = ledger.epsilon_interval(1e-6, "exact", "replace_one")
        >>> spent.status, round(spent.lower, 2), round(spent.upper, 2)
        ('bound', 3.4, 3.49)

        Args:
            sample_rate: Batch size over the number of records.
            noise_multiplier: Noise std over the clipping bound.
            steps: Number of steps, at least 1; each of them draws a new batch.
            label: Name for display.

        Raises:
            AccountingError: an argument is outside its domain.
        """
        further = FixedSizeSteps(sample_rate, noise_multiplier, steps)
        last = self.entries[-1] if self.entries else None
        if isinstance(last, MechanismEntry) and last.label == label:
            before = last.mechanism
            if isinstance(before, FixedSizeSteps) and last.count == 1:
                total = replace(further, steps=before.steps + further.steps)
                if replace(before, steps=total.steps) == total:
                    self.entries[-1] = replace(last, mechanism=total)
                    return
        self.entries.append(MechanismEntry(label, further, 1))

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
        last = self.entries[-1] if self.entries else None
        if isinstance(last, Entry):
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
        terms = (delta, accountant, neighboring_relation)
        return self.epsilon_interval(*terms).value

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
        if self.mechanisms:
            at_delta = validation.delta(delta)
            together = self._composed(accountant, neighboring_relation)
            return together.epsilon_interval(at_delta)
        if not self.entries:
            accountant_and_relation(accountant, neighboring_relation)
            validation.delta(delta)
            return Interval(0.0, 0.0, 0.0, "exact")
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
        return self.delta_interval(*terms).value

    def delta_interval(
        self,
        epsilon: float,
        accountant: str = "exact",
        neighboring_relation: str = ADD_OR_REMOVE_ONE,
    ) -> Interval:
        """Returns the interval of δ of all entries at epsilon >= 0.

        Raises:
            AccountingError: as ``epsilon``.
        """
        if self.mechanisms:
            losses = np.array([validation.epsilon(epsilon)])
            together = self._composed(accountant, neighboring_relation)
            return together.delta_intervals(losses)[0]
        terms = (epsilon, accountant, neighboring_relation)
        return delta_interval(self.phases, *terms)

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
        if self.mechanisms:
            return {EXACT: self.epsilon(delta, EXACT, relation)}
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

        With mechanisms other than steps, it is within 0.1% of the least one.

        Raises:
            AccountingError: an argument is outside its domain, or no noise reaches the
                target, for example because the entries exceed it alone.
        """
        terms = (delta, accountant, neighboring_relation)
        least = calibration.noise_multiplier(
            target_epsilon=target_epsilon,
            sample_rate=sample_rate,
            steps=steps,
            delta=delta,
            accountant=accountant,
            neighboring_relation=neighboring_relation,
            before=self.phases,
        )
        if not self.mechanisms:
            return least

        def is_within(noise: float) -> bool:
            return self._spent(sample_rate, noise, steps, *terms) <= target_epsilon

        return self._found(least, is_within, 2.0, target_epsilon, *terms)

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

        With mechanisms other than steps, it is within 0.1% of the largest one.

        Raises:
            AccountingError: as ``noise_multiplier``.
        """
        terms = (delta, accountant, neighboring_relation)
        most = calibration.sample_rate(
            target_epsilon=target_epsilon,
            noise_multiplier=noise_multiplier,
            steps=steps,
            delta=delta,
            accountant=accountant,
            neighboring_relation=neighboring_relation,
            before=self.phases,
        )
        if not self.mechanisms:
            return most

        def is_within(rate: float) -> bool:
            return self._spent(rate, noise_multiplier, steps, *terms) <= target_epsilon

        return self._found(most, is_within, 0.5, target_epsilon, *terms)

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
        terms = (delta, accountant, neighboring_relation)
        most = calibration.steps(
            target_epsilon=target_epsilon,
            sample_rate=sample_rate,
            noise_multiplier=noise_multiplier,
            delta=delta,
            accountant=accountant,
            neighboring_relation=neighboring_relation,
            before=self.phases,
        )
        if not self.mechanisms:
            return most

        def is_within(steps: int) -> bool:
            spent = self._spent(sample_rate, noise_multiplier, steps, *terms)
            return spent <= target_epsilon

        return most_steps_within(most, is_within)

    def _found(
        self,
        start: float,
        is_within: Callable[[float], bool],
        factor: float,
        target_epsilon: float,
        *terms: Any,
    ) -> float:
        """Returns the result of ``nearest_within``.

        Raises:
            AccountingError: the entries alone exceed the target, or nearly.
        """
        spent = self.epsilon(*terms)
        found = None
        if spent <= target_epsilon:
            found = nearest_within(start, is_within, factor)
        if found is None:
            raise unreachable(target_epsilon, spent)
        return found

    def _spent(
        self, sample_rate: float, noise_multiplier: float, steps: int, *terms: Any
    ) -> float:
        """Returns ε of all entries and of further steps."""
        both = Odometer(self.entries)
        both.add_dp_sgd(sample_rate, noise_multiplier, steps)
        return both.epsilon(*terms)

    def privacy_loss_distribution(
        self,
        neighboring_relation: str = ADD_OR_REMOVE_ONE,
        interval: float | None = None,
    ) -> PrivacyLossDistribution:
        """Returns the privacy loss distribution of all entries.

        With mechanisms other than steps, interval must be None.
        """
        if self.mechanisms:
            if interval is not None:
                rule = "None for mechanisms other than steps"
                validation.refuse("interval", rule, interval)
            relation = NeighboringRelation.of(neighboring_relation)
            return self._composed(EXACT, relation).distribution(relation)
        return PrivacyLossDistribution.of(self.phases, neighboring_relation, interval)

    def rdp_curve(self, neighboring_relation: str = ADD_OR_REMOVE_ONE) -> RdpCurve:
        """Returns bounds on the Rényi divergences of all entries, if all are steps."""
        if self.mechanisms:
            raise AccountingError(
                "entries must be steps and Gaussian queries for a Rényi curve, got a "
                "mechanism of another kind. Call privacy_loss_distribution instead.",
                field="entries",
            )
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
        if self.mechanisms:
            rates = checked_rates(false_positive_rates)
            together = self._composed(accountant, neighboring_relation)
            return together.trade_off(rates)
        terms = (accountant, neighboring_relation)
        return trade_off_intervals(self.phases, false_positive_rates, *terms)

    def to_json(self) -> str:
        """Returns a checkpoint as JSON."""
        return json_of(self.entries)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Returns the odometer of a checkpoint that ``to_json`` returned.

        Raises:
            AccountingError: the text is no such checkpoint.
        """
        return cls(entries_of(text))

    def _composed(self, accountant: str, neighboring_relation: str) -> Composition:
        """Returns the composition of steps and other mechanisms.

        Raises:
            AccountingError: the accountant is not the exact one.
        """
        relation = NeighboringRelation.of(neighboring_relation)
        if deciding_name(accountant) != EXACT:
            rule = "'exact', which alone composes other mechanisms with steps"
            validation.refuse("accountant", rule, accountant)
        return Composition(self.phases, self.mechanisms, relation)

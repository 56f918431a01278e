"""The plan of a run: its sampler, divisor, steps, noise and accountant."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from typing import Self

from dpsgd_explorer.accounting import calibration, queries
from dpsgd_explorer.accounting.core import validation
from dpsgd_explorer.accounting.core.accountant import Phase
from dpsgd_explorer.accounting.core.neighboring_relation import ADD_OR_REMOVE_ONE
from dpsgd_explorer.accounting.core.phase import phase_with
from dpsgd_explorer.accounting.correlated.strategies import (
    ToeplitzStrategy,
    fixed_slots,
)
from dpsgd_explorer.accounting.epochs import slots_of, steps_of
from dpsgd_explorer.accounting.registry import accountant_for, deciding_name
from dpsgd_explorer.accounting.sampling_schemes import (
    FIXED_SLOTS,
    POISSON,
    RANDOM_ALLOCATION,
    check_strategy,
)
from dpsgd_explorer.accounting.schedules import Schedule, scheduled_phases
from dpsgd_explorer.accounting.target import Target
from dpsgd_explorer.errors import AccountingError, ConfigError
from dpsgd_explorer.validation import shown

#: Sampling schemes of plans.
SAMPLINGS_OF_PLANS = (POISSON, RANDOM_ALLOCATION, FIXED_SLOTS)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Settings of a run that decide its ε, checked on creation.

    ε is computed for adding or removing one record.

    >>> plan = Plan.create(
    ...     sample_size=60_000,
    ...     expected_batch_size=600,
    ...     epochs=10,
    ...     target_epsilon=2.0,
    ...     delta=1e-6,
    ... )
    >>> plan.steps, round(plan.noise_multiplier, 4), round(plan.epsilon(), 4)
    (1000, 1.029, 2.0)

    With random allocation, each record is used once per epoch, in a random step:

    >>> plan = Plan.create(
    ...     sample_size=60_000,
    ...     expected_batch_size=600,
    ...     epochs=10,
    ...     noise_multiplier=1.029,
    ...     delta=1e-6,
    ...     sampling="random_allocation",
    ... )
    >>> plan.slots, plan.steps, round(plan.epsilon(), 3)
    (100, 1000, 1.852)

    Attributes:
        sample_size: Records to learn from, N.
        expected_batch_size: Mean records per step.  Random allocation has a mean of at
            most this number, ``mean_batch_size``.
        steps: Updates of the model, T.
        noise_multiplier: Noise std over the clipping bound, σ; 0 is not private.
        delta: Below 1/N.
        accountant: Name in ACCOUNTANTS, or "all": the exact accountant decides, and ε
            by every accountant is reported.
        noise_schedule: Factor of the noise multiplier at each step, 1 at the first
            step; None means 1 at all steps.  With random allocation, the noise changes
            only between epochs.
        sampling: "poisson", "random_allocation" or "fixed_slots": each record once per
            epoch, always in the same step of it.
        noise_correlation: Strategy of noise that is correlated between steps, with
            equally many steps; None for independent noise.  σ is then the noise std
            over the clipping bound and the strategy's ``column_norm``.  Batches are
            cyclic Poisson samples, see ``cyclic_poisson``, or have ``fixed_slots``.

    Raises:
        ConfigError: names the attribute that is outside its domain.
    """

    sample_size: int
    expected_batch_size: int
    steps: int
    noise_multiplier: float
    delta: float
    accountant: str = "exact"
    noise_schedule: Schedule | None = None
    sampling: str = POISSON
    noise_correlation: ToeplitzStrategy | None = None

    def __post_init__(self) -> None:
        with config_errors():
            size, batch = _sizes(self.sample_size, self.expected_batch_size)
            checked = {
                "sample_size": size,
                "expected_batch_size": batch,
                "steps": validation.steps(self.steps, least=1),
                "noise_multiplier": validation.noise_multiplier(self.noise_multiplier),
                "delta": validation.delta(self.delta),
            }
            for name, value in checked.items():
                object.__setattr__(self, name, value)
            if self.delta >= 1 / self.sample_size:
                rule = f"below 1/N = 1/{self.sample_size}"
                validation.refuse("delta", rule, self.delta)
            validation.one_of("sampling", self.sampling, SAMPLINGS_OF_PLANS)
            check_strategy(
                self.noise_correlation,
                sampling=self.sampling,
                steps=self.steps,
                most_bands=size // batch,
                has_schedule=self.noise_schedule is not None,
            )
            whole_run = [self.phase_of(1)]
            if reason := accountant_for(self.accountant).why_not(whole_run):
                raise AccountingError(reason, field="accountant")
            _ = self.phases  # raises if scheduled noise is outside its domain

    @classmethod
    def create(
        cls,
        *,
        sample_size: int,
        expected_batch_size: int,
        delta: float,
        steps: int | None = None,
        epochs: float | None = None,
        noise_multiplier: float | None = None,
        target_epsilon: float | None = None,
        accountant: str = "exact",
        noise_schedule: Schedule | None = None,
        sampling: str = POISSON,
        noise_correlation: ToeplitzStrategy | None = None,
    ) -> Self:
        """Returns the plan, with steps from epochs and noise from a target.

        Args:
            sample_size: Records to learn from, N.
            expected_batch_size: Mean number of records per step, from 1 to N.
            delta: Below 1/N.
            steps: Updates of the model.
            epochs: Passes over the data, in place of steps:
                steps = ceil(epochs N / expected_batch_size), or ceil(epochs slots) with
                random allocation and fixed slots.
            noise_multiplier: Noise std over the clipping bound; 0 is not private.
            target_epsilon: Largest ε of all steps, in place of the noise multiplier.
            accountant: Name in ACCOUNTANTS.
            noise_schedule: Factors of the noise multiplier; a target is met by all
                steps together.
            sampling: "poisson", "random_allocation" or "fixed_slots".
            noise_correlation: Strategy of correlated noise, or None.

        Raises:
            ConfigError: names the argument that is outside its domain, missing, or one
                too many; or no noise reaches the target.
        """
        with config_errors():
            sample_size, batch = _sizes(sample_size, expected_batch_size)
            _check_one_of(steps=steps, epochs=epochs)
            _check_one_of(
                noise_multiplier=noise_multiplier, target_epsilon=target_epsilon
            )
            validation.one_of("sampling", sampling, SAMPLINGS_OF_PLANS)
            slots = slots_of(sample_size, batch, sampling)
            if epochs is not None:
                sizes = (sample_size, batch) if slots is None else (slots, 1)
                steps = steps_of(epochs, *sizes)
            if target_epsilon is not None:
                steps = validation.steps(steps, least=1)
                target = Target.of(target_epsilon, delta, accountant, ADD_OR_REMOVE_ONE)
                bands = getattr(noise_correlation, "bands", 1)
                noise_multiplier = 1.0
                if sampling != FIXED_SLOTS:
                    noise_multiplier = noise_within(
                        target, batch / sample_size, steps, noise_schedule, slots, bands
                    )
            plan = cls(
                sample_size=sample_size,
                expected_batch_size=batch,
                steps=validation.steps(steps, least=1),
                noise_multiplier=validation.noise_multiplier(noise_multiplier),
                delta=delta,
                accountant=accountant,
                noise_schedule=noise_schedule,
                sampling=sampling,
                noise_correlation=noise_correlation,
            )
            if target_epsilon is None or sampling != FIXED_SLOTS:
                return plan
            return plan._within(target)

    def _within(self, target: Target) -> Self:
        """Returns a plan with fixed slots and the least noise that meets the target."""
        needed = calibration.noise_for(target, 1.0, 1)
        noise = needed * self.noise_multiplier / self.phases[0].noise_multiplier
        while True:
            plan = replace(self, noise_multiplier=noise)
            if plan.phases[0].noise_multiplier >= needed:
                return plan
            noise = math.nextafter(noise, math.inf)  # a product was rounded down

    @cached_property
    def phases(self) -> list[Phase]:
        """Phases of the run: consecutive steps with equal noise form one phase.

        With cyclic Poisson samples, the steps of the phase are rounds of b steps.  With
        fixed slots, the phase is one step of the Gaussian mechanism.
        """
        if self.noise_schedule is None:
            return [self.phase_of(self.steps)]
        factors = _factors(self.noise_schedule, self.steps)
        setting = (self.sample_rate, self.noise_multiplier)
        return scheduled_phases(*setting, factors, self.slots)

    def phase_of(self, steps: int) -> Phase:
        """Returns the phase of the first steps, with the noise of the first step."""
        noise = self.noise_multiplier
        if self.sampling != FIXED_SLOTS:
            return phase_with(self.sample_rate, noise, steps, self.slots, self.bands)
        assert self.slots is not None, "an epoch has slots"
        return fixed_slots(
            noise_multiplier=noise,
            steps=steps,
            slots=self.slots,
            strategy=self.noise_correlation,
        )

    def noise_multiplier_at(self, step: int) -> float:
        """Returns the noise multiplier of a planned step, 0, 1, ..."""
        step = validation.whole("step", step, 0, self.steps - 1)
        if self.noise_schedule is None:
            return self.noise_multiplier
        ends = list(accumulate(phase.steps for phase in self.phases))
        return self.phases[bisect_right(ends, step)].noise_multiplier

    @property
    def sample_rate(self) -> float:
        """Probability of a record to be used in a step: batch / N, or 1 / slots."""
        if self.slots is not None:
            return 1 / self.slots
        return self.expected_batch_size / self.sample_size

    @cached_property
    def slots(self) -> int | None:
        """Steps of an epoch, ceil(N / batch); None for Poisson sampling."""
        sizes = (self.sample_size, self.expected_batch_size)
        return slots_of(*sizes, self.sampling)

    @property
    def bands(self) -> int:
        """Bands b of cyclic Poisson sampling; 1 without correlated noise."""
        strategy = self.noise_correlation
        return 1 if strategy is None or self.sampling != POISSON else strategy.bands

    @property
    def mean_batch_size(self) -> float:
        """Mean records per step, the divisor of the noisy sum; N / slots with slots."""
        if self.slots is not None:
            return self.sample_size / self.slots
        return float(self.expected_batch_size)

    @property
    def deciding_accountant(self) -> str:
        """Name of the accountant that decides: "exact" for "all"."""
        return deciding_name(self.accountant)

    @property
    def is_private(self) -> bool:
        """If True, the steps have noise."""
        return self.noise_multiplier > 0

    def epsilon(self, steps: int | None = None) -> float:
        """Returns ε after ``steps`` steps, or after all of them.

        Returns:
            0 after no step, infinity without noise.
        """
        return self._curve([self.steps if steps is None else steps])[0]

    def epsilons(self, steps: Sequence[int]) -> list[float]:
        """Returns ε after each number of steps.

        The value after the largest number equals the value of ``epsilon`` to the last
        digit: a target met there is met here.  No other value is larger.
        """
        counts = validation.all_steps(steps)
        if not counts:
            return []
        most = max(counts)
        spent = self.epsilon(most)
        if min(counts) == most:
            return [spent] * len(counts)
        values = zip(counts, self._curve(counts), strict=True)
        return [spent if step == most else min(value, spent) for step, value in values]

    def _curve(self, steps: Sequence[int]) -> list[float]:
        if self.sampling == FIXED_SLOTS:
            return [self._fixed_epsilon(x) for x in validation.all_steps(steps)]
        if self.noise_schedule is not None or self.slots is not None:
            accountant = accountant_for(self.accountant)
            counts = validation.all_steps(steps)
            spent = accountant.epsilons(self.phases, counts, self.delta)
            return [float(x) for x in spent]
        counts = validation.all_steps(steps)
        return queries.epsilon_curve(
            sample_rate=self.sample_rate * self.bands,
            noise_multiplier=self.noise_multiplier,
            delta=self.delta,
            steps=[-(-count // self.bands) for count in counts],
            accountant=self.accountant,
        )

    def _fixed_epsilon(self, steps: int) -> float:
        phase, accountant = self.phase_of(steps), accountant_for(self.accountant)
        return float(accountant.epsilons([phase], [phase.steps], self.delta)[0])

    def steps_within(self, epsilon: float) -> int:
        """Returns the largest number of the plan's steps that spends at most ε."""
        target = validation.target_epsilon(epsilon, "epsilon")
        if self.sampling == RANDOM_ALLOCATION and self.slots is not None:
            return self._steps_of_epochs_within(target, self.slots)
        if self.noise_schedule is not None or self.sampling == FIXED_SLOTS:
            return bisect_right(range(1, self.steps + 1), target, key=self.epsilon)
        rounds = calibration.steps(
            target_epsilon=target,
            sample_rate=self.sample_rate * self.bands,
            noise_multiplier=self.noise_multiplier,
            delta=self.delta,
            accountant=self.accountant,
            most=-(-self.steps // self.bands),
        )
        return min(self.steps, rounds * self.bands)

    def _steps_of_epochs_within(self, target: float, slots: int) -> int:
        """Returns the largest number of steps that a search proves to be within ε."""
        if self.epsilon() <= target:
            return self.steps
        spent = Target.of(target, self.delta, self.accountant, ADD_OR_REMOVE_ONE)
        return calibration.allocated_steps(spent, self.phases, slots)


def _factors(schedule: Schedule, steps: int) -> list[float]:
    return [schedule.factor(step, steps) for step in range(steps)]


def noise_within(
    target: Target,
    sample_rate: float,
    steps: int,
    schedule: Schedule | None,
    slots: int | None = None,
    bands: int = 1,
) -> float:
    """Returns the least noise multiplier of the first step that meets the target."""
    if schedule is None:
        if slots is not None:
            return calibration.allocated_noise(target, slots, steps)
        # Too many bands are refused when the plan is created.
        rate = min(sample_rate * bands, 1.0)
        return calibration.noise_for(target, rate, -(-steps // bands))
    factors = _factors(schedule, steps)
    phases = scheduled_phases(sample_rate, 1.0, factors, slots)
    return calibration.scale_for(target, phases)


def _sizes(sample_size: int, expected_batch_size: int) -> tuple[int, int]:
    """Returns both sizes, checked."""
    most = validation.whole("sample_size", sample_size, 1, 2**53)
    return most, validation.whole("expected_batch_size", expected_batch_size, 1, most)


def _check_one_of(**values: float | None) -> None:
    given = [name for name, value in values.items() if value is not None]
    if len(given) != 1:
        names = " or ".join(values)
        assigned = " and ".join(f"{name} = {shown(values[name])}" for name in given)
        raise AccountingError(
            f"give exactly one of {names}, got {assigned or 'neither'}.",
            field=next(iter(values)),
        )


@contextmanager
def config_errors() -> Iterator[None]:
    """Turns an AccountingError into a ConfigError about the named setting."""
    try:
        yield
    except AccountingError as error:
        raise ConfigError(error.field, str(error)) from None

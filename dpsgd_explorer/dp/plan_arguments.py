"""The plan that an engine's arguments describe: sizes, length, noise, delta."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

from dpsgd_explorer.accounting import NAMES, Plan
from dpsgd_explorer.accounting.schedules import Schedule
from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.validation import finite, one_of, shown, whole

MAX_RECORDS = 2**53  # whole numbers up to it are exact in a float


class PlanArguments(NamedTuple):
    """What a user says of a run's sizes, length, noise and delta; see PrivacyEngine."""

    batch_size: int | None
    sample_size: int | None
    steps: int | None
    epochs: float | None
    noise_multiplier: float | None
    target_epsilon: float | None
    target_delta: float | None

    @property
    def open_ended(self) -> bool:
        """Whether noise is given and no length."""
        no_length = self.steps is None and self.epochs is None
        return no_length and self.noise_multiplier is not None

    def plan(
        self, plan: Plan | None, accounting_mode: str, schedule: Schedule | None
    ) -> Plan:
        """Return the plan of the run.

        Args:
            plan: Given by the user in place of all arguments.
            accounting_mode: A key of ACCOUNTANTS, or "all".
            schedule: Schedule of the noise; a target is met by all its steps together.

        Raises:
            ConfigError: an argument is given next to a plan, is missing or is outside
                its domain.
        """
        if plan is None:
            return self._created(accounting_mode, schedule)
        self._refuse_any()
        if schedule is None or schedule == plan.noise_schedule:
            return plan
        if plan.noise_schedule is not None:
            raise ConfigError(
                "noise_schedule",
                "noise_schedule must not be given together with a plan that has one, "
                f"got {schedule} and {plan.noise_schedule}. Leave noise_schedule out.",
            )
        return dataclasses.replace(plan, noise_schedule=schedule)

    def _refuse_any(self) -> None:
        for name, value in self._asdict().items():
            if value is not None:
                raise ConfigError(
                    name,
                    f"{name} must not be given together with plan, which already "
                    f"contains it. Leave {name} out.",
                )

    def _created(self, accounting_mode: str, schedule: Schedule | None) -> Plan:
        if self.batch_size is None or self.sample_size is None:
            raise ConfigError(
                "batch_size" if self.batch_size is None else "sample_size",
                "batch_size and sample_size must be given, or a plan that contains "
                "them.",
            )
        sample_size = whole("sample_size", self.sample_size, 1, MAX_RECORDS)
        batch_size = whole("batch_size", self.batch_size, 1, MAX_RECORDS)
        epochs = 1 if self.open_ended else self.epochs
        _require_one(epochs=epochs, steps=self.steps)
        _require_one(
            target_epsilon=self.target_epsilon, noise_multiplier=self.noise_multiplier
        )
        one_of("accounting_mode", accounting_mode, NAMES)
        if batch_size > sample_size:
            raise ConfigError(
                "batch_size",
                f"batch_size must be from 1 to sample_size = {sample_size}, got "
                f"{batch_size}.",
            )
        return Plan.create(
            sample_size=sample_size,
            expected_batch_size=batch_size,
            steps=self.steps,
            epochs=epochs,
            noise_multiplier=self.noise_multiplier,
            target_epsilon=self.target_epsilon,
            delta=self._delta(sample_size),
            accountant=accounting_mode,
            noise_schedule=schedule,
        )

    def _delta(self, sample_size: int) -> float:
        """Return the delta given, or 1/(2N)."""
        if self.target_delta is None:
            return 1 / (2 * sample_size)
        delta = finite("target_delta", self.target_delta)
        if not 0 < delta < 1 / sample_size:
            raise ConfigError(
                "target_delta",
                f"target_delta must be above 0 and below 1/N = 1/{sample_size}, "
                f"got {shown(self.target_delta)}.",
            )
        return delta


def _require_one(**values: object) -> None:
    given = [name for name, value in values.items() if value is not None]
    if len(given) != 1:
        arguments = " and ".join(given) or "neither"
        raise ConfigError(
            next(iter(values)),
            f"give exactly one of {' and '.join(values)}, got {arguments}.",
        )


def refuse_schedules(**schedules: object) -> None:
    """Raise ConfigError if a schedule is given to a run without a length."""
    for name, schedule in schedules.items():
        if isinstance(schedule, Schedule):
            raise ConfigError(
                name,
                f"{name} changes during the run, so the length of the run must be "
                "given. Pass epochs or steps.",
            )

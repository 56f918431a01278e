"""What was done, step by step, to be laid beside what the accountant was told."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from dpsgd_explorer.accounting import Plan
from dpsgd_explorer.errors import PrivacyError


@dataclass(frozen=True, kw_only=True)
class Release:
    """Equal steps in a row, as they were carried out.

    Attributes:
        sample_rate: Of the sampler that drew the batches.
        noise_multiplier: Noise std on the sum over the clipping bound, as used.
        noise_draws: Times that noise was drawn; one a step where there is any.
        max_grad_norm: Clipping bound, as used.
        divisor: What the noisy sum was divided by.
        steps: How many.
    """

    sample_rate: float
    noise_multiplier: float
    noise_draws: int
    max_grad_norm: float
    divisor: float
    steps: int = 1

    def same_settings(self, other: Release) -> bool:
        """Whether the two differ in their counts at most."""
        return self._settings() == other._settings()

    def _settings(self) -> tuple[float, ...]:
        return (
            self.sample_rate,
            self.noise_multiplier,
            self.max_grad_norm,
            self.divisor,
        )

    def __add__(self, other: Release) -> Release:
        return replace(
            self,
            steps=self.steps + other.steps,
            noise_draws=self.noise_draws + other.noise_draws,
        )


class Ledger:
    """Counts releases; steps with the same settings share a line."""

    def __init__(self, releases: Sequence[Release] = ()) -> None:
        self._releases = list(releases)

    @property
    def steps(self) -> int:
        """Steps done."""
        return sum(release.steps for release in self._releases)

    def record(self, release: Release) -> None:
        """Write a step down."""
        if self._releases and self._releases[-1].same_settings(release):
            self._releases[-1] += release
        else:
            self._releases.append(release)

    def as_data(self) -> list[dict[str, Any]]:
        """Return the lines as JSON values."""
        return [asdict(release) for release in self._releases]

    @classmethod
    def from_data(cls, lines: Sequence[dict[str, Any]]) -> Ledger:
        """Read what ``as_data`` wrote."""
        return cls([Release(**line) for line in lines])

    def check(self, plan: Plan) -> None:
        """Raise PrivacyError if something else was done than the plan says."""
        for release in self._releases:
            done = {
                "sample_rate": release.sample_rate,
                "noise_multiplier": release.noise_multiplier,
                "noise_draws": release.noise_draws,
            }
            told = {
                "sample_rate": plan.sample_rate,
                "noise_multiplier": plan.noise_multiplier,
                "noise_draws": release.steps if plan.is_private else 0,
            }
            for name, value in done.items():
                if not math.isclose(value, told[name], rel_tol=1e-12):
                    raise PrivacyError(
                        f"{name} was {value} in {release.steps} steps, but the "
                        f"accountant was told {told[name]}; no epsilon can be given "
                        "for this run. Leave plan and bound alone once attached."
                    )


def receipt(
    plan: Plan,
    ledger: Ledger,
    *,
    options: Mapping[str, Any],
    seed: int,
    noise_note: str,
    sampling_note: str,
    epsilon: float | None,
) -> dict[str, Any]:
    """Return what the accountant was told beside what was done, as JSON values.

    ``epsilon`` is null where there is no guarantee.

    Raises:
        PrivacyError: the two differ.
    """
    ledger.check(plan)
    finite = epsilon is not None and math.isfinite(epsilon)
    return {
        "told": {
            "sample_size": plan.sample_size,
            "sample_rate": plan.sample_rate,
            "noise_multiplier": plan.noise_multiplier,
            "steps": ledger.steps,
            "planned_steps": plan.steps,
            "delta": plan.delta,
            "accountant": plan.accountant,
            "neighboring_relation": "add_or_remove_one",
        },
        "done": ledger.as_data(),
        "options": dict(options),
        "sampling": sampling_note,
        "noise": noise_note,
        "seed": seed,
        "epsilon": epsilon if finite else None,
    }

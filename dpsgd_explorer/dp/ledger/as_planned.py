"""Comparison of the recorded steps with the plan.

The accountant computes epsilon from the plan, so the result holds only if every step
was done as planned.
"""

from __future__ import annotations

import math
from dataclasses import asdict

from dpsgd_explorer.accounting import Plan
from dpsgd_explorer.accounting.batch_sizes import is_likely_sum
from dpsgd_explorer.dp.ledger.ledger import Ledger, Release
from dpsgd_explorer.dp.noise.base import NoisePlan
from dpsgd_explorer.errors import PrivacyError


def planned_release(
    plan: Plan, noise: NoisePlan, parameters: int, steps: int, first: int = 0
) -> Release:
    """Returns the planned record of consecutive steps with the settings of the first.

    Args:
        plan: Sample rate and noise multiplier.
        noise: Noise, clipping bound and divisor of each step.
        parameters: Number of entries of a gradient.
        steps: Number of steps.
        first: Index of the first step, from 0.
    """
    draws = steps if plan.is_private else 0
    return Release(
        sample_rate=plan.sample_rate,
        noise_multiplier=noise.noise_multiplier_at(first),
        noise_draws=draws,
        noise_numbers=draws * parameters,
        parameters=parameters,
        max_grad_norm=noise.max_grad_norm_at(first),
        divisor=noise.divisor,
        steps=steps,
        count_noise_multiplier=noise.count_noise,
    )


def check_as_planned(
    ledger: Ledger, plan: Plan, noise: NoisePlan, *, sampled: bool
) -> None:
    """Compares the ledger's steps with the planned ones.

    Args:
        ledger: Record of the steps that were done.
        plan: Sample size, sample rate and noise multiplier.
        noise: Noise, clipping bound and divisor of each step.
        sampled: If True, the engine's sampler draws the batches, and their sizes are
            checked too.

    Raises:
        PrivacyError: a step differs from the plan, or the total of the batch sizes is
            too unlikely for the planned sampling.
    """
    first = 0
    for release in ledger.releases:
        # In a constant plan all steps have equal settings: compare the first only.
        distinct = 1 if noise.is_constant else release.steps
        for step in range(first, first + min(distinct, release.steps)):
            parameters, steps = release.parameters, release.steps
            _compare(release, planned_release(plan, noise, parameters, steps, step))
        first += release.steps
    if sampled:
        _check_batch_sizes(plan, ledger)


def _compare(release: Release, planned: Release) -> None:
    done = asdict(release)
    for name, value in asdict(planned).items():
        if not math.isclose(done[name], value, rel_tol=1e-12):
            raise PrivacyError(
                f"{name} was {done[name]} in {release.steps} steps, but {value} in the "
                "plan of the accountant, so this run has no epsilon. Do not change "
                "plan, options or bound of an attached engine."
            )


def _check_batch_sizes(plan: Plan, ledger: Ledger) -> None:
    sizes, n, q = ledger.batch_sizes, plan.sample_size, plan.sample_rate
    if not is_likely_sum(
        sizes.samples,
        sizes.batches,
        sample_size=n,
        sample_rate=q,
        # Lost steps leave epochs incomplete.
        slots=None if ledger.lost_steps else plan.slots,
    ):
        raise PrivacyError(
            f"{sizes.batches} batches must contain about {sizes.batches * n * q:.0f} "
            f"samples in total if each of {n} records is drawn with rate {q:.6g}; "
            f"they contained {sizes.samples}. Use every batch of the engine's loader, "
            "unchanged."
        )

"""The run that epsilon is computed from, compared with the steps that were made.

The epsilon of a run is that of its plan only if every step was made as planned.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from dpsgd_explorer.accounting import Plan
from dpsgd_explorer.dp.ledger.ledger import BatchSizes, Ledger, Release
from dpsgd_explorer.dp.noise.noise_plan import NoisePlan
from dpsgd_explorer.errors import PrivacyError

#: Largest probability that true Poisson samples are called unlikely.
UNLIKELY = 1e-6
#: Largest probability that true Poisson samples are refused.
FALSE_ALARM = 1e-12


@dataclass(frozen=True, kw_only=True)
class AccountedRun:
    """What the accountant assumes of a run.

    Attributes:
        plan: Sample rate, noise multiplier, delta and accountant.
        noise: Noise, clipping bound and divisor of each step.
        poisson: Whether the engine's own sampler draws the batches.
        open_ended: Whether the run has no length; the plan's is then one epoch.
    """

    plan: Plan
    noise: NoisePlan
    poisson: bool
    open_ended: bool = False

    def release(self, parameters: int, steps: int, first: int = 0) -> Release:
        """Return ``steps`` planned steps in a row, all with the settings of the first.

        Args:
            parameters: Entries of a gradient.
            steps: Number of steps.
            first: Number of the first one, from 0.
        """
        draws = steps if self.plan.is_private else 0
        return Release(
            sample_rate=self.plan.sample_rate,
            noise_multiplier=self.noise.noise_multiplier_at(first),
            noise_draws=draws,
            noise_numbers=draws * parameters,
            parameters=parameters,
            max_grad_norm=self.noise.max_grad_norm_at(first),
            divisor=self.noise.divisor,
            steps=steps,
            count_noise_multiplier=self.noise.count_noise,
        )

    def check(self, ledger: Ledger) -> None:
        """Compare the ledger's steps with the planned ones.

        Raises:
            PrivacyError: a step differs from the plan, or the batch sizes are those of
                no Poisson sampler.
        """
        first = 0
        for release in ledger.releases:
            # With a constant plan, the first step of a line has the settings of all.
            distinct = 1 if self.noise.is_constant else release.steps
            for step in range(first, first + min(distinct, release.steps)):
                _compare(release, self.release(release.parameters, release.steps, step))
            first += release.steps
        if self.poisson:
            _check_batch_sizes(self.plan, ledger.batch_sizes)

    def as_data(self, steps: int) -> dict[str, Any]:
        """Return JSON values, given the number of steps done."""
        plan = self.plan
        return {
            "sample_size": plan.sample_size,
            "expected_batch_size": plan.expected_batch_size,
            "sample_rate": plan.sample_rate,
            "noise_multiplier": plan.noise_multiplier,
            "max_grad_norm": self.noise.sensitivity,
            "divisor": self.noise.divisor,
            "steps": steps,
            "planned_steps": None if self.open_ended else plan.steps,
            "delta": plan.delta,
            "accountant": plan.deciding_accountant,
            "sampling": "Poisson",
            "neighboring_relation": "add_or_remove_one",
        }


def _compare(release: Release, planned: Release) -> None:
    done = asdict(release)
    for name, value in asdict(planned).items():
        if not math.isclose(done[name], value, rel_tol=1e-12):
            raise PrivacyError(
                f"{name} was {done[name]} in {release.steps} steps, but {value} in the "
                "plan of the accountant, so this run has no epsilon. Do not change "
                "plan, options or bound of an attached engine."
            )


def _check_batch_sizes(plan: Plan, sizes: BatchSizes) -> None:
    """Raise PrivacyError if Poisson sampling makes such a total with chance 1e-12.

    The total of T batches is Binomial(T N, q).  By Chernoff's bound, a share a of T N
    has a probability of at most exp(-T N KL(a || q)) on either side.
    """
    trials = sizes.batches * plan.sample_size
    if trials == 0:
        return
    share, q = sizes.samples / trials, plan.sample_rate
    if trials * _divergence(share, q) > math.log(2 / FALSE_ALARM):
        raise PrivacyError(
            f"{sizes.batches} batches must contain about {trials * q:.0f} samples in "
            f"total if each of {plan.sample_size} records is drawn with rate {q:.6g}; "
            f"they contained {sizes.samples}. Use every batch of poisson_loader, "
            "unchanged."
        )


def are_of_one_size(plan: Plan, batches: int, equal: int) -> bool:
    """Return True if Poisson samples have so many equal sizes with chance below 1e-6.

    The sizes of T batches are Binomial(N, q).  The probability that k of them are equal
    is at most (N + 1) C(T, k) p^k, with p that of the likeliest size.
    Ten batches of exactly 20, N = 200: 201 * 0.094^10 = 1e-8.

    Args:
        plan: Sample size and rate.
        batches: T.
        equal: k.
    """
    n, q = plan.sample_size, plan.sample_rate
    if not 0 < q < 1 or not equal:
        return False
    mode = min(n, math.floor((n + 1) * q))
    log_mode = _log_choose(n, mode) + mode * math.log(q) + (n - mode) * math.log1p(-q)
    chance = math.log(n + 1) + _log_choose(batches, equal) + equal * log_mode
    return chance < math.log(UNLIKELY)


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def _divergence(a: float, q: float) -> float:
    """Return KL(Bernoulli(a) || Bernoulli(q)) in nats."""
    success = a * math.log(a / q) if a > 0 else 0.0
    if a == 1:
        return success
    return success + (math.inf if q == 1 else (1 - a) * math.log((1 - a) / (1 - q)))

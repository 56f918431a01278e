"""The receipt: what the accountant was told, laid beside what was done.

The epsilon of a run is that of the plan only if every step was made as planned.  So
the engine writes down what it did where it does it - the noise that went into the sum,
the bound of the clipper that clipped, the samples that were drawn - and both sides are
compared whenever an epsilon is asked for.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from dpsgd_explorer.accounting import Plan
from dpsgd_explorer.dp.clipping.adaptive import gradient_noise
from dpsgd_explorer.dp.ledger.ledger import BatchSizes, Ledger, Release
from dpsgd_explorer.dp.noise.schedules import Factor
from dpsgd_explorer.errors import PrivacyError

FALSE_ALARM = 1e-12
"""Chance that Poisson samples are taken for something else, at most."""


@dataclass(frozen=True, kw_only=True)
class Told:
    """What epsilon is computed from, and what it takes for granted.

    Attributes:
        plan: Rate, noise multiplier, delta and accountant.
        max_grad_norm: Clipping bound C, the L2 sensitivity of the sum.
        divisor: A public constant.
        poisson: Whether the engine's own sampler draws the batches.
        noise_factor: What multiplies the plan's noise multiplier at each step.
        bound_factor: What multiplies the clipping bound.
        count_noise: Noise multiplier of the counts that adaptive clipping releases.
        open_ended: Whether the run has no length; the plan's is then one epoch.
    """

    plan: Plan
    max_grad_norm: float
    divisor: float
    poisson: bool
    noise_factor: Factor | None = None
    bound_factor: Factor | None = None
    count_noise: float = 0.0
    open_ended: bool = False

    def release(self, parameters: int, steps: int, first: int = 0) -> Release:
        """Return so many steps as they ought to be, all like the first of them."""
        draws = steps if self.plan.is_private else 0
        return Release(
            sample_rate=self.plan.sample_rate,
            noise_multiplier=self.noise_multiplier_at(first),
            noise_draws=draws,
            noise_numbers=draws * parameters,
            parameters=parameters,
            max_grad_norm=self.max_grad_norm_at(first),
            divisor=self.divisor,
            steps=steps,
            count_noise_multiplier=self.count_noise,
        )

    def noise_multiplier_at(self, step: int) -> float:
        """Return the noise multiplier of a step's gradient."""
        factor = 1.0 if self.noise_factor is None else self.noise_factor(step)
        return gradient_noise(self.plan.noise_multiplier * factor, self.count_noise)

    def max_grad_norm_at(self, step: int) -> float:
        """Return the clipping bound of a step."""
        factor = 1.0 if self.bound_factor is None else self.bound_factor(step)
        return self.max_grad_norm * factor

    def different(self, first: int, steps: int) -> range:
        """Return those of so many steps that may be unlike the one before."""
        constant = self.noise_factor is None and self.bound_factor is None
        return range(first, first + min(1, steps) if constant else first + steps)

    def as_data(self, steps: int) -> dict[str, Any]:
        """Return JSON values."""
        plan = self.plan
        return {
            "sample_size": plan.sample_size,
            "expected_batch_size": plan.expected_batch_size,
            "sample_rate": plan.sample_rate,
            "noise_multiplier": plan.noise_multiplier,
            "max_grad_norm": self.max_grad_norm,
            "divisor": self.divisor,
            "steps": steps,
            "planned_steps": None if self.open_ended else plan.steps,
            "delta": plan.delta,
            "accountant": plan.deciding_accountant,
            "sampling": "Poisson",
            "neighboring_relation": "add_or_remove_one",
        }


def check(told: Told, ledger: Ledger) -> None:
    """Raise PrivacyError if something else was done than the accountant was told."""
    first = 0
    for release in ledger.releases:
        for step in told.different(first, release.steps):
            _compare(release, told.release(release.parameters, release.steps, step))
        first += release.steps
    if told.poisson:
        _check_batch_sizes(told.plan, ledger.batch_sizes)


def _compare(release: Release, told: Release) -> None:
    done = asdict(release)
    for name, value in asdict(told).items():
        if not math.isclose(done[name], value, rel_tol=1e-12):
            raise PrivacyError(
                f"{name} was {done[name]} in {release.steps} steps, but the "
                f"accountant was told {value}; no epsilon can be given for this "
                "run. Leave plan, options and bound alone once attached."
            )


def receipt(
    told: Told,
    ledger: Ledger,
    *,
    options: Mapping[str, Any],
    seed: int | None,
    noise_note: str,
    sampling_note: str,
    loss_note: str,
    epsilon: float | None,
    epsilons: Mapping[str, float] | None = None,
) -> dict[str, Any]:
    """Return what the accountant was told beside what was done, as JSON values.

    ``epsilon`` is null where there is no guarantee; what is under ``not_private`` is
    outside of it in any case.  ``epsilons``, where all accountants were asked, holds
    the finite ones by name, and is null otherwise.

    Raises:
        PrivacyError: the two differ.
    """
    check(told, ledger)
    return {
        "told": told.as_data(ledger.steps),
        "done": ledger.lines(),
        "lost_steps": ledger.lost_steps,
        "fresh_resumes": ledger.fresh_resumes,
        "options": dict(options),
        "sampling": sampling_note,
        "loss": loss_note,
        "noise": noise_note,
        "seed": seed,
        "epsilon": _finite(epsilon),
        "epsilons": epsilons
        and {name: x for name, x in epsilons.items() if math.isfinite(x)},
        "not_private": {"batch_sizes": asdict(ledger.batch_sizes)},
    }


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def receipt_text(receipt: Mapping[str, Any]) -> str:
    """Return a receipt as lines to print: what was told, what was done, and epsilon."""
    told = receipt["told"]
    rows = [("", "told", "done")]
    for name in ("sample_rate", "noise_multiplier", "max_grad_norm", "divisor"):
        seen = dict.fromkeys(f"{line[name]:.6g}" for line in receipt["done"])
        rows.append((name, f"{told[name]:.6g}", _listed(list(seen))))
    for name, own in (("steps", "steps"), ("noise draws", "noise_draws")):
        done = sum(line[own] for line in receipt["done"])
        expected = told["steps"] if told["noise_multiplier"] or own == "steps" else 0
        rows.append((name, str(expected), str(done)))
    width = [max(len(row[i]) for row in rows) for i in range(3)]
    lines = ["  ".join(map(str.ljust, row, width)).rstrip() for row in rows]
    spent = "none" if receipt["epsilon"] is None else f"{receipt['epsilon']:.6g}"
    every = (receipt["epsilons"] or {}).items()
    others = ", ".join(f"{name} {value:.6g}" for name, value in every)
    return "\n".join(
        [
            *lines,
            f"sampling: {receipt['sampling']}",
            f"loss: {receipt['loss']}",
            f"noise: {receipt['noise']}",
            f"epsilon: {spent} at delta = {told['delta']:.6g}, "
            f"{told['neighboring_relation']}, accountant {told['accountant']}",
            *([f"by accountant: {others}"] if others else []),
        ]
    )


def _listed(values: list[str]) -> str:
    """Return the values, or the ends of a long list of them."""
    if len(values) <= 3:
        return ", ".join(values)
    return f"{values[0]} to {values[-1]} in {len(values)} parts"


def _check_batch_sizes(plan: Plan, sizes: BatchSizes) -> None:
    """Raise PrivacyError if so many samples can hardly be Poisson samples.

    The total of T batches is Binomial(T N, q), and by Chernoff's bound a share a of
    T N has a chance of exp(-T N KL(a || q)) at most on either side.
    """
    coins = sizes.batches * plan.sample_size
    if coins == 0:
        return
    share, q = sizes.samples / coins, plan.sample_rate
    if coins * _divergence(share, q) > math.log(2 / FALSE_ALARM):
        raise PrivacyError(
            f"{sizes.batches} batches must hold about {coins * q:.0f} samples in all "
            f"if each of {plan.sample_size} records joins with rate {q:.6g}; they held "
            f"{sizes.samples}. Take all batches from poisson_loader, as they come."
        )


def _divergence(a: float, q: float) -> float:
    """Return KL(a || q) of two coins, in nats."""
    heads = a * math.log(a / q) if a > 0 else 0.0
    if a == 1:
        return heads
    return heads + (math.inf if q == 1 else (1 - a) * math.log((1 - a) / (1 - q)))

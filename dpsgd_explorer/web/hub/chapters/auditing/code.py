"""Audit a noisy sum: call each release "in" or "out", and bound epsilon from below."""

import math

import numpy as np
from scipy.stats import beta

from dpsgd_explorer.accounting import gaussian_noise_multiplier, round_up

delta, promised, bound, trials = 1e-5, 1.0, 10.0, 20_000
sigma = gaussian_noise_multiplier(epsilon=promised, delta=delta)


def release(is_in: bool, scale: float, rng: np.random.Generator) -> np.ndarray:
    """Return sums of 50 clipped records, and of one more that is as long as allowed."""
    return 25.0 + bound * is_in + rng.normal(0, scale, trials)


def audit(scale: float, rng: np.random.Generator) -> float:
    """Return a lower bound on epsilon at 95 % confidence."""
    cut = 25.0 + bound  # chosen without looking at the releases
    hits = int((release(True, scale, rng) > cut).sum())
    alarms = int((release(False, scale, rng) > cut).sum())
    h = beta.ppf(0.025, hits, trials - hits + 1)
    a = beta.ppf(0.975, alarms + 1, trials - alarms)
    return max(0.0, math.log((h - delta) / a))


print(f"promised: epsilon {round_up(promised)} at sigma {round_up(sigma, 3)}")
for name, scale in (("sound", sigma * bound), ("forgets C", sigma)):
    found = audit(scale, np.random.default_rng(7))
    verdict = "refuted" if found > promised else "not refuted"
    print(f"{name}: epsilon at least {math.floor(100 * found) / 100:.2f}, {verdict}")

"""Exercise: find a program that forgets part of its noise."""

# %% [markdown]
# A sum of clipped records is released many times, half of the times with one more
# record. Counts of right and wrong calls give a lower bound on ε.

# %%
import math

import numpy as np
from scipy.stats import beta

from dpsgd_explorer.accounting import gaussian_noise_multiplier

promised, delta, bound, trials = 1.0, 1e-5, 10.0, 20_000
sigma = gaussian_noise_multiplier(epsilon=promised, delta=delta)


def calls(scale: float, rng: np.random.Generator) -> tuple[int, int]:
    """Return how often "in" was called rightly and wrongly."""
    with_record = bound + rng.normal(0, scale, trials)
    without = rng.normal(0, scale, trials)
    return int((with_record > bound).sum()), int((without > bound).sum())


def epsilon_at_least(hits: int, alarms: int) -> float:
    """Return a lower bound on ε at 95 % confidence."""
    # Your turn: 97.5 % confidence each; the least hit rate that fits the count ...
    lowest = beta.ppf(0.025, hits, trials - hits + 1)
    # Your turn: ... and the largest rate of false alarms.
    highest = beta.ppf(0.975, alarms + 1, trials - alarms)
    # Your turn: from hits ≤ e^ε alarms + δ.
    epsilon = math.log((lowest - delta) / highest)
    return max(0.0, epsilon)


# %%
sound = epsilon_at_least(*calls(sigma * bound, np.random.default_rng(7)))
faulty = epsilon_at_least(*calls(sigma, np.random.default_rng(7)))  # forgets C
assert 0 < sound <= promised, "the sound program is not refuted"
assert faulty > promised, "the other one is"
print(f"sound: ε at least {sound:.2f}; without C: ε at least {faulty:.2f}")

"""Exercise: publish a total with noise, and compute δ as an area."""

# %% [markdown]
# A total of incomes between 0 and 10 is published with Gaussian noise. Add or remove
# one person: the sensitivity is the most that this changes the total.

# %%
import math

import numpy as np

from dpsgd_explorer.accounting import gaussian_delta

rng = np.random.default_rng(7)
incomes, highest, noise_multiplier, epsilon = rng.uniform(0, 10, 500), 10.0, 4.0, 1.0

# Your turn: the sensitivity, from the public range and not from the data.
sensitivity = highest

# Your turn: the standard deviation of the noise.
scale = noise_multiplier * sensitivity
assert scale == 40.0
print(
    f"total {incomes.sum():.0f}, published {incomes.sum() + rng.normal(0, scale):.0f}"
)

# %% [markdown]
# Seen by an attacker, the total is one of two bells: without the person around 0,
# with the person around the sensitivity. δ is the area between the one and
# e^ε times the other, wherever the one is larger.

# %%
totals = np.linspace(-400, 400, 200_001)


def bell(mean: float) -> np.ndarray:
    """Return the density of the noise around ``mean``."""
    exponent = -(((totals - mean) / scale) ** 2) / 2
    return np.exp(exponent) / (scale * math.sqrt(2 * math.pi))


without, with_person = bell(0.0), bell(sensitivity)

# Your turn: where the bell with the person exceeds e^ε times the other, by how much?
excess = np.maximum(with_person - math.exp(epsilon) * without, 0.0)
delta = excess.sum() * (totals[1] - totals[0])

# %%
exact = gaussian_delta(epsilon=epsilon, noise_multiplier=noise_multiplier)
assert math.isclose(delta, exact, rel_tol=1e-4)
print(f"δ at ε = {epsilon}: {delta:.2e}")

"""Exercise: count ε with Rényi differential privacy, and compare with the exact ε."""

# %% [markdown]
# A Gaussian release with noise multiplier σ has Rényi privacy loss α / (2 σ²) at
# order α. Losses of several releases add up. ε follows for each α:
# loss + log(1/δ) / (α - 1). The best α gives the smallest ε.

# %%
import math

import numpy as np

from dpsgd_explorer.accounting import gaussian_epsilon

noise_multiplier, releases, delta = 20.0, 100, 1e-5
orders = np.linspace(1.1, 200.0, 5_000)

# Your turn: the Rényi loss of all releases together, at each order.
losses = releases * orders / (2 * noise_multiplier**2)

# Your turn: ε at each order.
epsilons = losses + math.log(1 / delta) / (orders - 1)
renyi = epsilons.min()

# %%
exact = gaussian_epsilon(delta=delta, noise_multiplier=noise_multiplier, steps=releases)
assert exact < renyi < 1.4 * exact, "a valid ε, and larger than the exact one"

# %% [markdown]
# Adding up ε is valid too: each release at δ / 100.

# %%
single = gaussian_epsilon(delta=delta / releases, noise_multiplier=noise_multiplier)

# Your turn: the sum.
added = releases * single

# %%
assert added > 10 * exact
print(f"exact {exact:.2f}, Rényi {renyi:.2f}, added up {added:.2f}")

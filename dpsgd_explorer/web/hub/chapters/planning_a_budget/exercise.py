"""Exercise: divide one budget between a table and a training."""

# %% [markdown]
# Gaussian releases with noise multipliers a and b are together as private as one
# release with noise multiplier s, where 1/s² = 1/a² + 1/b².

# %%
import math

from dpsgd_explorer.accounting import (
    Odometer,
    gaussian_epsilon,
    gaussian_noise_multiplier,
)

budget, delta, table = 2.0, 1e-5, 5.0  # the table was published with σ = 5

# Your turn: the noise multiplier of one release that spends the whole budget.
whole = gaussian_noise_multiplier(epsilon=budget, delta=delta)

# Your turn: the noise multiplier that is left for the other release.
left = 1 / math.sqrt(1 / whole**2 - 1 / table**2)

# %%
both = Odometer()
both.add_gaussian(table, label="the table")
both.add_gaussian(left, label="the other release")
assert math.isclose(both.epsilon(delta), budget, rel_tol=1e-6)

# %% [markdown]
# Adding up gives each release an ε of its own, at half of δ.

# %%
spent = gaussian_epsilon(delta=delta / 2, noise_multiplier=table)

# Your turn: the noise multiplier that adding up leaves.
added = gaussian_noise_multiplier(epsilon=budget - spent, delta=delta / 2)

# %%
assert added > 1.2 * left, "adding up needs more noise"
print(f"σ {left:.3f} composed, σ {added:.3f} added up")

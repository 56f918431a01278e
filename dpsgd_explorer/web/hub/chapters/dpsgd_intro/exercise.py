"""Exercise: one step of DP-SGD by hand."""

# %% [markdown]
# A batch of per-sample gradients is given, one row for each record. The step clips,
# adds up, adds noise, and divides by the expected batch size.

# %%
import numpy as np

rng = np.random.default_rng(7)
gradients = rng.normal(size=(230, 5)) * rng.exponential(2.0, (230, 1))
bound, noise_multiplier, expected_batch_size = 1.0, 1.5, 256  # 230 were drawn

lengths = np.linalg.norm(gradients, axis=1)

# Your turn: the factor of each record; no gradient gets longer.
factors = np.minimum(1.0, bound / lengths)
clipped = factors[:, None] * gradients

# %%
assert np.linalg.norm(clipped, axis=1).max() <= bound + 1e-12
assert np.array_equal(clipped[lengths < bound], gradients[lengths < bound])

# %% [markdown]
# Add or remove one record: the sum changes by at most ``bound``.

# %%
# Your turn: the standard deviation of the noise in each direction.
scale = noise_multiplier * bound
draws = clipped.sum(0) + rng.normal(0.0, scale, (20_000, 5))  # 20,000 times the noise

# Your turn: the released steps. The number of records drawn is secret.
released = draws / expected_batch_size

# %%
spread = released.std(0) * expected_batch_size
assert np.allclose(spread, 1.5, rtol=0.02), "σ C, whatever was drawn"
assert np.allclose(released.mean(0) * 256, clipped.sum(0), atol=0.05)
print(f"clipped {100 * (factors < 1).mean():.0f} % of the records")

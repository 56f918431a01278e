"""Exercise: regression from two noisy statistics."""

# %% [markdown]
# Rows have length at most 1, targets lie between -1 and 1. Least squares needs the
# matrix XᵀX and the vector Xᵀy only. One row changes each of them by at most 1.

# %%
import numpy as np

from dpsgd_explorer.accounting import gaussian_noise_multiplier

rng = np.random.default_rng(7)
rows = rng.normal(size=(1_000, 5)) * [1.0, 1.0, 1.0, 1.0, 0.05]
rows /= np.linalg.norm(rows, axis=1).max()
targets = np.clip(rows @ [1.0, -1.0, 0.5, 0.2, 1.0], -1, 1)

# Two releases, one noise multiplier: together as private as one with σ / √2.
sigma = 2**0.5 * gaussian_noise_multiplier(epsilon=1.0, delta=1e-6)


def release() -> tuple[np.ndarray, np.ndarray]:
    """Return the noisy matrix, shape (5, 5), and the noisy vector, shape (5,)."""
    upper = np.triu(rng.normal(0, sigma, (5, 5)))
    symmetric = upper + np.triu(upper, 1).T
    # Your turn: the matrix, with the noise above.
    matrix = rows.T @ rows + symmetric
    # Your turn: the vector, with noise of its own.
    vector = rows.T @ targets + rng.normal(0, sigma, 5)
    return matrix, vector


# %%
matrix, vector = release()
assert np.allclose(matrix, matrix.T)
assert not np.allclose(vector, release()[1]), "each release draws new noise"
print("eigenvalues of the noisy matrix", np.linalg.eigvalsh(matrix).round(1))

# %% [markdown]
# One direction of the data is short, and noise can make its eigenvalue tiny or
# negative: dividing by it explodes. A ridge λ is added before.

# %%
ridge = 2 * sigma * 5**0.5  # twice the size of the noise


def error(ridge: float) -> float:
    """Return the mean squared error of one private regression."""
    matrix, vector = release()
    # Your turn: solve with the ridge.
    weights = np.linalg.solve(matrix + ridge * np.eye(5), vector)
    return float(np.mean((rows @ weights - targets) ** 2))


# %%
with_ridge = np.quantile([error(ridge) for _ in range(301)], 0.9)
without = np.quantile([error(0.0) for _ in range(301)], 0.9)
zero = np.mean(targets**2)  # of predicting 0
assert with_ridge < zero < without, "without a ridge, one release in ten is useless"
print(
    f"of ten, the second worst: {with_ridge:.3f} with the ridge, {without:.3f} without"
)

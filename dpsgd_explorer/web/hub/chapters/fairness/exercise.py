"""Exercise: who is clipped?"""

# %% [markdown]
# 3,800 records of a frequent class and 200 of a rare one train a logistic regression.
# The gradient of a record is its error times its features.

# %%
import numpy as np

rng = np.random.default_rng(7)
is_rare = np.arange(4_000) >= 3_800
features = rng.normal(size=(4_000, 20)) + np.where(is_rare, 0.5, -0.5)[:, None]
features = np.hstack([features, np.ones((4_000, 1))])  # the last weight is the offset
labels = is_rare.astype(float)
weights, bound, rate = np.zeros(21), 0.5, 0.5


def gradients(weights: np.ndarray) -> np.ndarray:
    """Return the gradient of each record, shape (4000, 21)."""
    predicted = 1 / (1 + np.exp(-features @ weights))
    # Your turn: the error of the prediction times the features.
    rows = (predicted - labels)[:, None] * features
    return rows


for _ in range(60):  # without noise: the question is who is clipped
    rows = gradients(weights)
    lengths = np.linalg.norm(rows, axis=1)
    weights -= rate * (rows * np.minimum(1, bound / lengths)[:, None]).mean(0)

lengths = np.linalg.norm(gradients(weights), axis=1)

# Your turn: the share of clipped records, in each class.
clipped_frequent = (lengths[~is_rare] > bound).mean()
clipped_rare = (lengths[is_rare] > bound).mean()

# Your turn: the share of records that are read right, in each class.
right = (features @ weights > 0) == is_rare
right_frequent, right_rare = right[~is_rare].mean(), right[is_rare].mean()

# %%
assert clipped_rare > 2 * clipped_frequent, "clipping falls on the rare class"
assert right_rare < right_frequent
print(f"clipped: {100 * clipped_frequent:.0f} % and {100 * clipped_rare:.0f} %")
print(f"read right: {100 * right_frequent:.0f} % and {100 * right_rare:.0f} %")

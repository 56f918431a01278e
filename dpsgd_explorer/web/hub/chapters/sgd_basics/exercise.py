"""Exercise: one step by hand, and a record that its gradient gives away."""

# %% [markdown]
# A line is fitted to 24 records by the squared error. Each record has a gradient of
# its own; a step follows their mean.

# %%
import numpy as np

rng = np.random.default_rng(7)
features, rate = rng.normal(size=(24, 3)), 0.1
targets = features @ [1.0, -2.0, 0.5] + rng.normal(0, 0.1, 24)
weights, offset = np.zeros(3), 0.0


def loss(weights: np.ndarray, offset: float) -> float:
    """Return the mean of the squared errors, halved."""
    return float(((features @ weights + offset - targets) ** 2).mean() / 2)


errors = features @ weights + offset - targets

# Your turn: the gradient of each record's halved squared error, shape (24, 3).
for_weights = errors[:, None] * features
for_offset = errors  # the derivative by the offset

# %%
tiny = np.array([1e-6, 0.0, 0.0])
slope = (loss(weights + tiny, offset) - loss(weights - tiny, offset)) / 2e-6
assert np.isclose(for_weights.mean(0)[0], slope)

# Your turn: one step of gradient descent on the weights.
moved = weights - rate * for_weights.mean(0)
assert loss(moved, offset) < loss(weights, offset)

# %% [markdown]
# Somebody sees one record's two gradients, and neither the record nor its error.

# %%
seen_weights, seen_offset = for_weights[23], for_offset[23]

# Your turn: the features of the record.
recovered = seen_weights / seen_offset

# %%
assert np.allclose(recovered, features[23])
print("recovered", recovered.round(2))

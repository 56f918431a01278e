"""Exercise: attack a model by its errors, and compare with the limit of ε."""

# %% [markdown]
# 40 records train a line in 30 dimensions, which fits them too well. The attacker
# sees the error of a record and calls "member" if it is small.

# %%
import math

import numpy as np

rng = np.random.default_rng(7)
features = rng.normal(size=(80, 30))
targets = features[:, 0] + rng.normal(size=80)
members = np.arange(80) < 40
weights = np.linalg.lstsq(features[members], targets[members], rcond=None)[0]
errors = np.abs(features @ weights - targets)

# Your turn: who is called a member? Take the median as the limit.
called = errors < np.median(errors)

# Your turn: the share of members called rightly, and of others called wrongly.
hits = called[members].mean()
alarms = called[~members].mean()

# %%
assert hits > alarms, "a model that fits too well gives its members away"
right = (hits + 1 - alarms) / 2
print(f"right calls: {100 * right:.0f} %, a coin: 50 %")

# %% [markdown]
# For any attack on any (ε, δ)-private training, hits ≤ e^ε alarms + δ. With even
# odds the share of right calls is then at most (e^ε + δ) / (1 + e^ε).


# %%
def most(epsilon: float, delta: float) -> float:
    """Return the largest share of right calls that ε alone allows."""
    # Your turn: the limit above.
    limit = (math.exp(epsilon) + delta) / (1 + math.exp(epsilon))
    return limit


assert most(0.0, 0.0) == 0.5
assert round(most(1.0, 0.0), 3) == 0.731
for epsilon in (0.1, 1.0, 3.0):
    print(f"ε = {epsilon}: at most {100 * most(epsilon, 1e-5):.1f} %, by ε alone")

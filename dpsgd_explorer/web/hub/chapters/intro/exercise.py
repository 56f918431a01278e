"""Exercise: learn a share from answers that prove nothing."""

# %% [markdown]
# Each answer is the truth with probability p, else the opposite. The ratio of
# p to 1 - p is e^ε: a recorded yes is e^ε times as likely from a true yes.

# %%
import math

import numpy as np

people, true_share, epsilon = 50_000, 0.3, math.log(3)
rng = np.random.default_rng(7)
truths = rng.random(people) < true_share

# Your turn: the probability of the truth, from ε.
p = math.exp(epsilon) / (1 + math.exp(epsilon))
assert math.isclose(p / (1 - p), math.exp(epsilon))

# %% [markdown]
# Of all answers, a share λ p + (1 - λ)(1 - p) is yes, if λ is the true share.

# %%
answers = np.where(rng.random(people) < p, truths, ~truths)
recorded = answers.mean()

# Your turn: solve that equation for λ.
estimate = (recorded - (1 - p)) / (2 * p - 1)

# Your turn: its standard error; the recorded share has √(y (1 - y) / n).
error = math.sqrt(recorded * (1 - recorded) / people) / (2 * p - 1)

# %%
assert abs(estimate - true_share) < 4 * error
assert 0.003 < error < 0.006
print(f"recorded {recorded:.3f}, estimate {estimate:.3f} ± {error:.3f}")

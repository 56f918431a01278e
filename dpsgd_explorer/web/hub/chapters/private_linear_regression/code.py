"""Two private fits of one table: noisy statistics, and noisy steps."""

import numpy as np

from dpsgd_explorer.regression import Preprocessing, adassp, noisy_gradient_descent

# Any table will do; the bounds are known without looking at it.
rng = np.random.default_rng(0)
features = rng.uniform(0, 10, (20_000, 3))
prices = features @ [0.2, 0.1, 0.05] + rng.normal(0, 0.2, 20_000)

step = Preprocessing((10.0, 10.0, 10.0), x_bound=1.5, y_bound=4.0, rows="clip")
table = step.apply(features, prices)
bounds = {"x_bound": 1.5, "y_bound": 4.0, "delta": 1e-6}

release = adassp(table.X, table.y, epsilon=1.0, **bounds)
print("AdaSSP", release.theta.round(2), "spent", round(release.epsilon, 6))

path = noisy_gradient_descent(
    table.X, table.y, target_epsilon=1.0, steps=200, public_size=20_000, **bounds
)
print("descent", path.theta.round(2), "spent", round(path.epsilon, 6))

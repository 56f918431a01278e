"""One Gaussian release: epsilon, delta and sigma, each from the other two."""

from dpsgd_explorer.accounting import (
    gaussian_delta,
    gaussian_epsilon,
    gaussian_noise_multiplier,
    round_up,
)

# the least noise for epsilon = 1
sigma = gaussian_noise_multiplier(epsilon=1.0, delta=1e-5)
left = gaussian_delta(epsilon=1.0, noise_multiplier=sigma)
print(f"sigma {round_up(sigma, 4)}: delta at epsilon 1 is {left:.2e}")

for steps in (1, 10, 100):  # composed exactly, and added up
    composed = gaussian_epsilon(delta=1e-5, noise_multiplier=sigma, steps=steps)
    added = steps * gaussian_epsilon(delta=1e-5 / steps, noise_multiplier=sigma)
    print(f"{steps:4} releases: {round_up(composed)} composed, {round_up(added)} added")

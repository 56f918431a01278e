"""Count a run step by step, find the noise for a target, spend a budget."""

import math

from dpsgd_explorer import accounting
from dpsgd_explorer.accounting import round_up

records, batch_size, epochs, delta = 60_000, 256, 60, 1e-5
sample_rate = batch_size / records
length = math.ceil(epochs / sample_rate)

done = [1, 100, 1_000, length]
spent = accounting.epsilon_curve(
    sample_rate=sample_rate, noise_multiplier=1.1, delta=delta, steps=done
)
for steps, epsilon in zip(done, spent, strict=True):
    print(f"{steps:6} steps at sigma 1.1: epsilon {round_up(epsilon)}")

sigma = accounting.noise_multiplier(
    target_epsilon=3.0, sample_rate=sample_rate, steps=length, delta=delta
)
print(f"epsilon 3 after {length:,} steps needs sigma {round_up(sigma, 3)}")

lasts = accounting.steps(
    target_epsilon=2.0, sample_rate=sample_rate, noise_multiplier=1.1, delta=delta
)
print(f"epsilon 2 lasts {lasts:,} steps at sigma 1.1")

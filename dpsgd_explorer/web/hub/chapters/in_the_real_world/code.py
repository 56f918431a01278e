"""From one record to a person with several: chain the inequality."""

import math

from dpsgd_explorer import accounting
from dpsgd_explorer.accounting import round_up

sample_rate, steps, delta = 4096 / 60_000, 300, 1e-5
sigma = accounting.noise_multiplier(
    target_epsilon=1.0, sample_rate=sample_rate, steps=steps, delta=delta
)


def person(records: int) -> float:
    """Return a bound on epsilon for so many records of one person."""
    low, high = 0.0, 10.0
    for _ in range(36):
        one = (low + high) / 2  # an epsilon of one record, and its delta
        chained = sum(math.exp(i * one) for i in range(records))
        run = {"sample_rate": sample_rate, "noise_multiplier": sigma, "steps": steps}
        fits = accounting.delta(**run, epsilon=one) * chained <= delta
        low, high = (low, one) if fits else (one, high)
    return records * high


for records in (1, 2, 5):
    print(f"{records} records: epsilon at most {round_up(person(records))}")

for k in (1, 2, 5):  # one Gaussian release of all records: exact
    exact = accounting.gaussian_epsilon(delta=delta, noise_multiplier=10 / k)
    print(f"sigma 10, {k} records of a person: epsilon {round_up(exact)}")

"""From one record to a person with several: exactly, and for one Gaussian release."""

from dpsgd_explorer import accounting
from dpsgd_explorer.accounting import round_up

sample_rate, steps, delta = 4096 / 60_000, 300, 1e-5
sigma = accounting.noise_multiplier(
    target_epsilon=1.0, sample_rate=sample_rate, steps=steps, delta=delta
)

for records in (1, 2, 5):
    person = accounting.group_epsilon(
        sample_rate=sample_rate,
        noise_multiplier=sigma,
        steps=steps,
        delta=delta,
        records=records,
    )
    print(f"{records} records: epsilon {round_up(person)}")

for k in (1, 2, 5):  # one Gaussian release of all records
    exact = accounting.gaussian_epsilon(delta=delta, noise_multiplier=10 / k)
    print(f"sigma 10, {k} records of a person: epsilon {round_up(exact)}")

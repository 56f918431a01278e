"""Exercise: a person with several records, and a system that runs every day."""

# %% [markdown]
# A total is released with Gaussian noise; one record changes it by at most 1. A
# person with k records changes it by up to k.

# %%
import math

from dpsgd_explorer.accounting import gaussian_epsilon

noise_multiplier, delta = 20.0, 1e-6
record = gaussian_epsilon(delta=delta, noise_multiplier=noise_multiplier)

# Your turn: the noise multiplier that protects a person with 5 records.
for_person = noise_multiplier / 5
person = gaussian_epsilon(delta=delta, noise_multiplier=for_person)

# %%
assert person > 5 * record, "more than five times the ε, as δ stays"
print(f"ε {record:.2f} for a record, {person:.2f} for a person with five")

# %% [markdown]
# The release is repeated every day, on the same people.

# %%
# Your turn: ε of a year, composed exactly.
year = gaussian_epsilon(delta=delta, noise_multiplier=noise_multiplier, steps=365)

# Your turn: the noise multiplier of one release that is as private as the year.
as_one = noise_multiplier / math.sqrt(365)

# %%
assert math.isclose(
    year, gaussian_epsilon(delta=delta, noise_multiplier=as_one), rel_tol=1e-9
)
assert year < 365 * record
print(f"ε {year:.2f} for a year, not {365 * record:.0f}")

"""Exercise: the noise of each update, for two batch sizes."""

# %% [markdown]
# Two trainings have 20 epochs each and end at the same ε. One has small batches, the
# other large ones.

# %%
from dpsgd_explorer import accounting

records, epochs, delta, target = 60_000, 20, 1e-5, 3.0
noise = {}
for batch_size in (256, 4096):
    # Your turn: the probability that a record joins a batch.
    sample_rate = batch_size / records

    # Your turn: the number of steps.
    steps = round(epochs * records / batch_size)

    sigma = accounting.noise_multiplier(
        target_epsilon=target, sample_rate=sample_rate, steps=steps, delta=delta
    )
    # Your turn: noise of an update in units of C, after the division.
    noise[batch_size] = sigma / batch_size
    print(
        f"batch {batch_size}: {steps} steps, σ {sigma:.3f}, {noise[batch_size]:.5f} C"
    )

# %%
assert noise[4096] < noise[256] / 5, "each large update has less noise"

# %% [markdown]
# The mean of all updates of a training has less noise than one of them: divide by the
# square root of their number.

# %%
# Your turn: the noise of the mean update in units of C, for both.
mean = {size: noise[size] / (epochs * records / size) ** 0.5 for size in noise}

# %%
assert mean[4096] < mean[256], "larger batches win over the whole training too,"
assert mean[4096] > mean[256] / 3, "by less"
print({size: f"{value:.1e}" for size, value in mean.items()})

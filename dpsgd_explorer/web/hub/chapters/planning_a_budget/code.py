"""What is left of a budget after a use, what a filter allows, what choosing costs."""

from dpsgd_explorer.accounting import (
    Odometer,
    Phase,
    RdpCurve,
    RenyiFilter,
    best_of_trials,
    noise_multiplier,
    round_up,
)

delta, sample_rate, steps = 1e-5, 4096 / 60_000, 300

used = Odometer()
used.add_gaussian(10.0, label="a table of counts")
used.add_dp_sgd(sample_rate, 4.0, steps, label="a first run")
left = used.noise_multiplier(
    target_epsilon=3.0, sample_rate=sample_rate, steps=steps, delta=delta
)
print(f"spent {round_up(used.epsilon(delta))}; sigma {round_up(left, 3)} keeps to 3")

purse = RenyiFilter(3.0, delta)  # a budget for steps that are chosen on the way
noise, done = 4.0, 0
while purse.affords(sample_rate, noise):
    purse.spend(sample_rate, noise)  # before the step
    done += 1
    noise = max(1.5, 0.99 * noise)  # may depend on all that was released
print(f"the filter stops after {done} steps")

sigma = noise_multiplier(
    target_epsilon=1.0, sample_rate=sample_rate, steps=steps, delta=delta
)
run = RdpCurve.of([Phase(sample_rate, sigma, steps)])
best = best_of_trials(run, mean_trials=20).epsilon(delta)
print(f"best of about 20 runs at epsilon 1: epsilon {round_up(best)}")

"""At one epsilon and one length: the noise that each batch size needs."""

from dpsgd_explorer.accounting import Plan, round_up

print("batch  steps  sigma  noise per update, in units of C")
for batch_size in (64, 256, 1024, 4096):
    plan = Plan.create(
        sample_size=60_000,
        expected_batch_size=batch_size,
        epochs=20,
        target_epsilon=3.0,
        delta=1e-5,
        accountant="exact",
    )
    sigma = plan.noise_multiplier
    needed, share = round_up(sigma, 3), sigma / batch_size
    print(f"{batch_size:5}  {plan.steps:5}  {needed}  {share:.5f}")
    assert round_up(plan.epsilon()) == "3.00"

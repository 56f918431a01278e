import math

import mpmath as mp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsgd_explorer.accounting import (
    epsilon,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_noise_multiplier,
)
from dpsgd_explorer.errors import AccountingError

EPSILONS = st.floats(1e-3, 1e3)
LOG_DELTAS = st.floats(math.log(1e-30), math.log(0.5))
LOG_NOISES = st.floats(math.log(0.05), math.log(1e5))
STEPS = st.integers(1, 10**6)
PROPERTY = settings(deadline=None, derandomize=True, max_examples=150)


def direct_delta(loss, noise, steps):
    """Φ(-ε/μ + μ/2) - e^ε Φ(-ε/μ - μ/2) with 80 digits."""
    with mp.workdps(80):
        mu = mp.sqrt(steps) / mp.mpf(noise)
        below, above = -loss / mu + mu / 2, -loss / mu - mu / 2
        return float(mp.ncdf(below) - mp.exp(loss) * mp.ncdf(above))


@pytest.mark.parametrize(
    ("loss", "noise", "steps"),
    [
        (0.0, 1.0, 1),
        (1.0, 1.0, 1),
        (4.377, 10.0, 100),
        (30.0, 1.0, 1),
        (0.5, 40.0, 10),
        (0.0, 1e8, 4),
        (1e-7, 1e8, 4),
        (3e-6, 1e6, 1),
        (2e-3, 1e4, 1),
        (100.0, 0.01, 1),
        (5100.0, 0.01, 1),
    ],
)
def test_delta_equals_the_formula_in_many_digits(loss, noise, steps):
    ours = gaussian_delta(epsilon=loss, noise_multiplier=noise, steps=steps)
    assert ours == pytest.approx(direct_delta(loss, noise, steps), rel=1e-9, abs=0)


@PROPERTY
@given(LOG_DELTAS, LOG_NOISES, STEPS)
def test_epsilon_is_the_least_that_keeps_delta(log_delta, log_noise, steps):
    delta, noise = math.exp(log_delta), math.exp(log_noise)
    loss = gaussian_epsilon(delta=delta, noise_multiplier=noise, steps=steps)
    assert gaussian_delta(
        epsilon=loss, noise_multiplier=noise, steps=steps
    ) <= delta * (1 + 1e-9)
    if loss > 0:
        assert (
            gaussian_delta(epsilon=loss * 0.999, noise_multiplier=noise, steps=steps)
            > delta
        )


@PROPERTY
@given(EPSILONS, LOG_DELTAS, STEPS)
def test_noise_meets_its_target_and_a_thousandth_less_does_not(loss, log_delta, steps):
    delta = math.exp(log_delta)
    noise = gaussian_noise_multiplier(epsilon=loss, delta=delta, steps=steps)
    assert gaussian_delta(epsilon=loss, noise_multiplier=noise, steps=steps) <= delta
    assert (
        gaussian_delta(epsilon=loss, noise_multiplier=0.999 * noise, steps=steps)
        > delta
    )


@PROPERTY
@given(LOG_DELTAS, st.floats(math.log(0.3), math.log(1e3)), STEPS)
def test_rdp_never_falls_below_the_exact_value(log_delta, log_noise, steps):
    delta, noise = math.exp(log_delta), math.exp(log_noise)
    assert epsilon(
        sample_rate=1,
        noise_multiplier=noise,
        steps=steps,
        delta=delta,
        accountant="rdp",
    ) >= gaussian_epsilon(delta=delta, noise_multiplier=noise, steps=steps)


def test_steps_only_matter_as_their_root_over_the_noise():
    assert gaussian_epsilon(
        delta=1e-5, noise_multiplier=20, steps=400
    ) == gaussian_epsilon(delta=1e-5, noise_multiplier=1)


def test_ends_of_the_scale():
    assert gaussian_delta(epsilon=1.0, noise_multiplier=1.0, steps=0) == 0
    assert gaussian_epsilon(delta=1e-5, noise_multiplier=1.0, steps=0) == 0
    assert gaussian_delta(epsilon=1.0, noise_multiplier=0.0) == 1
    assert gaussian_epsilon(delta=1e-5, noise_multiplier=0.0) == math.inf
    assert (
        gaussian_epsilon(delta=0.9, noise_multiplier=1.0) == 0
    )  # total variation is 0.38


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda: gaussian_delta(epsilon=-1, noise_multiplier=1), "epsilon"),
        (
            lambda: gaussian_delta(epsilon=1, noise_multiplier=math.nan),
            "noise_multiplier",
        ),
        (lambda: gaussian_epsilon(delta=0, noise_multiplier=1), "delta"),
        (lambda: gaussian_epsilon(delta=1e-5, noise_multiplier=1, steps=1.5), "steps"),
        (lambda: gaussian_noise_multiplier(epsilon=0, delta=1e-5), "epsilon"),
        (lambda: gaussian_noise_multiplier(epsilon=1, delta=1e-5, steps=0), "steps"),
        (lambda: gaussian_noise_multiplier(epsilon=1e-300, delta=1e-20), "epsilon"),
    ],
)
def test_errors_name_the_argument(call, field):
    with pytest.raises(AccountingError, match=f"^{field} must be ") as caught:
        call()
    assert caught.value.field == field
